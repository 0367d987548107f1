"""Look-ups in compiled chunks that the executor needs again and again."""

from __future__ import annotations

from dataclasses import dataclass

from proteus.compiler.chain import Chunk, Link
from proteus.compiler.graph import ExecutionGraph
from proteus.compiler.offload import offloaded_activations
from proteus.compiler.program import BlockProgram, Compute, Instruction
from proteus.compiler.state import ParameterState, StateMove, copy_moves, states
from proteus.compiler.steps import phases
from proteus.verify.place import Place, place_of


@dataclass(frozen=True, slots=True)
class LinkView:
    """A link with its parameters by value and by gradient.

    Parameters
    ----------
    parameter_of, gradient_of
        Value id → parameter whose value, or gradient, it is.
    kept, offloaded
        Values that live from the forward to the backward, and those of them
        that wait on the host.
    """

    link: Link
    parameter_of: dict[int, ParameterState]
    gradient_of: dict[int, ParameterState]
    data: frozenset[int]
    kept: frozenset[int]
    offloaded: frozenset[int]

    @property
    def program(self) -> BlockProgram:
        return self.link.program

    def key(self, copy: int, state: ParameterState) -> str:
        """The path of the parameter's owner."""
        return state.parameter.tied_to or f"{self.link.path(copy)}.{state.parameter.name}"


class Chunks:
    """The chunks of a graph, their links viewed."""

    def __init__(self, graph: ExecutionGraph) -> None:
        self.chunks = graph.chunks
        self.is_split = graph.schedule.is_split
        self.gathers_apart = not graph.framework.prefetches
        self.views = [[_view(link) for link in chunk.links] for chunk in graph.chunks]
        self._places: dict[tuple[int, str, tuple[str | None, ...], tuple[int, ...]], Place] = {}

    def view(self, chunk: int, link: int) -> LinkView:
        return self.views[chunk][link]

    def instruction(self, chunk: int, link: int, phase: int, part: int) -> Instruction:
        return phases(self.view(chunk, link).program, self.is_split[chunk])[phase].instructions[part]

    def move(self, chunk: int, link: int, part: int, shift: int, *, is_gather: bool) -> StateMove:
        """The parameter gather or gradient reduction that a step of a copy carries out."""
        of = self.view(chunk, link).link
        moves = copy_moves(of, has_gathers=is_gather, has_reductions=not is_gather, apart=self.gathers_apart)
        return moves[-1 - part - (0 if is_gather else shift)][0]

    def next_copy(self, chunk: int, link: int, copy: int) -> tuple[int, int, int] | None:
        """The copy that runs after one in the forward, or None at the end of the pipeline rank's part."""
        links = self.chunks[chunk].links
        if copy + 1 < links[link].count:
            return chunk, link, copy + 1
        if link + 1 < len(links):
            return chunk, link + 1, 0
        if chunk + 1 < len(self.chunks) and self.chunks[chunk + 1].rank == self.chunks[chunk].rank:
            return chunk + 1, 0, 0
        return None

    def copy_before(self, chunk: int, link: int, copy: int) -> tuple[int, int, int] | None:
        """The copy that runs before one in the forward."""
        if copy:
            return chunk, link, copy - 1
        if link:
            return chunk, link - 1, self.chunks[chunk].links[link - 1].count - 1
        if chunk and self.chunks[chunk - 1].rank == self.chunks[chunk].rank:
            return self.last(chunk - 1)
        return None

    def last(self, chunk: int) -> tuple[int, int, int]:
        links: tuple[Link, ...] = self.chunks[chunk].links
        return chunk, len(links) - 1, links[-1].count - 1

    def place(self, program: BlockProgram, compute: Compute, coordinate: tuple[int, ...]) -> Place:
        key = (id(program), compute.op.name, compute.cut, coordinate)
        if key not in self._places:
            self._places[key] = place_of(program, compute.op, compute.cut, coordinate)
        return self._places[key]


def own_chunks(chunks: tuple[Chunk, ...], rank: int) -> list[Chunk]:
    return [chunk for chunk in chunks if chunk.rank == rank]


def _view(link: Link) -> LinkView:
    link_states = states(link)
    on_host = offloaded_activations(link)
    return LinkView(
        link=link,
        parameter_of={s.parameter.value: s for s in link_states},
        gradient_of={s.parameter.gradient: s for s in link_states if s.parameter.gradient >= 0},
        data=frozenset(link.program.data),
        kept=frozenset(link.program.kept),
        offloaded=frozenset(v for v in link.program.kept if link.program.values[v].tensor in on_host),
    )
