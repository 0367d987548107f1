"""Fifth pass: the plan of every pipeline rank.

The steps of an action are the chunk's phase, placed with numpy once per
micro-batch; no Python loop runs over micro-batches or layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from proteus.compiler.chain import Chunk
from proteus.compiler.copy_steps import CopyPlanner
from proteus.compiler.gradients import Pending, last_reduction, reduce_gradients
from proteus.compiler.host_copies import there_and_back, update_on_host
from proteus.compiler.kinds import SpanKind
from proteus.compiler.offload import on_host
from proteus.compiler.phases import ChunkPhase, concatenate
from proteus.compiler.plan_columns import PlanColumns, StepWriter, by_target, stream_steps
from proteus.compiler.rank_plan import NONE, RankPlan
from proteus.compiler.state import ParameterState, StateMove, is_held, states, updated
from proteus.compiler.steps import phases, runs_weights_apart
from proteus.compiler.tables import ROOT, CommRow, OpRow, Tables, block_node
from proteus.costs.optimizer import optimizer_works
from proteus.costs.precision import Precision
from proteus.frameworks import Framework
from proteus.identity import MemoKey
from proteus.strategy.config import Training
from proteus.strategy.schedules.pipeline_plan import B, F, W


@dataclass(frozen=True, slots=True, kw_only=True)
class Tied:
    """A parameter that two pipeline ranks both hold: their gradients are added up.

    `items` are (chunk, link, copy, parameter) on each of the two.
    """

    ranks: tuple[int, int]
    comm: CommRow
    items: tuple[tuple[int, int, int, ParameterState], ...]


class RankPlanner:
    """Plans the ranks of one tree."""

    def __init__(
        self,
        chunks: Sequence[Chunk],
        training: Training,
        precision: Precision,
        framework: Framework,
        is_split: frozenset[int],
        tied: Sequence[Tied] = (),
    ) -> None:
        self.chunks = chunks
        self.training = training
        self.precision = precision
        self.framework = framework
        self.is_split = is_split
        self.tied = tied

    def plan(self, rank: int, chunk: np.ndarray, kind: np.ndarray, micro: np.ndarray) -> RankPlan:
        """The plan of pipeline rank `rank`, whose actions are given in columns; remembered."""
        rank_chunks = [c for c in self.chunks if c.rank == rank]
        key = MemoKey(
            self,
            tuple((c.key, self._received(c)) for c in rank_chunks),
            self.training,
            self.precision,
            self.framework,
            frozenset(c.index for c in rank_chunks) & self.is_split,
            tuple(tied.comm for tied in self.tied if rank in tied.ranks),
        )
        return _planned(key, rank, *(MemoKey(column, column.tobytes()) for column in (chunk, kind, micro)))

    def make(self, rank: int, chunk: np.ndarray, kind: np.ndarray, micro: np.ndarray) -> RankPlan:
        """The plan, made anew."""
        tables = self.tables = Tables()
        rank_chunks = [c for c in self.chunks if c.rank == rank]
        made = {(c.index, k): self._phase(c, k, tables) for c in rank_chunks for k in (F, B, W)}
        before = StepWriter()
        gathers = self._gather_before(rank_chunks, before)
        lengths = np.zeros(len(kind), np.int64)
        for (index, k), phase in made.items():
            lengths[(chunk == index) & (kind == k)] = phase.num_steps
        starts = len(before.ref) + np.concatenate([[0], np.cumsum(lengths)])
        total = int(starts[-1])
        columns = PlanColumns(total)
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
        edges.extend(_after_the_action_before(made, starts, chunk, kind))
        edges.extend(_after_the_backward(made, firsts, columns.is_comm))
        edges.extend(there_and_back(tables, rank_chunks, made, firsts))
        edges.extend(self._parameter_edges(gathers, made, starts, chunk, kind))
        tail = StepWriter(base=total)
        step = self._finish(rank_chunks, made, starts, chunk, kind, tail, tables)
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
            edges=by_target(np.concatenate(edges)),
            alloc_bytes=columns.alloc,
            free_bytes=columns.free,
            sends_out=outs,
            sends_in=ins,
            action_next=nexts,
            segments=tables.segments,
            comms=tuple(tables.comms),
            comm_counts=np.bincount(columns.ref[columns.is_comm], minlength=len(tables.comms)),
            stream_steps=stream_steps(columns.is_comm, columns.ref, tables.comms),
            rows=np.arange(len(tables.comms), dtype=np.int32),
            moves={**before.moves, **tail.moves},
            optimizer_step=step,
            first_forwards=_first_forwards(kind),
        )

    # -- phases ------------------------------------------------------------

    def _phase(self, chunk: Chunk, kind: int, tables: Tables) -> ChunkPhase:
        copies = CopyPlanner(tables=tables, precision=self.precision, framework=self.framework)
        is_split = chunk.index in self.is_split
        templates = []
        for link in chunk.links:
            phase, apart = phases(link.program, is_split)[kind], runs_weights_apart(link.program, is_split)
            templates.append((copies.steps(link, phase, kind, apart), link.count))
        steps = concatenate(templates, is_reversed=kind != F)
        return self._after_a_transfer(steps, chunk, kind, tables) if kind in self._received(chunk) else steps

    def _received(self, chunk: Chunk) -> frozenset[int]:
        """The phases of a chunk (F, B) that begin with what another rank sends."""
        before, after = chunk.index - 1, chunk.index + 1
        received_phases = {F} if before >= 0 and self.chunks[before].rank != chunk.rank else set()
        if after < len(self.chunks) and self.chunks[after].rank != chunk.rank:
            received_phases.add(B)
        return frozenset(received_phases)

    def _after_a_transfer(self, phase: ChunkPhase, chunk: Chunk, kind: int, tables: Tables) -> ChunkPhase:
        """The phase where the host is held in a transfer before it, and the device with it.

        Megatron sends what it has made in the call in which it receives what
        it needs next, so there is one such call for every phase that receives.
        """
        computations = np.flatnonzero(~phase.is_comm)
        if not (self.framework.host_waits_for_transfers and self.framework.transfer_s and len(computations)):
            return phase
        at = computations[0]
        node = block_node(chunk.links[phase.link[at]])
        name = f"transfer of {'activations' if kind == F else 'gradients'}"
        wait = OpRow(None, None, (), name, node, SpanKind.HOST, is_last=False, wait_s=self.framework.transfer_s)
        ref = phase.ref.copy()  # other copies of the block run the same segment without a transfer before it
        ref[at] = tables.segment([wait, *tables.segments[ref[at]]])
        return replace(phase, ref=ref)

    def _gather_before(self, rank_chunks: Sequence[Chunk], writer: StepWriter) -> dict[tuple[int, int], list[int]]:
        """Parameters gathered beside the first forward; (chunk, link) → steps."""
        gather_steps: dict[tuple[int, int], list[int]] = {}
        if not self.training.overlap_parameters:
            return gather_steps
        for chunk in rank_chunks:
            for number in range(len(chunk.links)):
                for row, move in self._updated_rows(chunk, number):
                    step = writer.add(True, self.tables.comm(row), [], chunk.index, move)
                    gather_steps.setdefault((chunk.index, number), []).append(step)
        return gather_steps

    def _updated_rows(self, chunk: Chunk, number: int) -> list[tuple[CommRow, StateMove]]:
        """all_gathers of parameters whose update was cut (ZeRO-1 and 2), or a broadcast from every rank."""
        link, rows = chunk.links[number], []
        name, node = f"all_gather updated {link.run.block.name}", block_node(link)
        every = [peer_link for c in self.chunks if c.rank == chunk.rank for peer_link in c.links]
        for axes, members in updated(link).items():
            held = [s for s in members if is_held(s, every)]
            if not held:
                continue
            size = sum(s.numel for s in held) * self.precision.param_bytes * link.count
            size /= link.program.mesh.degree(held[0].kept["parameter"])
            items = tuple((chunk.index, number, copy, s) for copy in range(link.count) for s in held)
            move = StateMove(kind="all_gather", axes=axes, items=items)
            if self.framework.broadcasts_updates:
                parts = link.program.mesh.degree(axes)
                each = self.tables.state_row(
                    link.program.mesh, axes, "broadcast", size / parts, "parameter", name, node
                )
                # the last hands over what all have sent
                rows += [(each, replace(move, items=()))] * (parts - 1) + [(each, move)]
            else:
                row = self.tables.state_row(link.program.mesh, axes, "all_gather", size, "parameter", name, node)
                rows.append((row, move))
        return rows

    def _parameter_edges(
        self,
        gathers: Mapping[tuple[int, int], list[int]],
        made: Mapping[tuple[int, int], ChunkPhase],
        starts: np.ndarray,
        chunk: np.ndarray,
        kind: np.ndarray,
    ) -> list[np.ndarray]:
        edge_arrays = []
        for (index, link), before in gathers.items():
            phase = made[(index, F)]
            at = np.flatnonzero((chunk == index) & (kind == F))
            steps = np.flatnonzero((phase.link == link) & ~phase.is_comm)
            if len(at) and len(steps):
                first = starts[at[0]] + steps[0]
                edge_arrays.append(np.array([[step, first] for step in before], np.int64))
        return edge_arrays

    # -- after the last backward ---------------------------------------------

    def _finish(
        self,
        rank_chunks: Sequence[Chunk],
        made: Mapping[tuple[int, int], ChunkPhase],
        starts: np.ndarray,
        chunk: np.ndarray,
        kind: np.ndarray,
        writer: StepWriter,
        tables: Tables,
    ) -> int:
        """Reductions, optimizer and updated parameters; returns the optimizer's step."""
        last_overall = int(starts[-1]) - 1
        # streams run in order: after the last reduction within the actions come all of them
        waits = [last_overall, last_reduction(made, starts, chunk, kind)]
        pending: list[Pending] = []
        for c in rank_chunks:
            for number in range(len(c.links) - 1, -1, -1):
                k = W if runs_weights_apart(c.links[number].program, c.index in self.is_split) else B
                at = np.flatnonzero((chunk == c.index) & (kind == k))
                ends = made[(c.index, k)].copy_last[number]
                if len(at) and len(ends):
                    ends = np.where(ends >= 0, int(starts[at[-1]]) + ends, last_overall)
                    pending.append(Pending(c, number, ends))
        pending.sort(key=lambda item: int(item.ends.max()))
        syncs = reduce_gradients(
            rank_chunks, pending, writer, tables, self.training, self.precision.reduce_bytes, last_overall
        )
        for tied in self.tied:
            if rank_chunks and rank_chunks[0].rank in tied.ranks:
                items = (tied.items[tied.ranks.index(rank_chunks[0].rank)],)
                move = StateMove(kind="all_reduce", axes=(), items=items)
                syncs.append(writer.add(True, self.tables.comm(tied.comm), [last_overall], NONE, move))
        optimizer = self._optimizer(rank_chunks, writer, tables, [*waits, *syncs[-1:]])
        updated = [
            optimizer,
            *update_on_host(
                tables, rank_chunks, writer, [*waits, *syncs[-1:]], self.precision, self.training.optimizer
            ),
        ]
        if not self.training.overlap_parameters:
            for c in rank_chunks:
                for number in range(len(c.links)):
                    for row, move in self._updated_rows(c, number):
                        writer.add(True, self.tables.comm(row), updated, c.index, move)
        return optimizer

    def _optimizer(self, rank_chunks: Sequence[Chunk], writer: StepWriter, tables: Tables, preds: Sequence[int]) -> int:
        numel = 0.0
        every = [link for c in rank_chunks for link in c.links]
        for c in rank_chunks:
            for link in c.links:
                mesh = link.program.mesh
                numel += link.count * sum(
                    s.numel / mesh.degree(s.kept["optimizer"])
                    for s in states(link)
                    if s.parameter.gradient >= 0 and is_held(s, every) and not on_host(s)
                )
        kernels = optimizer_works(numel, self.training.optimizer, self.precision, self.framework)
        row = OpRow(None, None, kernels, f"{self.training.optimizer} update", ROOT, SpanKind.OPTIMIZER)
        return writer.add(False, tables.segment([row]), preds)


