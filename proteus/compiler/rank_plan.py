"""Fifth pass: everything that one pipeline rank runs in a step, in program order.

    before   parameters gathered for the first forward (ZeRO with overlap)
    actions  F, B and W of its chunks, as the schedule orders them
    sync     gradients reduced in buckets, beside the last backward
    update   the optimizer
    after    updated parameters gathered (ZeRO-1, 2)

The steps of an action are the chunk's phase, placed with numpy once per
micro-batch; no Python loop runs over micro-batches or layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from proteus.compiler.chain import Chunk, Link
from proteus.compiler.kinds import SpanKind
from proteus.compiler.memory import phase_memory
from proteus.compiler.offload import activation_bytes, offloaded_parameters, on_host, parameter_bytes, update_bytes
from proteus.compiler.phases import ChunkPhase, CopySteps, concatenate
from proteus.compiler.program import BlockProgram, Move
from proteus.compiler.state import (
    ParameterState,
    StateMove,
    copy_moves,
    is_held,
    reduction_steps,
    states,
    updated,
)
from proteus.compiler.steps import PORT, STREAMS, Phase, phases, reads, runs_weights_apart
from proteus.compiler.tables import HOST_COPIES, ROOT, CommRow, HostCopy, Node, OpRow, Tables
from proteus.costs.optimizer import optimizer_works
from proteus.costs.precision import Precision
from proteus.costs.profile import Profile
from proteus.identity import Keyed
from proteus.mesh import Mesh
from proteus.strategy.config import Training
from proteus.strategy.schedules.plan import B, F, W

#: copy and micro-batch of steps that belong to none
NONE = -1
#: `part` of host copies: what they copy
HOST_PARAMETERS, HOST_ACTIVATIONS = -1, -2
#: `part` of a step that is an earlier piece of what a later step completes
PIECE = -(2**20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tied:
    """A parameter that two pipeline ranks both hold: their gradients are added up.

    `items` are (chunk, link, copy, parameter) on each of the two.
    """

    ranks: tuple[int, int]
    comm: CommRow
    items: tuple[tuple[int, int, int, ParameterState], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlan:
    """The steps of one pipeline rank.

    Parameters
    ----------
    is_comm, ref
        bool, int32 [steps]: communication row or (own) segment row.
    row
        int32[steps]: the same by the plan's own count, its communication rows
        first and its segments behind them.
    chunk, link, copy, micro_batch, phase
        int32[steps]: where a step comes from; NONE for the optimizer and the
        reductions after the last backward.  `phase` is F, B, W or NONE.
    part
        int32[steps]: first instruction of the phase that a step carries out;
        -1 - k for the k-th of :func:`~proteus.compiler.state.copy_moves`;
        HOST_PARAMETERS or HOST_ACTIVATIONS for a host copy; PIECE for all but
        the last step of an instruction that runs in pieces.
    moves
        step → what a collective outside the actions moves: gradients in
        buckets, tied parameters, updated parameters.
    edges
        int32[edges, 2]: (waits for, step), sorted by step.
    alloc_bytes, free_bytes
        float64[steps].
    comms, rows, comm_counts
        Its communication rows, where they stand in the common table, and how
        many steps refer to each.
    stream_steps
        Stream name → its steps in program order.
    sends_out, sends_in
        (chunk, kind) → for every micro-batch the steps that make, or wait
        for, what passes between chunks: int64[micro-batches, k].
    action_first
        (chunk, kind) → int64[micro-batches]: first step of the action, and
        `action_next` the first step of the action after it (-1 at the end).
    """

    rank: int
    is_comm: np.ndarray
    ref: np.ndarray
    row: np.ndarray
    chunk: np.ndarray
    link: np.ndarray
    copy: np.ndarray
    micro_batch: np.ndarray
    phase: np.ndarray
    part: np.ndarray
    edges: np.ndarray
    alloc_bytes: np.ndarray
    free_bytes: np.ndarray
    sends_out: Mapping[tuple[int, int], np.ndarray]
    sends_in: Mapping[tuple[int, int], np.ndarray]
    action_next: Mapping[tuple[int, int], np.ndarray]
    segments: list[list[OpRow]]
    comms: tuple[CommRow, ...]
    comm_counts: np.ndarray
    stream_steps: Mapping[str, np.ndarray]
    rows: np.ndarray
    moves: Mapping[int, StateMove]
    optimizer_step: int

    @property
    def num_steps(self) -> int:
        return len(self.is_comm)


@dataclass(slots=True)
class _Writer:
    """Steps being appended after the actions (or before them)."""

    is_comm: list[bool] = field(default_factory=list)
    ref: list[int] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    chunk: list[int] = field(default_factory=list)
    moves: dict[int, StateMove] = field(default_factory=dict)
    base: int = 0

    def add(
        self, is_comm: bool, ref: int, preds: Sequence[int], chunk: int = NONE, move: StateMove | None = None
    ) -> int:
        self.is_comm.append(is_comm)
        self.ref.append(ref)
        self.chunk.append(chunk)
        step = self.base + len(self.ref) - 1
        self.edges.extend((int(p), step) for p in preds if p >= 0)
        if move is not None:
            self.moves[step] = move
        return step


_BucketKey = tuple[Mesh, tuple[str, ...], tuple[str, ...]]


@dataclass(slots=True)
class _Open:
    """A bucket being filled."""

    node: Node
    size_bytes: float = 0.0
    wait: int = -1
    items: list[tuple[int, int, int, ParameterState]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Pending:
    """A link whose gradients are complete: `ends` are the last steps of its copies."""

    chunk: Chunk
    number: int
    ends: np.ndarray


class RankPlanner:
    """Plans the ranks of one tree."""

    def __init__(
        self,
        chunks: Sequence[Chunk],
        training: Training,
        precision: Precision,
        profile: Profile,
        is_split: frozenset[int],
        tied: Sequence[Tied] = (),
    ) -> None:
        self.chunks = chunks
        self.training = training
        self.precision = precision
        self.profile = profile
        self.is_split = is_split
        self.tied = tied

    def plan(self, rank: int, chunk: np.ndarray, kind: np.ndarray, micro: np.ndarray) -> RankPlan:
        """The plan of pipeline rank `rank`, whose actions are given in columns; remembered."""
        own = [c for c in self.chunks if c.rank == rank]
        key = Keyed(
            self,
            tuple(c.key for c in own),
            self.training,
            self.precision,
            self.profile,
            frozenset(c.index for c in own) & self.is_split,
            tuple(tied.comm for tied in self.tied if rank in tied.ranks),
        )
        return _planned(key, rank, *(Keyed(column, column.tobytes()) for column in (chunk, kind, micro)))

    def make(self, rank: int, chunk: np.ndarray, kind: np.ndarray, micro: np.ndarray) -> RankPlan:
        """The plan, made anew."""
        tables = self.tables = Tables()
        own = [c for c in self.chunks if c.rank == rank]
        made = {(c.index, k): self._phase(c, k, tables) for c in own for k in (F, B, W)}
        before = _Writer()
        gathers = self._gather_before(own, before)
        lengths = np.zeros(len(kind), np.int64)
        for (index, k), phase in made.items():
            lengths[(chunk == index) & (kind == k)] = phase.num_steps
        starts = len(before.ref) + np.concatenate([[0], np.cumsum(lengths)])
        total = int(starts[-1])
        columns = _Columns(total)
        columns.head(before)
        edges: list[np.ndarray] = [np.array(before.edges, np.int64).reshape(-1, 2)]
        outs, ins, nexts, firsts = {}, {}, {}, {}
        for (index, k), phase in made.items():
            at = np.flatnonzero((chunk == index) & (kind == k))
            if not len(at) or not phase.num_steps:
                continue
            order = at[np.argsort(micro[at], kind="stable")]
            first = firsts[(index, k)] = starts[order]
            columns.place(phase, first, index, k)
            edges.append((first[:, None, None] + phase.edges[None]).reshape(-1, 2))
            outs[(index, k)] = first[:, None] + np.array(phase.outputs, np.int64)[None, :]
            ins[(index, k)] = first[:, None] + phase.waits[None, :]
            after = starts[order + 1]
            nexts[(index, k)] = np.where(after < total, after, -1)
        edges.extend(_after_the_backward(made, firsts, columns.is_comm))
        edges.extend(self._there_and_back(own, made, firsts))
        edges.extend(self._parameter_edges(gathers, made, starts, chunk, kind))
        tail = _Writer(base=total)
        step = self._finish(own, made, starts, chunk, kind, tail, tables)
        columns.tail(tail)
        edges.append(np.array(tail.edges, np.int64).reshape(-1, 2))
        return RankPlan(
            rank=rank,
            is_comm=columns.is_comm,
            ref=columns.ref,
            row=np.where(columns.is_comm, columns.ref, columns.ref + len(tables.comms)),
            chunk=columns.chunk,
            link=columns.link,
            copy=columns.copy,
            micro_batch=columns.micro,
            phase=columns.phase,
            part=columns.part,
            edges=_by_target(np.concatenate(edges)),
            alloc_bytes=columns.alloc,
            free_bytes=columns.free,
            sends_out=outs,
            sends_in=ins,
            action_next=nexts,
            segments=tables.segments,
            comms=tuple(tables.comms),
            comm_counts=np.bincount(columns.ref[columns.is_comm], minlength=len(tables.comms)),
            stream_steps=_stream_steps(columns.is_comm, columns.ref, tables.comms),
            rows=np.arange(len(tables.comms), dtype=np.int32),
            moves={**before.moves, **tail.moves},
            optimizer_step=step,
        )

    # -- phases ------------------------------------------------------------

    def _phase(self, chunk: Chunk, kind: int, tables: Tables) -> ChunkPhase:
        is_split = chunk.index in self.is_split
        templates = []
        for link in chunk.links:
            phase, apart = phases(link.program, is_split)[kind], runs_weights_apart(link.program, is_split)
            templates.append((self._copy(link, phase, kind, apart, tables), link.count))
        return concatenate(templates, is_reversed=kind != F)

    def _copy(self, link: Link, phase: Phase, kind: int, is_split: bool, tables: Tables) -> CopySteps:
        """One copy of a block in one phase, with its parameter gathers and gradient reductions."""
        program = link.program
        is_comm: list[bool] = []
        ref: list[int] = []
        edges: list[tuple[int, int]] = []
        part: list[int] = []
        uses = kind != W or _reads_parameters(program, phase)
        brought = self._copies_in(link, kind, uses)
        copies = [tables.comm(row) for row, _ in brought]
        gather = [tables.comm(row) for row in self._move_rows(link, has_gathers=uses, has_reductions=False)]
        shift = len(copies) + len(gather)
        is_comm += [True] * shift
        ref += [*copies, *gather]
        part += [what for _, what in brought] + [-1 - k for k in range(len(gather))]
        edges.extend((c, len(copies) + g) for c in range(len(copies)) for g in range(len(gather)))
        for number, step in enumerate(phase.steps):
            at = shift + number
            node = self._node(link, phase, step.instructions[0])
            part.append(step.instructions[0] if step.is_last else PIECE)
            if step.is_comm:
                is_comm.append(True)
                move = phase.instructions[step.instructions[0]]
                assert isinstance(move, Move)
                ref.append(tables.comm(tables.move_row(program, move, node, step.share)))
            else:
                is_comm.append(False)
                rows = [
                    tables.op_row(program, phase.instructions[i], self._node(link, phase, i), step.share, step.is_last)
                    for i in step.instructions
                ]
                ref.append(tables.segment(rows))
            edges.extend((p if p == PORT else p + shift, at) for p in step.preds)
        computes = [i for i, comm in enumerate(is_comm) if not comm]
        if computes:
            edges.extend((g, computes[0]) for g in range(shift))
            # collectives before the first computation read what came from the host, too
            edges.extend((c, at) for c in range(len(copies)) for at in range(shift, computes[0]))
        reduce: list[int] = []
        if kind == (W if is_split else B) and computes:
            reduce = [tables.comm(row) for row in self._move_rows(link, has_gathers=False, has_reductions=True)]
            for number, row in enumerate(reduce):
                is_comm.append(True)
                ref.append(row)
                part.append(-1 - len(gather) - number)
                edges.append((computes[-1], len(ref) - 1))
        if kind == F and computes:
            for copy in self._copies_out(link):
                is_comm.append(True)
                ref.append(tables.comm(copy))
                part.append(HOST_ACTIVATIONS)
                edges.append((computes[-1], len(ref) - 1))
        alloc, free = phase_memory(link, phase, kind, is_split, len(ref), shift, self.precision, self.profile)
        return CopySteps(
            is_comm=np.array(is_comm, bool),
            ref=np.array(ref, np.int32),
            part=np.array(part, np.int32),
            edges=np.array(edges, np.int64).reshape(-1, 2),
            outputs=tuple(o if o == PORT else o + shift for o in phase.outputs),
            brought=tuple(range(shift)) if not copies else tuple(range(len(copies))),
            reduction=len(ref) - 1 if reduce else -1,
            alloc_bytes=alloc,
            free_bytes=free,
        )

    def _node(self, link: Link, phase: Phase, instruction: int) -> Node:
        return (link.run.path, phase.instructions[instruction].op.name)

    def _block_node(self, link: Link) -> Node:
        return (link.run.path, "")

    # -- host memory ----------------------------------------------------------

    def _copies_in(self, link: Link, kind: int, reads_parameters: bool) -> list[tuple[CommRow, int]]:
        """What comes from the host before a phase, with its `part`."""
        mesh, name, node = link.program.mesh, link.run.block.name, self._block_node(link)
        rows = []
        if reads_parameters and (size := parameter_bytes(link, self.precision)):
            row = self.tables.copy_row(mesh, HostCopy.FROM_HOST, size, f"parameters of {name} from host", node)
            rows.append((row, HOST_PARAMETERS))
        if kind == B and (size := activation_bytes(link)):
            row = self.tables.copy_row(mesh, HostCopy.FROM_HOST, size, f"activations of {name} from host", node)
            rows.append((row, HOST_ACTIVATIONS))
        return rows

    def _there_and_back(
        self,
        own: Sequence[Chunk],
        made: Mapping[tuple[int, int], ChunkPhase],
        first: Mapping[tuple[int, int], np.ndarray],
    ) -> list[np.ndarray]:
        """Activations come back from the host only after they went there."""
        copies = np.array([row.kind in HOST_COPIES for row in self.tables.comms], bool)
        found = []
        for c in own:
            if (c.index, F) not in first or (c.index, B) not in first or not copies.any():
                continue
            places = {}
            for kind in (F, B):
                phase = made[(c.index, kind)]
                at = np.flatnonzero(phase.is_comm & (phase.part == HOST_ACTIVATIONS))
                at = at[copies[phase.ref[at]]]
                places[kind] = at[np.lexsort((phase.copy[at], phase.link[at]))]
            pairs = [first[(c.index, kind)][:, None] + places[kind][None, :] for kind in (F, B)]
            found.append(np.stack(pairs, axis=2).reshape(-1, 2))
        return found

    def _copies_out(self, link: Link) -> list[CommRow]:
        """What goes to the host after a forward."""
        size = activation_bytes(link)
        if not size:
            return []
        what = f"activations of {link.run.block.name} to host"
        return [self.tables.copy_row(link.program.mesh, HostCopy.TO_HOST, size, what, self._block_node(link))]

    def _update_on_host(self, own: Sequence[Chunk], writer: _Writer, preds: Sequence[int]) -> list[int]:
        """Gradients to the host, the update there, parameters back; the last step."""
        links = [link for c in own for link in c.links]
        numel = offloaded_parameters(links)
        if not numel:
            return []
        mesh, precision = own[0].mesh, self.precision
        moves = (
            (HostCopy.TO_HOST, numel * precision.grad_bytes, "gradients to host"),
            (HostCopy.UPDATE, update_bytes(numel, self.training.optimizer, precision), "update on host"),
            (HostCopy.FROM_HOST, numel * precision.param_bytes, "parameters from host"),
        )
        last = list(preds)
        for kind, size, what in moves:
            last = [writer.add(True, self.tables.comm(self.tables.copy_row(mesh, kind, size, what, ROOT)), last)]
        return last

    # -- parameters and gradients -------------------------------------------

    def _move_rows(self, link: Link, *, has_gathers: bool, has_reductions: bool) -> list[CommRow]:
        """The collectives of :func:`copy_moves`."""
        name, node = link.run.block.name, self._block_node(link)
        rows = []
        for move, numel in copy_moves(link, has_gathers=has_gathers, has_reductions=has_reductions):
            # FSDP gathers in the compute precision whatever the master copy is
            gathers = move.kind == "all_gather"
            size = numel * (self.precision.activation_bytes if gathers else self.precision.reduce_bytes)
            what = (
                ("parameter", f"all_gather parameters of {name}")
                if gathers
                else ("gradient", f"{move.kind} gradients of {name}")
            )
            rows.append(self.tables.state_row(link.program.mesh, move.axes, move.kind, size, *what, node))
        return rows

    def _gather_before(self, own: Sequence[Chunk], writer: _Writer) -> dict[tuple[int, int], list[int]]:
        """Parameters gathered beside the first forward; (chunk, link) → steps."""
        found: dict[tuple[int, int], list[int]] = {}
        if not self.training.overlap_parameters:
            return found
        for chunk in own:
            for number in range(len(chunk.links)):
                for row, move in self._updated_rows(chunk, number):
                    step = writer.add(True, self.tables.comm(row), [], chunk.index, move)
                    found.setdefault((chunk.index, number), []).append(step)
        return found

    def _updated_rows(self, chunk: Chunk, number: int) -> list[tuple[CommRow, StateMove]]:
        """all_gathers of parameters whose update was cut (ZeRO-1 and 2)."""
        link, rows = chunk.links[number], []
        name, node = f"all_gather updated {link.run.block.name}", self._block_node(link)
        every = [other for c in self.chunks if c.rank == chunk.rank for other in c.links]
        for axes, members in updated(link).items():
            held = [s for s in members if is_held(s, every)]
            if not held:
                continue
            size = sum(s.numel for s in held) * self.precision.param_bytes * link.count
            size /= link.program.mesh.degree(held[0].kept["parameter"])
            row = self.tables.state_row(link.program.mesh, axes, "all_gather", size, "parameter", name, node)
            items = tuple((chunk.index, number, copy, s) for copy in range(link.count) for s in held)
            rows.append((row, StateMove(kind="all_gather", axes=axes, items=items)))
        return rows

    def _parameter_edges(
        self,
        gathers: Mapping[tuple[int, int], list[int]],
        made: Mapping[tuple[int, int], ChunkPhase],
        starts: np.ndarray,
        chunk: np.ndarray,
        kind: np.ndarray,
    ) -> list[np.ndarray]:
        found = []
        for (index, link), before in gathers.items():
            phase = made[(index, F)]
            at = np.flatnonzero((chunk == index) & (kind == F))
            steps = np.flatnonzero((phase.link == link) & ~phase.is_comm)
            if len(at) and len(steps):
                first = starts[at[0]] + steps[0]
                found.append(np.array([[step, first] for step in before], np.int64))
        return found

    # -- after the last backward ---------------------------------------------

    def _finish(
        self,
        own: Sequence[Chunk],
        made: Mapping[tuple[int, int], ChunkPhase],
        starts: np.ndarray,
        chunk: np.ndarray,
        kind: np.ndarray,
        writer: _Writer,
        tables: Tables,
    ) -> int:
        """Reductions, optimizer and updated parameters; returns the optimizer's step."""
        last_overall = int(starts[-1]) - 1
        # streams run in order: after the last reduction within the actions come all of them
        waits = [last_overall, self._last_reduction(made, starts, chunk, kind)]
        pending: list[_Pending] = []
        for c in own:
            for number in range(len(c.links) - 1, -1, -1):
                k = W if runs_weights_apart(c.links[number].program, c.index in self.is_split) else B
                at = np.flatnonzero((chunk == c.index) & (kind == k))
                ends = made[(c.index, k)].copy_last[number]
                if len(at) and len(ends):
                    ends = np.where(ends >= 0, int(starts[at[-1]]) + ends, last_overall)
                    pending.append(_Pending(c, number, ends))
        pending.sort(key=lambda item: int(item.ends.max()))
        syncs = self._bucketed(own, pending, writer, tables, last_overall)
        for tied in self.tied:
            if own and own[0].rank in tied.ranks:
                items = (tied.items[tied.ranks.index(own[0].rank)],)
                move = StateMove(kind="all_reduce", axes=(), items=items)
                syncs.append(writer.add(True, self.tables.comm(tied.comm), [last_overall], NONE, move))
        optimizer = self._optimizer(own, writer, tables, [*waits, *syncs[-1:]])
        updated = [optimizer, *self._update_on_host(own, writer, [*waits, *syncs[-1:]])]
        if not self.training.overlap_parameters:
            for c in own:
                for number in range(len(c.links)):
                    for row, move in self._updated_rows(c, number):
                        writer.add(True, self.tables.comm(row), updated, c.index, move)
        return optimizer

    @staticmethod
    def _last_reduction(
        made: Mapping[tuple[int, int], ChunkPhase], starts: np.ndarray, chunk: np.ndarray, kind: np.ndarray
    ) -> int:
        """The last step that reduces gradients within the actions, or -1."""
        last = -1
        for (index, k), phase in made.items():
            at = np.flatnonzero((chunk == index) & (kind == k))
            if len(at) and phase.last_reduction >= 0:
                last = max(last, int(starts[at[-1]]) + phase.last_reduction)
        return last

    def _bucketed(
        self,
        own: Sequence[Chunk],
        pending: Sequence[_Pending],
        writer: _Writer,
        tables: Tables,
        last_overall: int,
    ) -> list[int]:
        """Reductions of whole gradients, in buckets filled in the order of the backward."""
        limit = self.training.bucket_bytes
        every = [link for c in own for link in c.links]
        open_: dict[_BucketKey, _Open] = {}
        steps: list[int] = []
        tensor: list[tuple[Chunk, int, tuple[str, ...], list[ParameterState]]] = []

        def close(key: _BucketKey) -> None:
            bucket = open_.pop(key)
            mesh, data, kept = key
            wait, size = bucket.wait if self.training.overlap_gradients else last_overall, bucket.size_bytes
            for kind, axes in reduction_steps(data, kept):
                name = f"{kind} gradients ({len(bucket.items)} tensors)"
                row = tables.state_row(mesh, axes, kind, size, "gradient", name, bucket.node)
                move = StateMove(kind=kind, axes=axes, items=tuple(bucket.items))
                steps.append(writer.add(True, tables.comm(row), [wait], bucket.items[0][0], move))
                if kind == "reduce_scatter":
                    size /= mesh.degree(axes)

        shared = self._shared(every, pending)
        for item in pending:
            link = item.chunk.links[item.number]
            # a tied copy beside its owner adds to the owner's gradient
            found = [s for s in states(link) if s.parameter.gradient >= 0 and is_held(s, every)]
            for axes in dict.fromkeys(s.tensor_axes for s in found if s.tensor_axes):
                tensor.append((item.chunk, item.number, axes, [s for s in found if s.tensor_axes == axes]))
            groups: dict[_BucketKey, list[ParameterState]] = {}
            for s in found:
                if s.data_axes and not s.kept["gradient"]:
                    groups.setdefault((link.program.mesh, s.data_axes, s.reduce_axes), []).append(s)
            for copy in range(link.count - 1, -1, -1):
                for key, members in groups.items():
                    bucket = open_.get(key) or open_.setdefault(key, _Open(node=self._block_node(link)))
                    bucket.size_bytes += sum(s.numel for s in members) * self.precision.reduce_bytes
                    bucket.items.extend((item.chunk.index, item.number, copy, s) for s in members)
                    bucket.wait = max(bucket.wait, int(item.ends[copy]))
                    if shared:
                        paths = (f"{link.path(copy)}.{s.parameter.name}" for s in members)
                        bucket.wait = max(bucket.wait, *(shared.get(path, -1) for path in paths))
                    if bucket.size_bytes >= limit:
                        close(key)
        for key in list(open_):
            close(key)
        for c, number, axes, members in tensor:
            link = c.links[number]
            mesh = link.program.mesh
            numel = sum(s.numel / mesh.degree(s.kept["gradient"]) for s in members) * link.count
            row = self.tables.state_row(
                mesh, axes, "all_reduce", numel * self.precision.reduce_bytes, "gradient",
                f"all_reduce gradients over {'×'.join(axes)}", self._block_node(link),
            )  # fmt: skip
            items = tuple((c.index, number, copy, s) for copy in range(link.count) for s in members)
            move = StateMove(kind="all_reduce", axes=axes, items=items)
            steps.append(writer.add(True, tables.comm(row), [last_overall], c.index, move))
        return steps

    @staticmethod
    def _shared(every: Sequence[Link], pending: Sequence[_Pending]) -> dict[str, int]:
        """Owner's path → last step of the copies tied to it on this rank."""
        found: dict[str, int] = {}
        for item in pending:
            for s in states(item.chunk.links[item.number]):
                path = s.parameter.tied_to
                if path is not None and not is_held(s, every):
                    found[path] = max(found.get(path, -1), int(item.ends.max()))
        return found

    def _optimizer(self, own: Sequence[Chunk], writer: _Writer, tables: Tables, preds: Sequence[int]) -> int:
        numel = 0.0
        every = [link for c in own for link in c.links]
        for c in own:
            for link in c.links:
                mesh = link.program.mesh
                numel += link.count * sum(
                    s.numel / mesh.degree(s.kept["optimizer"])
                    for s in states(link)
                    if s.parameter.gradient >= 0 and is_held(s, every) and not on_host(s)
                )
        kernels = optimizer_works(numel, self.training.optimizer, self.precision, self.profile)
        row = OpRow(None, None, kernels, f"{self.training.optimizer} update", ROOT, SpanKind.OPTIMIZER)
        return writer.add(False, tables.segment([row]), preds)


