"""Last pass: the columns that the engine plays, for one rank of every class."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from proteus.cluster import Cluster
from proteus.compiler.chain import Chunk
from proteus.compiler.fold import Folding, fold
from proteus.compiler.graph import ExecutionGraph, RankClass, Transfer
from proteus.compiler.memory import StaticMemory
from proteus.compiler.price import pricer
from proteus.compiler.rank_plan import RankPlan
from proteus.compiler.relations import PatternTable, Price, Relations, send_groups
from proteus.compiler.segments import PlayedRank, SegmentTable
from proteus.compiler.tables import HOST_COPIES, CommRow, HostCopy
from proteus.compiler.transfer import transfer_pairs
from proteus.compiler.variants import Variants, variants
from proteus.costs.collectives import Collective
from proteus.costs.ops import Calibration
from proteus.costs.overlap import slowdowns
from proteus.costs.precision import Precision
from proteus.costs.profile import Profile
from proteus.htae.tasks import TaskGraph, TaskKind
from proteus.identity import Keyed
from proteus.model.graph import OpKind
from proteus.strategy.schedules.plan import B, F, Plan
from proteus.strategy.tree import StrategyTree

#: schedules in which a rank waits until what it sent has left (Megatron without overlap_p2p_comm)
_WAITING_SENDS = ("gpipe", "1f1b")


@dataclass(frozen=True, slots=True)
class _Boundary:
    """Pairs of ranks between two chunks that send equal amounts: rows of the sends' relation."""

    chunk: int
    kind: int
    first: int
    stop: int
    size_bytes: float


