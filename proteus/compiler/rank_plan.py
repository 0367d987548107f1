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
from dataclasses import dataclass, field

import numpy as np

from proteus.compiler.chain import Chunk, Link
from proteus.compiler.kinds import SpanKind
from proteus.compiler.memory import phase_memory
from proteus.compiler.phases import ChunkPhase, CopySteps, concatenate
from proteus.compiler.program import BlockProgram
from proteus.compiler.state import ParameterState, is_held, states
from proteus.compiler.steps import PORT, Phase, phases
from proteus.compiler.tables import CommRow, OpRow, Tables
from proteus.costs.optimizer import optimizer_works
from proteus.costs.precision import Precision
from proteus.costs.profile import Profile
from proteus.strategy.config import Training
from proteus.strategy.schedules.plan import B, F, W

#: copy and micro-batch of steps that belong to none
NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Gradients that are reduced together: (link, copy, parameter name) of each."""

    chunk: int
    items: tuple[tuple[int, int, ParameterState], ...]
    comms: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tied:
    """A parameter that two pipeline ranks both hold: their gradients are added up."""

    ranks: tuple[int, int]
    comm: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlan:
    """The steps of one pipeline rank.

    Parameters
    ----------
    is_comm, ref
        bool, int32 [steps]: communication row or (own) segment row.
    chunk, link, copy, micro_batch, phase
        int32[steps]: where a step comes from; NONE for the optimizer and the
        reductions after the last backward.  `phase` is F, B, W or NONE.
    edges
        int64[edges, 2]: (waits for, step).
    alloc_bytes, free_bytes
        float64[steps].
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
    chunk: np.ndarray
    link: np.ndarray
    copy: np.ndarray
    micro_batch: np.ndarray
    phase: np.ndarray
    edges: np.ndarray
    alloc_bytes: np.ndarray
    free_bytes: np.ndarray
    sends_out: Mapping[tuple[int, int], np.ndarray]
    sends_in: Mapping[tuple[int, int], np.ndarray]
    action_next: Mapping[tuple[int, int], np.ndarray]
    segments: list[list[OpRow]]
    buckets: tuple[Bucket, ...]
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
    base: int = 0

    def add(self, is_comm: bool, ref: int, preds: Sequence[int], chunk: int = NONE) -> int:
        self.is_comm.append(is_comm)
        self.ref.append(ref)
        self.chunk.append(chunk)
        step = self.base + len(self.ref) - 1
        self.edges.extend((int(p), step) for p in preds if p >= 0)
        return step