def _stream_steps(is_comm: np.ndarray, ref: np.ndarray, comms: Sequence[CommRow]) -> dict[str, np.ndarray]:
    """The steps of every stream, in order."""
    streams = np.array([STREAMS.index(row.stream) for row in comms], np.int64)
    stream = np.zeros(len(ref), np.int64)
    stream[is_comm] = streams[ref[is_comm]] if len(comms) else 0
    found = {name: np.flatnonzero(stream == number) for number, name in enumerate(STREAMS)}
    return {name: steps for name, steps in found.items() if len(steps)}


def _by_target(edges: np.ndarray) -> np.ndarray:
    return edges[np.argsort(edges[:, 1], kind="stable")].astype(np.int32)


@lru_cache(maxsize=64)
def _planned(key: Keyed[RankPlanner], rank: int, *columns: Keyed[np.ndarray]) -> RankPlan:
    return key.value.make(rank, *(column.value for column in columns))


def share_rows(plans: Sequence[RankPlan]) -> tuple[tuple[RankPlan, ...], tuple[CommRow, ...]]:
    """The plans with one common table of communication rows."""
    at: dict[CommRow, int] = {}
    shared = []
    for plan in plans:
        rows = np.array([at.setdefault(row, len(at)) for row in plan.comms], np.int32)
        ref = np.where(plan.is_comm, rows.take(plan.row, mode="clip"), plan.ref) if len(rows) else plan.ref
        shared.append(replace(plan, ref=ref, rows=rows))
    return tuple(shared), tuple(at)