class Emitter:
    """Emits the execution graph of planned ranks."""

    def __init__(
        self,
        tree: StrategyTree,
        cluster: Cluster,
        chunks: tuple[Chunk, ...],
        schedule: Plan,
        plans: tuple[RankPlan, ...],
        comms: tuple[CommRow, ...],
        precision: Precision,
        profile: Profile,
        algorithm: str | None,
        calibration: Calibration | None = None,
    ) -> None:
        self.tree, self.cluster, self.chunks, self.schedule, self.plans = tree, cluster, chunks, schedule, plans
        self.comms, self.precision, self.profile = comms, precision, profile
        self.calibration = calibration
        self.relations = Relations(cluster, chunks, algorithm, calibration)
        self.num_ranks = tree.num_devices
        self.row_relation = [self.relations.of(row) for row in comms]
        self.topk = max(
            (op.attrs["topk"] for block in tree.model.blocks for op in block.ops if op.kind is OpKind.DISPATCH),
            default=0,
        )
        self.row_prices = [
            self.relations.copy_price(r, HostCopy(row.kind), row.size_bytes)
            if row.kind in HOST_COPIES
            else self.relations.price(r, Collective(row.kind), row.size_bytes, self._copies(row))
            for r, row in zip(self.row_relation, comms, strict=True)
        ]
        self.boundaries = self._boundaries()

    def _copies(self, row: CommRow) -> int:
        """Copies of every token in an exchange between experts that travel as one."""
        merges = self.profile.merges_tokens and row.stream == "expert" and row.kind == Collective.ALL_TO_ALL
        return max(1, self.topk) if merges else 1

    def _boundaries(self) -> list[_Boundary]:
        """The sends between chunks; all are groups of one relation."""
        found: list[_Boundary] = []
        parts: list[tuple[int, bytes]] = []
        first = 0
        for before, after in itertools.pairwise(self.chunks):
            if before.rank == after.rank:
                continue
            for kind in (F, B):
                chunk = before.index if kind == F else after.index
                for pairs in transfer_pairs(before, after, kind, self.precision.activation_bytes):
                    stop = first + len(pairs.members)
                    found.append(_Boundary(chunk, kind, first, stop, pairs.size_bytes))
                    parts.append((len(found), pairs.members.astype(np.int64).tobytes()))
                    first = stop
        self.sends = self.relations.add(send_groups(tuple(parts))) if parts else -1
        for boundary in found:  # names the flows that folding looks at
            self.relations.price(self.sends, Collective.SEND, boundary.size_bytes)
        return found

    # -- the graph ----------------------------------------------------------

    def graph(
        self,
        static: tuple[StaticMemory, ...],
        *,
        fold: bool,
        sharing: bool,
        overlap: bool,
    ) -> ExecutionGraph:
        kinds = variants(self.chunks, self.plans, self.num_ranks)
        folding = self._fold(kinds, fold)
        classes = self._classes(folding, kinds)
        segments = SegmentTable(
            self.plans,
            classes,
            self.cluster,
            lambda gpu: pricer(gpu, self.precision, self.profile, self.calibration),
            waits=(self.profile.host_waits_for_transfers and self.tree.num_pipeline_ranks > 1)
            or (self.profile.host_waits_for_routing and self.topk > 0),
        )
        ids = self._task_ids(folding, classes)
        patterns = PatternTable(self.relations, folding, self.cluster.link_capacity_Bps, sharing=sharing)
        num_sends = self._num_send_classes(folding) * self.schedule.num_micro_batches
        columns = _TaskColumns(ids.total, ids.total + num_sends)
        for number, rank in enumerate(classes):
            self._fill(columns, rank, ids.of[number], ids.owns[number], segments, folding, patterns)
        transfers = self._transfers(columns, ids, folding, classes, patterns)
        edges = self._edges(ids, classes, transfers)
        streams = self._streams(ids, classes, transfers)
        made = patterns.patterns()
        compute_slow, comm_slow = slowdowns(self.cluster.gpu())
        if self.calibration is not None and self.calibration.overlap is not None:
            compute_slow, comm_slow = self.calibration.overlap.apply(compute_slow, comm_slow)
        if not overlap:
            compute_slow, comm_slow = np.zeros_like(compute_slow), np.zeros_like(comm_slow)
        pred_ptr, pred = _csr(edges[:, 1], edges[:, 0], ids.total)
        tasks = TaskGraph(
            kind=columns.kind,
            latency_s=columns.latency_s,
            work=columns.work,
            release_s=columns.release_s,
            priority=np.zeros(ids.total, np.int32),
            pred_ptr=pred_ptr,
            pred=pred,
            stream_ptr=streams.ptr,
            stream_task=streams.task,
            stream_device=streams.device,
            segment=columns.segment,
            segment_ptr=segments.ptr,
            segment_work_s=segments.work_s,
            segment_class=segments.op_class,
            pattern=columns.pattern,
            pattern_ptr=made.ptr,
            pattern_link=made.link,
            pattern_count=made.count,
            pattern_cap_Bps=made.cap_Bps,
            op_class=columns.op_class,
            link_capacity_Bps=self.cluster.link_capacity_Bps[folding.link_first].astype(np.float64),
            compute_slowdown=compute_slow,
            comm_slowdown=comm_slow,
        )
        return ExecutionGraph(
            tree=self.tree,
            cluster=self.cluster,
            calibration=self.calibration,
            schedule=self.schedule,
            chunks=self.chunks,
            plans=self.plans,
            classes=tuple(
                RankClass(
                    device=rank.device,
                    multiplicity=rank.multiplicity,
                    plan=rank.plan,
                    task_of=ids.of[number].astype(np.int32),
                    segment_base=segments.base[number],
                )
                for number, rank in enumerate(classes)
            ),
            transfers=tuple(transfers),
            tasks=tasks,
            folding=folding,
            op_rows=tuple(segments.rows),
            op_flop=np.array(segments.flop),
            op_sigma=np.array(segments.sigma),
            comm_rows=tuple(self.comms),
            comm_sigma=np.array([max(p.terms.sigma for p in prices) for prices, _ in self.row_prices]),
            static=static,
            stream_names=streams.names,
            num_tasks=self._stands_for(classes, folding),
            assumptions=tuple(sorted(segments.assumed)),
        )

    def _fold(self, kinds: Variants, is_folded: bool) -> Folding:
        colours = self.cluster.colours()[: self.num_ranks]
        _, position = np.unique(colours, return_inverse=True)
        start = kinds.of_rank.astype(np.int64) * (position.max() + 1) + position
        key = (self.cluster, self.relations.key(), start.tobytes())
        return _folded(Keyed((self.relations, start), *key), is_folded)

    def _classes(self, folding: Folding, kinds: Variants) -> list[PlayedRank]:
        found = []
        for device, multiplicity in zip(folding.representatives.tolist(), folding.multiplicity.tolist(), strict=True):
            number = int(kinds.of_rank[device])
            found.append(PlayedRank(device, multiplicity, kinds.plan[number], kinds.coordinate[number]))
        return found

    def _task_ids(self, folding: Folding, classes: Sequence[PlayedRank]) -> _Ids:
        """Number the tasks: own steps of every class, shared ones with their first class."""
        sizes = [self.plans[rank.plan].num_steps for rank in classes]
        base = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        group_of = {r: self.relations.group_of_rank(r, self.num_ranks) for r in set(self.row_relation)}
        owner: dict[int, np.ndarray] = {}
        for r in group_of:
            groups = folding.group_class[r]
            first = np.full(int(groups.max()) + 1, len(classes), np.int64)
            members = self.relations.groups[r].members
            np.minimum.at(first, np.repeat(groups, members.shape[1]), folding.rank_class[members.ravel()])
            owner[r] = first
        of: list[np.ndarray] = []
        owns: list[np.ndarray | None] = []  # None: all of them
        for number, rank in enumerate(classes):
            plan = self.plans[rank.plan]
            row_group = np.array(
                [folding.group_class[r][group_of[r][rank.device]] if group_of[r][rank.device] >= 0 else -1
                 for r in self.row_relation], np.int64,
            )  # fmt: skip
            row_owner = np.array(
                [owner[r][g] if g >= 0 else -1 for r, g in zip(self.row_relation, row_group.tolist(), strict=True)],
                np.int64,
            )
            ids = base[number] + np.arange(plan.num_steps)
            if (row_owner[plan.rows] == number).all():
                of.append(ids)
                owns.append(None)
                continue
            comm = np.flatnonzero(plan.is_comm)
            owners = row_owner[plan.ref[comm]]
            away = owners != number
            ids[comm[away]] = base[owners[away]] + comm[away]
            plans = np.array([c.plan for c in classes])
            tied = away.copy()
            tied[away] = plans[owners[away]] != rank.plan
            for step, other in zip(comm[tied].tolist(), owners[tied].tolist(), strict=True):
                ids[step] = base[other] + self._same_step(plan, step, self.plans[classes[other].plan])
            own = np.ones(plan.num_steps, bool)
            own[comm[away]] = False
            of.append(ids)
            owns.append(own)
        if all(own is None for own in owns):
            return _Ids(of, owns, int(base[-1]))
        keep = np.concatenate([np.ones(n, bool) if own is None else own for n, own in zip(sizes, owns, strict=True)])
        renumber = np.cumsum(keep) - 1
        return _Ids([renumber[ids] for ids in of], owns, int(keep.sum()))

    @staticmethod
    def _same_step(plan: RankPlan, step: int, other: RankPlan) -> int:
        """The step of another plan that is the same collective (tied parameters)."""
        return int(np.flatnonzero(other.is_comm & (other.ref == plan.ref[step]))[0])

    def _fill(
        self,
        columns: _TaskColumns,
        rank: PlayedRank,
        ids: np.ndarray,
        owns: np.ndarray | None,
        segments: SegmentTable,
        folding: Folding,
        patterns: PatternTable,
    ) -> None:
        plan = self.plans[rank.plan]
        number = segments.number[id(rank)]
        base, host = segments.base[number], segments.host_s[number]
        # one table per column: communication rows first, then the plan's own segments
        num_rows, num_segments = len(self.comms), len(plan.segments)
        latency, work, launch_s = (np.zeros(num_rows + num_segments) for _ in range(3))
        pattern, segment = (np.full(num_rows + num_segments, -1, np.int32) for _ in range(2))
        op_class, kind = np.zeros(len(work), np.int16), np.zeros(len(work), np.uint8)
        work[num_rows:] = segments.total_s[base : base + num_segments]
        segment[num_rows:] = np.arange(base, base + num_segments)
        launch_s[num_rows:] = host
        launch_s[:num_rows] = self.profile.launch_s + self.profile.op_s
        for row in plan.rows.tolist():
            price, group = self._row_price(row, rank, folding)
            latency[row], work[row] = price.terms.latency_s, price.terms.work_bytes * self._exposed_share(row)
            pattern[row] = patterns.row(self.row_relation[row], price.flows, group, price.terms.cap_Bps)
            op_class[row] = price.comm_class
            kind[row] = TaskKind.COPY if self.comms[row].kind in HOST_COPIES else TaskKind.COMM
        at = np.where(plan.is_comm, plan.ref, num_rows + plan.ref)
        released = np.cumsum(launch_s[at])
        where: slice | np.ndarray = slice(int(ids[0]), int(ids[-1]) + 1)
        if owns is not None:
            where, at, released = ids[owns], at[owns], released[owns]
        columns.kind[where], columns.latency_s[where], columns.work[where] = kind[at], latency[at], work[at]
        columns.release_s[where], columns.segment[where] = released, segment[at]
        columns.pattern[where], columns.op_class[where] = pattern[at], op_class[at]

    def _row_price(self, row: int, rank: PlayedRank, folding: Folding) -> tuple[Price, int]:
        relation = self.row_relation[row]
        prices, shape = self.row_prices[row]
        group = int(self.relations.group_of_rank(relation, self.num_ranks)[rank.device])
        return prices[shape[group]], int(folding.group_class[relation][group])

    def _exposed_share(self, row: int) -> float:
        """Part of a collective that the product it feeds, or that feeds it, cannot hide."""
        comm = self.comms[row]
        if self.profile.overlaps_tensor and comm.stream == "tensor" and comm.kind in ("all_gather", "reduce_scatter"):
            return 1.0 / comm.mesh.degree(comm.axes)  # one chunk of as many as there are ranks
        return 1.0

    # -- between stages -------------------------------------------------------

    def _num_send_classes(self, folding: Folding) -> int:
        if self.sends < 0:
            return 0
        classes = folding.group_class[self.sends]
        return sum(len(np.unique(classes[b.first : b.stop])) for b in self.boundaries)

    def _transfers(
        self, columns: _TaskColumns, ids: _Ids, folding: Folding, classes: Sequence[PlayedRank], patterns: PatternTable
    ) -> list[Transfer]:
        found = []
        num_micro = self.schedule.num_micro_batches
        for boundary in self.boundaries:
            rows = slice(boundary.first, boundary.stop)
            members = self.relations.groups[self.sends].members[rows]
            prices, shape = self.relations.price(self.sends, Collective.SEND, boundary.size_bytes)
            labels, firsts = np.unique(folding.group_class[self.sends][rows], return_index=True)
            for group_class, first in zip(labels.tolist(), firsts.tolist(), strict=True):
                source, target = folding.rank_class[members[first]].tolist()
                price = prices[shape[boundary.first + first]]
                pattern = patterns.row(self.sends, price.flows, group_class, price.terms.cap_Bps)
                tasks = columns.append(
                    num_micro, TaskKind.COMM, price.terms.latency_s, price.terms.work_bytes, pattern, price.comm_class
                )
                ids.total += num_micro
                found.append(
                    Transfer(
                        chunk=boundary.chunk, kind=boundary.kind, source=source, target=target,
                        size_bytes=boundary.size_bytes, tasks=tasks, pattern=pattern,
                    )
                )  # fmt: skip
        return found

    def _edges(self, ids: _Ids, classes: Sequence[PlayedRank], transfers: Sequence[Transfer]) -> np.ndarray:
        found = []
        for number, rank in enumerate(classes):
            found.append(ids.of[number][self.plans[rank.plan].edges])
        for before, after in itertools.pairwise(self.chunks):
            if before.rank == after.rank:
                for number, rank in enumerate(classes):
                    if rank.plan == before.rank:
                        plan = self.plans[rank.plan]
                        found.append(ids.of[number][_joined(plan, (before.index, F), plan, (after.index, F))])
                        found.append(ids.of[number][_joined(plan, (after.index, B), plan, (before.index, B))])
        waits = self.schedule.name in _WAITING_SENDS
        for transfer in transfers:
            key = (transfer.chunk, transfer.kind)
            other = (transfer.chunk + (1 if transfer.kind == F else -1), transfer.kind)
            source, target = classes[transfer.source], classes[transfer.target]
            made = ids.of[transfer.source][self.plans[source.plan].sends_out[key]]
            found.append(_broadcast(made, transfer.tasks[:, None]))
            wanted = ids.of[transfer.target][self.plans[target.plan].sends_in[other]]
            found.append(_broadcast(transfer.tasks[:, None], wanted))
            if waits:
                then = self.plans[source.plan].action_next[key]
                has = then >= 0
                found.append(np.stack([transfer.tasks[has], ids.of[transfer.source][then[has]]], axis=1))
        return np.concatenate(found) if found else np.empty((0, 2), np.int64)

    def _streams(self, ids: _Ids, classes: Sequence[PlayedRank], transfers: Sequence[Transfer]) -> _Streams:
        tasks: list[np.ndarray] = []
        device: list[int] = []
        names: list[str] = []
        for number, rank in enumerate(classes):
            for name, steps in self.plans[rank.plan].stream_steps.items():
                tasks.append(ids.of[number][steps])
                device.append(number)
                names.append(name)
        for transfer in transfers:
            plan = self.plans[classes[transfer.source].plan]
            order = np.argsort(plan.sends_out[(transfer.chunk, transfer.kind)][:, 0], kind="stable")
            for end in (transfer.source, transfer.target):
                tasks.append(transfer.tasks[order])
                device.append(end)
                names.append("pipeline")
        ptr = np.concatenate([[0], np.cumsum([len(t) for t in tasks])]).astype(np.int32)
        return _Streams(ptr, np.concatenate(tasks).astype(np.int32), np.array(device, np.int32), tuple(names))

    def _stands_for(self, classes: Sequence[PlayedRank], folding: Folding) -> int:
        """Tasks of all ranks: computations of every rank, collectives of every group, all sends."""
        total = 0
        shared: dict[int, int] = {}  # row → members that take part, over all its groups
        for rank in classes:
            plan = self.plans[rank.plan]
            total += rank.multiplicity * (plan.num_steps - int(plan.comm_counts.sum()))
            for row, count in zip(plan.rows.tolist(), plan.comm_counts.tolist(), strict=True):
                shared[row] = shared.get(row, 0) + rank.multiplicity * count
        for row, members in shared.items():
            total += members // self.relations.groups[self.row_relation[row]].members.shape[1]
        sends = sum(boundary.stop - boundary.first for boundary in self.boundaries)
        return total + sends * self.schedule.num_micro_batches