class RankPlanner:
    """Plans the ranks of one tree; shares tables between them."""

    def __init__(
        self,
        chunks: Sequence[Chunk],
        tables: Tables,
        node_of: Mapping[tuple[str, str], int],
        training: Training,
        precision: Precision,
        profile: Profile,
        is_split: frozenset[int],
        tied: Sequence[Tied] = (),
    ) -> None:
        self.chunks = chunks
        self.tables = tables
        self.node_of = node_of
        self.training = training
        self.precision = precision
        self.profile = profile
        self.is_split = is_split
        self.tied = tied

    def plan(self, rank: int, chunk: np.ndarray, kind: np.ndarray, micro: np.ndarray, num_micro: int) -> RankPlan:
        """The plan of pipeline rank `rank`, whose actions are given in columns."""
        tables = Tables(comms=self.tables.comms, members=self.tables.members, _comm_at=self.tables._comm_at)
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
        outs, ins, nexts = {}, {}, {}
        for (index, k), phase in made.items():
            at = np.flatnonzero((chunk == index) & (kind == k))
            if not len(at) or not phase.num_steps:
                continue
            order = at[np.argsort(micro[at], kind="stable")]
            first = starts[order]
            columns.place(phase, first, index, k)
            edges.append((first[:, None, None] + phase.edges[None]).reshape(-1, 2))
            outs[(index, k)] = first[:, None] + np.array(phase.outputs, np.int64)[None, :]
            ins[(index, k)] = first[:, None] + phase.waits[None, :]
            after = starts[order + 1]
            nexts[(index, k)] = np.where(after < total, after, -1)
        edges.extend(self._parameter_edges(gathers, made, outs, starts, chunk, kind))
        tail = _Writer(base=total)
        buckets, step = self._finish(own, made, starts, chunk, kind, tail, tables)
        columns.tail(tail)
        edges.append(np.array(tail.edges, np.int64).reshape(-1, 2))
        return RankPlan(
            rank=rank,
            is_comm=columns.is_comm,
            ref=columns.ref,
            chunk=columns.chunk,
            link=columns.link,
            copy=columns.copy,
            micro_batch=columns.micro,
            phase=columns.phase,
            edges=np.concatenate(edges),
            alloc_bytes=columns.alloc,
            free_bytes=columns.free,
            sends_out=outs,
            sends_in=ins,
            action_next=nexts,
            segments=tables.segments,
            buckets=buckets,
            optimizer_step=step,
        )

    # -- phases ------------------------------------------------------------

    def _phase(self, chunk: Chunk, kind: int, tables: Tables) -> ChunkPhase:
        is_split = chunk.index in self.is_split
        templates = []
        for link in chunk.links:
            phase = phases(link.program, is_split)[kind]
            templates.append((self._copy(link, phase, kind, is_split, tables), link.count))
        return concatenate(templates, is_reversed=kind != F)

    def _copy(self, link: Link, phase: Phase, kind: int, is_split: bool, tables: Tables) -> CopySteps:
        """One copy of a block in one phase, with its parameter gathers and gradient reductions."""
        program = link.program
        is_comm: list[bool] = []
        ref: list[int] = []
        edges: list[tuple[int, int]] = []
        gather = [
            tables.comm(row) for row in self._gather_rows(link) if kind != W and (phase.steps or link.program.parameters)
        ]
        shift = len(gather)
        is_comm += [True] * shift
        ref += gather
        for number, step in enumerate(phase.steps):
            at = shift + number
            node = self._node(link, phase, step.instructions[0])
            if step.is_comm:
                is_comm.append(True)
                ref.append(tables.comm(tables.move_row(program, phase.instructions[step.instructions[0]], node)))  # type: ignore[arg-type]
            else:
                is_comm.append(False)
                rows = [tables.op_row(program, phase.instructions[i], self._node(link, phase, i)) for i in step.instructions]
                ref.append(tables.segment(rows))
            edges.extend((p if p == PORT else p + shift, at) for p in step.preds)
        computes = [i for i, comm in enumerate(is_comm) if not comm]
        if computes:
            edges.extend((g, computes[0]) for g in range(shift))
        if (kind == W or (kind == B and not is_split)) and computes:
            for row in self._reduce_rows(link, each_micro_batch=True):
                is_comm.append(True)
                ref.append(tables.comm(row))
                edges.append((computes[-1], len(ref) - 1))
        alloc, free = phase_memory(link, phase, kind, is_split, len(ref), shift, self.precision, self.profile)
        return CopySteps(
            is_comm=np.array(is_comm, bool),
            ref=np.array(ref, np.int32),
            edges=np.array(edges, np.int64).reshape(-1, 2),
            outputs=tuple(o if o == PORT else o + shift for o in phase.outputs),
            gather=0 if gather else -1,
            alloc_bytes=alloc,
            free_bytes=free,
        )

    def _node(self, link: Link, phase: Phase, instruction: int) -> int:
        return self.node_of[(link.run.path, phase.instructions[instruction].op.name)]

    def _block_node(self, link: Link) -> int:
        return self.node_of[(link.run.path, "")]

    # -- parameters and gradients -------------------------------------------

    def _gather_rows(self, link: Link) -> list[CommRow]:
        """One all_gather per set of axes that keeps this copy's parameters cut."""
        sizes: dict[tuple[str, ...], float] = {}
        for state in states(link):
            axes = state.kept["parameter"]
            if axes:
                # FSDP gathers in the compute precision whatever the master copy is
                sizes[axes] = sizes.get(axes, 0.0) + state.numel * self.precision.activation_bytes
        return [
            self.tables.state_row(
                link.program.mesh, axes, "all_gather", size, "parameter", f"all_gather parameters of {link.run.block.name}",
                self._block_node(link),
            )
            for axes, size in sizes.items()
        ]  # fmt: skip

    def _reduce_rows(self, link: Link, *, each_micro_batch: bool) -> list[CommRow]:
        """Reductions of a copy's gradients that are kept cut (every micro-batch)."""
        found: dict[tuple[tuple[str, ...], tuple[str, ...]], float] = {}
        for state in states(link):
            if state.parameter.gradient >= 0 and bool(state.kept["gradient"]) is each_micro_batch and state.data_axes:
                key = (state.data_axes, state.kept["gradient"])
                found[key] = found.get(key, 0.0) + state.numel * self.precision.grad_bytes
        rows = []
        for (data, kept), size in found.items():
            rows.extend(self._reduction(link, data, kept, size, f"gradients of {link.run.block.name}"))
        return rows

    def _reduction(
        self, link: Link, data: tuple[str, ...], kept: tuple[str, ...], size: float, what: str
    ) -> list[CommRow]:
        mesh, node = link.program.mesh, self._block_node(link)
        scatter = tuple(name for name in data if name in kept)
        rest = tuple(name for name in data if name not in kept)
        rows = []
        if scatter:
            rows.append(self.tables.state_row(mesh, scatter, "reduce_scatter", size, "gradient", f"reduce_scatter {what}", node))
            size /= mesh.degree(scatter)
        if rest:
            rows.append(self.tables.state_row(mesh, rest, "all_reduce", size, "gradient", f"all_reduce {what}", node))
        return rows

    def _gather_before(self, own: Sequence[Chunk], writer: _Writer) -> dict[tuple[int, int], int]:
        """Parameters gathered beside the first forward; (chunk, link) → step."""
        found: dict[tuple[int, int], int] = {}
        if not self.training.overlap_parameters:
            return found
        for chunk in own:
            for number, link in enumerate(chunk.links):
                for row in self._updated_rows(link, link.count):
                    found[(chunk.index, number)] = writer.add(True, self.tables.comm(row), [])
        return found

    def _updated_rows(self, link: Link, count: int) -> list[CommRow]:
        """all_gathers of parameters whose update was cut (ZeRO-1 and 2)."""
        sizes: dict[tuple[str, ...], float] = {}
        for state in states(link):
            axes = () if state.kept["parameter"] else state.kept["optimizer"]
            if axes and state.parameter.gradient >= 0:
                sizes[axes] = sizes.get(axes, 0.0) + state.numel * self.precision.param_bytes * count
        return [
            self.tables.state_row(
                link.program.mesh, axes, "all_gather", size, "parameter", f"all_gather updated {link.run.block.name}",
                self._block_node(link),
            )
            for axes, size in sizes.items()
        ]  # fmt: skip

    def _parameter_edges(
        self,
        gathers: Mapping[tuple[int, int], int],
        made: Mapping[tuple[int, int], ChunkPhase],
        outs: Mapping[tuple[int, int], np.ndarray],
        starts: np.ndarray,
        chunk: np.ndarray,
        kind: np.ndarray,
    ) -> list[np.ndarray]:
        found = []
        for (index, link), step in gathers.items():
            phase = made[(index, F)]
            at = np.flatnonzero((chunk == index) & (kind == F))
            steps = np.flatnonzero((phase.link == link) & ~phase.is_comm)
            if len(at) and len(steps):
                found.append(np.array([[step, starts[at[0]] + steps[0]]], np.int64))
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
    ) -> tuple[tuple[Bucket, ...], int]:
        buckets: list[Bucket] = []
        last_overall = int(starts[-1]) - 1
        pending: list[tuple[int, Chunk, int, np.ndarray]] = []
        for c in own:
            k = W if c.index in self.is_split else B
            at = np.flatnonzero((chunk == c.index) & (kind == k))
            if not len(at):
                continue
            phase, base = made[(c.index, k)], int(starts[at[-1]])
            for number in range(len(c.links) - 1, -1, -1):
                ends = phase.copy_last[number]
                pending.append((base, c, number, np.where(ends >= 0, base + ends, last_overall)))
        syncs = self._bucketed(pending, writer, tables, buckets, last_overall)
        for tied in self.tied:
            if own and own[0].rank in tied.ranks:
                syncs.append(writer.add(True, tied.comm, [last_overall]))
        comm_tail = [syncs[-1]] if syncs else []
        optimizer = self._optimizer(own, writer, tables, [last_overall, *comm_tail])
        if not self.training.overlap_parameters:
            for c in own:
                for link in c.links:
                    for row in self._updated_rows(link, link.count):
                        writer.add(True, self.tables.comm(row), [optimizer])
        return tuple(buckets), optimizer

    def _bucketed(
        self,
        pending: Sequence[tuple[int, Chunk, int, np.ndarray]],
        writer: _Writer,
        tables: Tables,
        buckets: list[Bucket],
        last_overall: int,
    ) -> list[int]:
        """Reductions of whole gradients, in buckets filled in the order of the backward."""
        limit = self.training.bucket_bytes
        open_: dict[tuple[object, ...], tuple[float, list[tuple[int, int, ParameterState]], int, Link, int]] = {}
        steps: list[int] = []
        tensor: list[tuple[Chunk, int, tuple[str, ...], float]] = []

        def close(key: tuple[object, ...]) -> None:
            size, items, pred, link, chunk = open_.pop(key)
            _, data, kept = key
            wait = pred if self.training.overlap_gradients else last_overall
            comms = []
            for row in self._reduction(link, data, kept, size, f"gradients ({len(items)} tensors)"):  # type: ignore[arg-type]
                comms.append(writer.add(True, tables.comm(row), [wait], chunk))
            steps.extend(comms)
            buckets.append(Bucket(chunk=chunk, items=tuple(items), comms=tuple(comms)))

        for _, c, number, ends in pending:
            link = c.links[number]
            found = [s for s in states(link) if s.parameter.gradient >= 0 and not s.kept["gradient"]]
            for axes in {s.tensor_axes for s in found if s.tensor_axes}:
                size = sum(s.numel for s in found if s.tensor_axes == axes) * self.precision.grad_bytes * link.count
                tensor.append((c, number, axes, size))
            groups: dict[tuple[object, ...], list[ParameterState]] = {}
            for s in found:
                if s.data_axes:
                    groups.setdefault((link.program.mesh, s.data_axes, s.reduce_axes), []).append(s)
            for copy in range(link.count - 1, -1, -1):
                for key, members in groups.items():
                    size, items, _, _, _ = open_.get(key, (0.0, [], -1, link, c.index))
                    size += sum(s.numel for s in members) * self.precision.grad_bytes
                    items.extend((number, copy, s) for s in members)
                    open_[key] = (size, items, int(ends[copy]), link, c.index)
                    if size >= limit:
                        close(key)
        for key in list(open_):
            close(key)
        for c, number, axes, size in tensor:
            link = c.links[number]
            row = self.tables.state_row(
                link.program.mesh, axes, "all_reduce", size, "gradient", f"all_reduce gradients over {'×'.join(axes)}",
                self._block_node(link),
            )  # fmt: skip
            steps.append(writer.add(True, tables.comm(row), [last_overall], c.index))
        return steps

    def _optimizer(self, own: Sequence[Chunk], writer: _Writer, tables: Tables, preds: Sequence[int]) -> int:
        numel = 0.0
        every = [link for c in own for link in c.links]
        for c in own:
            for link in c.links:
                mesh = link.program.mesh
                numel += link.count * sum(
                    s.numel / mesh.degree(s.kept["optimizer"])
                    for s in states(link)
                    if s.parameter.gradient >= 0 and is_held(s, every)
                )
        kernels = optimizer_works(numel, self.training.optimizer, self.precision, self.profile)
        row = OpRow(None, None, kernels, f"{self.training.optimizer} update", 0, SpanKind.OPTIMIZER)
        return writer.add(False, tables.segment([row]), preds)


class _Columns:
    """Step columns of a rank, filled phase by phase."""

    def __init__(self, total: int) -> None:
        self.is_comm = np.zeros(total, bool)
        self.ref = np.zeros(total, np.int32)
        self.chunk, self.link, self.copy, self.micro, self.phase = (np.full(total, NONE, np.int32) for _ in range(5))
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
        for name in ("link", "copy", "micro", "phase"):
            setattr(self, name, np.concatenate([getattr(self, name), np.full(n, NONE, np.int32)]))
        for name in ("alloc", "free"):
            setattr(self, name, np.concatenate([getattr(self, name), np.zeros(n)]))