@lru_cache(maxsize=64)
def _planned(key: MemoKey[RankPlanner], rank: int, *columns: MemoKey[np.ndarray]) -> RankPlan:
    return key.value.make(rank, *(column.value for column in columns))


def _first_forwards(kind: np.ndarray) -> float:
    """Share of the forwards before the first backward.

    >>> _first_forwards(np.array([F, F, B, F, B, F, B, B]))
    0.5
    """
    forwards, backwards = np.flatnonzero(kind == F), np.flatnonzero(kind == B)
    return float((forwards < backwards[0]).mean()) if len(forwards) and len(backwards) else 1.0


def _after_the_action_before(
    made: Mapping[tuple[int, int], ChunkPhase], starts: np.ndarray, chunk: np.ndarray, kind: np.ndarray
) -> list[np.ndarray]:
    """What the first copies of an action need is brought while the last ones of the action before compute, not earlier.

    Else a rank would gather what ZeRO-3 cuts for all its actions at the very
    beginning, and hold it until they come.
    """
    if not any(len(phase.ahead) for phase in made.values()):
        return []
    edges: list[tuple[int, int]] = []
    ends = (-1, -1)
    for start, index, k in zip(starts.tolist(), chunk.tolist(), kind.tolist(), strict=False):
        phase = made[(index, k)]
        edges += [(ends[before], start + step) for before, step in phase.ahead.tolist() if ends[before] >= 0]
        first, last = (start + end if end >= 0 else ends[end] for end in phase.ends)
        ends = (first, last)
    return [np.array(edges, np.int64).reshape(-1, 2)]


def _after_the_backward(
    made: Mapping[tuple[int, int], ChunkPhase], first: Mapping[tuple[int, int], np.ndarray], is_comm: np.ndarray
) -> list[np.ndarray]:
    """A collective that opens the weight gradients of a copy waits for all that was computed before it.

    What it moves, the backward of the copy made.
    """
    edge_arrays = []
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
        edge_arrays.append(np.stack([before, steps], axis=1)[before >= 0])
    return edge_arrays