def _joined(plan: RankPlan, out: tuple[int, int], other: RankPlan, into: tuple[int, int]) -> np.ndarray:
    return _broadcast(plan.sends_out[out], other.sends_in[into])


def _broadcast(sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Edges from every source to every target of the same micro-batch."""
    s, t = sources.shape[1], targets.shape[1]
    return np.stack([np.repeat(sources, t, axis=1).ravel(), np.tile(targets, (1, s)).ravel()], axis=1)


def _csr(rows: np.ndarray, values: np.ndarray, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(rows, kind="stable")
    ptr = np.zeros(num_rows + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=num_rows), out=ptr[1:])
    return ptr, values[order].astype(np.int32)


@dataclass(slots=True)
class _Ids:
    of: list[np.ndarray]
    owns: list[np.ndarray | None]
    total: int


@dataclass(slots=True)
class _Streams:
    ptr: np.ndarray
    task: np.ndarray
    device: np.ndarray
    names: tuple[str, ...]


@lru_cache(maxsize=8)
def _folded(key: Keyed[tuple[Relations, np.ndarray]], is_folded: bool) -> Folding:
    relations, start = key.value
    return fold(start, relations.cluster.link_colours(), relations.relations(), is_folded=is_folded)


class _TaskColumns:
    """Task columns; sends are appended behind the steps."""

    def __init__(self, filled: int, total: int) -> None:
        self.filled = filled
        self.kind = np.zeros(total, np.uint8)
        self.latency_s, self.work, self.release_s = np.zeros(total), np.zeros(total), np.zeros(total)
        self.segment, self.pattern = np.full(total, -1, np.int32), np.full(total, -1, np.int32)
        self.op_class = np.zeros(total, np.int16)

    def append(
        self, count: int, kind: TaskKind, latency_s: float, work: float, pattern: int, op_class: int
    ) -> np.ndarray:
        rows = slice(self.filled, self.filled + count)
        self.kind[rows], self.latency_s[rows], self.work[rows] = kind, latency_s, work
        self.pattern[rows], self.op_class[rows] = pattern, op_class
        self.filled += count
        return np.arange(rows.start, rows.stop)
