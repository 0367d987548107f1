"""Last pass: the columns that the engine plays, for one rank of every class."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from proteus.cluster import Cluster
from proteus.compiler import wiring
from proteus.compiler.chain import Chunk
from proteus.compiler.columns import RowTable, StepColumns, TaskColumns
from proteus.compiler.fold import Folding, fold
from proteus.compiler.graph import ExecutionGraph, RankClass, Transfer
from proteus.compiler.memory import StaticMemory
from proteus.compiler.numbering import TaskIds, number_tasks
from proteus.compiler.price import pricer
from proteus.compiler.rank_plan import RankPlan
from proteus.compiler.relations import PatternTable, Price, Relations, send_groups
from proteus.compiler.segments import PlayedRank, SegmentTable, Waits
from proteus.compiler.tables import HOST_COPIES, CommRow, HostCopy
from proteus.compiler.transfer import Pairs, transfer_pairs
from proteus.compiler.variants import Variants, variants
from proteus.costs.collectives import Collective
from proteus.costs.ops import Calibration
from proteus.costs.overlap import CommClass, ComputeClass, slowdowns, with_waits
from proteus.costs.precision import Precision
from proteus.frameworks import Framework
from proteus.htae.tasks import TaskGraph, TaskKind
from proteus.identity import MemoKey
from proteus.mesh import Mesh
from proteus.model.graph import OpKind
from proteus.strategy.schedules.pipeline_plan import B, F, PipelinePlan
from proteus.strategy.tree import StrategyTree


@dataclass(frozen=True, slots=True)
class _Boundary:
    """Pairs of ranks between two chunks that send equal amounts: rows of the sends' relation.

    `gather_s` is what the receivers need to gather what came to each of them.
    """

    chunk: int
    kind: int
    first: int
    stop: int
    size_bytes: float
    gather_s: float


class Emitter:
    """Emits the execution graph of planned ranks."""

    def __init__(
        self,
        tree: StrategyTree,
        cluster: Cluster,
        chunks: tuple[Chunk, ...],
        schedule: PipelinePlan,
        plans: tuple[RankPlan, ...],
        comms: tuple[CommRow, ...],
        precision: Precision,
        frameworks: Mapping[str, Framework],
        framework: Framework,
        algorithm: str | None,
        calibration: Calibration | None = None,
    ) -> None:
        self.tree, self.cluster, self.chunks, self.schedule, self.plans = tree, cluster, chunks, schedule, plans
        self.comms, self.precision, self.framework = comms, precision, framework
        self.frameworks = frameworks
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
        merges = self.framework.merges_tokens and row.stream == "expert" and row.kind == Collective.ALL_TO_ALL
        return max(1, self.topk) if merges else 1

    def _boundaries(self) -> list[_Boundary]:
        """The sends between chunks; all are groups of one relation."""
        boundaries: list[_Boundary] = []
        parts: list[tuple[int, bytes]] = []
        first = 0
        for before, after in itertools.pairwise(self.chunks):
            if before.rank == after.rank:
                continue
            for kind in (F, B):
                chunk = before.index if kind == F else after.index
                for pairs in transfer_pairs(before, after, kind, self.precision.activation_bytes):
                    stop = first + len(pairs.members)
                    sent_bytes, gather_s = self._sent(pairs, before.mesh)
                    boundaries.append(_Boundary(chunk, kind, first, stop, sent_bytes, gather_s))
                    parts.append((len(boundaries), pairs.members.astype(np.int64).tobytes()))
                    first = stop
        self.sends = self.relations.add(send_groups(tuple(parts))) if parts else -1
        for boundary in boundaries:  # names the flows that folding looks at
            self.relations.price(self.sends, Collective.SEND, boundary.size_bytes)
        return boundaries

    def _sent(self, pairs: Pairs, mesh: Mesh) -> tuple[float, float]:
        """(bytes that each of the pairs sends, time in which the receivers gather the rest from each other).

        The links inside a host are idle then, so the gather is no flow of its own.
        """
        if not (self.framework.splits_transfers and pairs.copies):
            return pairs.size_bytes, 0.0
        relation = self.relations.along(mesh, pairs.copies)
        prices, _ = self.relations.price(relation, Collective.ALL_GATHER, pairs.size_bytes)
        gather_s = max(price.terms.alone_s for price in prices)
        return pairs.size_bytes / mesh.degree(pairs.copies), gather_s

    # -- the graph ----------------------------------------------------------

    def graph(
        self,
        static: tuple[StaticMemory, ...],
        notes: tuple[str, ...],
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
            lambda gpu: pricer(gpu, self.precision, self.frameworks[gpu.name], self.calibration),
            waits=self._waits(),
        )
        ids = number_tasks(self.plans, classes, self.relations, self.row_relation, folding, self.num_ranks)
        patterns = PatternTable(self.relations, folding, self.cluster.link_capacity_Bps, sharing=sharing)
        senders = self._senders(folding)
        num_sends = sum(len(pairs) for _, pairs in senders) * self.schedule.num_micro_batches
        columns = TaskColumns(ids.total, ids.total + num_sends)
        for number, rank in enumerate(classes):
            steps = self._steps(rank, number, segments, folding, patterns)
            columns.fill(ids.own(number), ids.owns[number], steps, segments.base[number])
        transfers = self._transfers(senders, columns, ids, folding, patterns)
        waits = wiring.edges(
            ids, classes, self.plans, self.chunks, transfers, sends_wait=self.schedule.name in self.framework.sends_wait
        )
        streams = wiring.streams(ids, classes, self.plans, transfers)
        made = patterns.patterns()
        compute_slow, comm_slow = slowdowns(self.cluster.gpu())
        if self.calibration is not None and self.calibration.overlap is not None:
            compute_slow, comm_slow = self.calibration.overlap.apply(compute_slow, comm_slow)
        if not overlap:
            compute_slow, comm_slow = np.zeros_like(compute_slow), np.zeros_like(comm_slow)
        compute_slow, comm_slow = with_waits(compute_slow, comm_slow)
        least_sure = [max((p.terms for p in prices), key=lambda terms: terms.sigma) for prices, _ in self.row_prices]
        pred_ptr, pred = wiring.by_row(waits[:, 1], waits[:, 0], ids.total)
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
            framework=self.framework,
            frameworks=self.frameworks,
            notes=notes,
            schedule=self.schedule,
            chunks=self.chunks,
            plans=self.plans,
            classes=tuple(
                RankClass(
                    device=rank.device,
                    multiplicity=rank.multiplicity,
                    plan=rank.plan,
                    task_of=ids.of[number],
                    segment_base=segments.base[number],
                )
                for number, rank in enumerate(classes)
            ),
            transfers=tuple(transfers),
            tasks=tasks,
            folding=folding,
            op_rows=tuple(segments.rows),
            op_flop=segments.flop,
            op_sigma=segments.sigma,
            segment_is_held=segments.is_held,
            comm_rows=tuple(self.comms),
            comm_sigma=np.array([terms.sigma for terms in least_sure]),
            comm_links=tuple(terms.links for terms in least_sure),
            static=static,
            stream_names=streams.names,
            num_tasks=self._stands_for(classes, folding),
            borrowed=tuple(sorted(segments.borrowed)),
        )

    def _fold(self, kinds: Variants, is_folded: bool) -> Folding:
        colours = self.cluster.colours()[: self.num_ranks]
        _, position = np.unique(colours, return_inverse=True)
        start = kinds.of_rank.astype(np.int64) * (position.max() + 1) + position
        key = (self.cluster, self.relations.key(), start.tobytes())
        return _folded(MemoKey((self.relations, start), *key), is_folded)

    def _waits(self) -> Waits:
        """Where the framework holds its host."""
        framework = self.framework
        if framework.host_waits_for_routing and self.topk > 0:
            return Waits.IN_BLOCKS
        is_held = framework.host_waits_for_transfers and self.tree.num_pipeline_ranks > 1
        return Waits.BETWEEN_PASSES if is_held or framework.host_waits_for_passes else Waits.NEVER

    def _classes(self, folding: Folding, kinds: Variants) -> list[PlayedRank]:
        played_ranks = []
        for device, multiplicity in zip(folding.representatives.tolist(), folding.multiplicity.tolist(), strict=True):
            number = int(kinds.of_rank[device])
            played_ranks.append(PlayedRank(device, multiplicity, kinds.plan[number], kinds.coordinate[number]))
        return played_ranks

    def _steps(
        self, rank: PlayedRank, number: int, segments: SegmentTable, folding: Folding, patterns: PatternTable
    ) -> StepColumns:
        """What the steps of a simulated rank cost."""
        plan = self.plans[rank.plan]
        table = RowTable(
            plan,
            segments.total_s[segments.of_rank(number)],
            segments.host_s[number],
            self.framework.launch_s + self.framework.op_s,
        )
        for index, row in enumerate(plan.rows.tolist()):
            price, group = self._row_price(row, rank, folding)
            comm = self.comms[row]
            alone = self._share_beside(plan, price.comm_class) if comm.beside else 1.0
            table.comm(
                index,
                TaskKind.COPY if comm.kind in HOST_COPIES else TaskKind.COMM,
                price.terms.latency_s * alone,
                price.terms.work_bytes * comm.exposed * alone,
                patterns.row(self.row_relation[row], price.flows, group, price.terms.cap_Bps),
                price.comm_class,
            )
        return table.steps(plan)

    def _share_beside(self, plan: RankPlan, comm_class: CommClass) -> float:
        """Share of its own time that a communication costs if it overlaps another micro-batch.

        It represents the slow-down of the GEMMs that it overlaps.
        """
        slow, _ = slowdowns(self.cluster.gpu())
        unpaired = plan.first_forwards
        return unpaired + (1.0 - unpaired) * float(slow[ComputeClass.GEMM, comm_class])

    def _row_price(self, row: int, rank: PlayedRank, folding: Folding) -> tuple[Price, int]:
        relation = self.row_relation[row]
        prices, shape = self.row_prices[row]
        group = int(self.relations.group_of_rank(relation, self.num_ranks)[rank.device])
        return prices[shape[group]], int(folding.group_class[relation][group])

    # -- between stages -------------------------------------------------------

    def _senders(self, folding: Folding) -> list[tuple[_Boundary, list[tuple[int, int]]]]:
        """For every boundary the classes of pairs that send, each with its first pair."""
        senders = []
        for boundary in self.boundaries:
            labels, firsts = np.unique(
                folding.group_class[self.sends][boundary.first : boundary.stop], return_index=True
            )
            senders.append((boundary, list(zip(labels.tolist(), firsts.tolist(), strict=True))))
        return senders

    def _transfers(
        self,
        senders: Sequence[tuple[_Boundary, list[tuple[int, int]]]],
        columns: TaskColumns,
        ids: TaskIds,
        folding: Folding,
        patterns: PatternTable,
    ) -> list[Transfer]:
        transfers = []
        num_micro = self.schedule.num_micro_batches
        for boundary, pairs in senders:
            members = self.relations.groups[self.sends].members[boundary.first : boundary.stop]
            prices, shape = self.relations.price(self.sends, Collective.SEND, boundary.size_bytes)
            for group_class, first in pairs:
                source, target = folding.rank_class[members[first]].tolist()
                price = prices[shape[boundary.first + first]]
                pattern = patterns.row(self.sends, price.flows, group_class, price.terms.cap_Bps)
                latency_s = price.terms.latency_s + boundary.gather_s
                tasks = columns.append(
                    num_micro, TaskKind.COMM, latency_s, price.terms.work_bytes, pattern, price.comm_class
                )
                ids.total += num_micro
                transfers.append(
                    Transfer(
                        chunk=boundary.chunk, kind=boundary.kind, source=source, target=target,
                        size_bytes=boundary.size_bytes, tasks=tasks, pattern=pattern,
                        sigma=price.terms.sigma, links=price.terms.links,
                    )
                )  # fmt: skip
        return transfers

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


@lru_cache(maxsize=8)
def _folded(key: MemoKey[tuple[Relations, np.ndarray]], is_folded: bool) -> Folding:
    relations, start = key.value
    return fold(start, relations.cluster.link_colours(), relations.relations(), is_folded=is_folded)