def _after_the_backward(
    made: Mapping[tuple[int, int], ChunkPhase], first: Mapping[tuple[int, int], np.ndarray], is_comm: np.ndarray
) -> list[np.ndarray]:
    """A collective that opens the weight gradients of a copy waits for all that was computed before it.

    What it moves, the backward of the copy made.
    """
    found = []
    last: np.ndarray | None = None
    for (index, k), phase in made.items():
        if k != W or (index, k) not in first:
            continue
        opens = phase.is_comm & (phase.part >= 0)
        opens[phase.edges[:, 1]] = False
        at = np.flatnonzero(opens)
        if not len(at):
            continue
        if last is None:
            last = np.maximum.accumulate(np.where(is_comm, -1, np.arange(len(is_comm))))
        steps = (first[(index, k)][:, None] + at).ravel()
        before = last[steps - 1]
        found.append(np.stack([before, steps], axis=1)[before >= 0])
    return found


def _reads_parameters(program: BlockProgram, phase: Phase) -> bool:
    values = {parameter.value for parameter in program.parameters}
    return any(value in values for instruction in phase.instructions for value in reads(instruction))


class _Columns:
    """Step columns of a rank, filled phase by phase."""

    def __init__(self, total: int) -> None:
        self.is_comm = np.zeros(total, bool)
        self.ref = np.zeros(total, np.int32)
        self.chunk, self.link, self.copy, self.micro, self.phase = (np.full(total, NONE, np.int32) for _ in range(5))
        self.part = np.full(total, NONE, np.int32)
        self.alloc, self.free = np.zeros(total), np.zeros(total)

    def head(self, writer: _Writer) -> None:
        n = len(writer.ref)
        self.is_comm[:n] = writer.is_comm
        self.ref[:n] = writer.ref
        self.chunk[:n] = writer.chunk

    def place(self, phase: ChunkPhase, first: np.ndarray, chunk: int, kind: int) -> None:
        """Write one phase at `first`, once per micro-batch."""
        at = first[:, None] + np.arange(phase.num_steps)
        for own, column in (
            (self.is_comm, phase.is_comm),
            (self.ref, phase.ref),
            (self.part, phase.part),
            (self.link, phase.link),
            (self.copy, phase.copy),
            (self.alloc, phase.alloc_bytes),
            (self.free, phase.free_bytes),
        ):
            own[at] = column
        self.chunk[at] = chunk
        self.phase[at] = kind
        self.micro[at] = np.arange(len(first))[:, None]

    def tail(self, writer: _Writer) -> None:
        n = len(writer.ref)
        self.is_comm = np.concatenate([self.is_comm, np.array(writer.is_comm, bool)])
        self.ref = np.concatenate([self.ref, np.array(writer.ref, np.int32)])
        self.chunk = np.concatenate([self.chunk, np.array(writer.chunk, np.int32)])
        for name in ("link", "copy", "micro", "phase", "part"):
            setattr(self, name, np.concatenate([getattr(self, name), np.full(n, NONE, np.int32)]))
        for name in ("alloc", "free"):
            setattr(self, name, np.concatenate([getattr(self, name), np.zeros(n)]))
