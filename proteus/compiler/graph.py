"""The execution graph: tasks in columns, and what every task is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from proteus.cluster import Cluster
from proteus.compiler.chain import Chunk
from proteus.compiler.fold import Folding
from proteus.compiler.memory import StaticMemory
from proteus.compiler.price import Borrowed
from proteus.compiler.rank_plan import RankPlan
from proteus.compiler.tables import CommRow, OpRow
from proteus.costs.ops import Calibration
from proteus.frameworks import Framework
from proteus.htae.tasks import TaskGraph
from proteus.strategy.schedules.pipeline_plan import PipelinePlan
from proteus.strategy.tree import StrategyTree


@dataclass(frozen=True, slots=True, kw_only=True)
class RankClass:
    """Ranks with the same program and surroundings, simulated once.

    Parameters
    ----------
    device
        The representative.
    multiplicity
        How many ranks it stands for.
    plan
        Pipeline rank, whose :class:`RankPlan` it runs.
    task_of
        int32[steps of the plan]: the task of each step.
    segment_base
        Row of the segment table at which its plan's segments begin.
    """

    device: int
    multiplicity: int
    plan: int
    task_of: np.ndarray
    segment_base: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """What passes between two chunks for every micro-batch, between one class of pairs.

    `tasks` are the sends in micro-batch order.  `kind` is F (towards the next
    chunk) or B (towards the one before).  `sigma` and `links` are as those of
    communication rows.
    """

    chunk: int
    kind: int
    source: int  # rank class
    target: int
    size_bytes: float
    tasks: np.ndarray
    pattern: int
    sigma: float
    links: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionGraph:
    """A compiled strategy.

    Parameters
    ----------
    framework
        What the ranks are planned with.
    frameworks
        Name of a GPU -> the framework as it runs there.
    notes
        What of the framework does not run on these GPUs, and what runs instead.
    tasks
        Columns for the engine.
    plans
        Per pipeline rank.
    classes
        The ranks that are played.
    op_rows
        Rows of the segment table, in its order.
    op_sigma
        float64[ops, 2, ComputeClass]: what the curve of each class puts an
        op's time off by, as a logarithm: with all ops together, and by itself.
    segment_is_held
        bool[segments]: the host's launches set the time of the segment.
    comm_rows
        Rows that communication steps refer to.
    comm_sigma, comm_links
        Per communication row: what its family of links puts its time off by,
        as a logarithm, and the name of that family.
    borrowed
        Kernels that another chip's or dtype's curve stands in for.
    num_tasks
        Tasks that the graph stands for, all ranks counted.
    """

    tree: StrategyTree
    cluster: Cluster
    calibration: Calibration | None
    framework: Framework
    frameworks: Mapping[str, Framework]
    notes: tuple[str, ...]
    schedule: PipelinePlan
    chunks: tuple[Chunk, ...]
    plans: tuple[RankPlan, ...]
    classes: tuple[RankClass, ...]
    transfers: tuple[Transfer, ...]
    tasks: TaskGraph
    folding: Folding
    op_rows: tuple[OpRow, ...]
    op_flop: np.ndarray
    op_sigma: np.ndarray
    segment_is_held: np.ndarray
    comm_rows: tuple[CommRow, ...]
    comm_sigma: np.ndarray
    comm_links: tuple[str, ...]
    static: tuple[StaticMemory, ...]
    stream_names: tuple[str, ...]
    num_tasks: int
    borrowed: tuple[Borrowed, ...]

    @property
    def node_of(self) -> Mapping[tuple[str, str], int]:
        """(path of a run, op name) → row of the tree."""
        return self.tree.node_ids()

    @property
    def op_wait_s(self) -> np.ndarray:
        """float64[ops of segments]: time in which the device waits for the host around a transfer [s]."""
        return np.array([row.wait_s for row in self.op_rows], np.float64)

    def describe(self, task: int) -> str:
        """A task for people: who, what, which micro-batch."""
        for transfer in self.transfers:
            at = np.flatnonzero(transfer.tasks == task)
            if len(at):
                return f"send of chunk {transfer.chunk} micro-batch {at[0]}"
        for rank in self.classes:
            at = np.flatnonzero(rank.task_of == task)
            if len(at):
                plan, step = self.plans[rank.plan], int(at[0])
                if plan.is_comm[step]:
                    step_name = self.comm_rows[plan.ref[step]].name
                else:
                    step_name = next(row.name for row in plan.segments[plan.ref[step]] if not row.wait_s)
                return f"device {rank.device}: {step_name} (micro-batch {plan.micro_batch[step]})"
        return str(task)
