"""Task columns: what every step of a simulated rank costs, and the sends behind the steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from proteus.compiler.rank_plan import RankPlan
from proteus.htae.tasks import TaskKind
from proteus.identity import MemoKey


class RowTable:
    """Costs of the rows of one plan on one rank: its communication rows first, then its segments."""

    def __init__(self, plan: RankPlan, segment_work_s: np.ndarray, segment_host_s: np.ndarray, comm_host_s: float):
        self.num_comms = comms = len(plan.comms)
        size = comms + len(segment_work_s)
        self.latency_s, self.work, self.launch_s = (np.zeros(size) for _ in range(3))
        self.pattern = np.full(size, -1, np.int32)
        self.op_class, self.kind = np.zeros(size, np.int16), np.zeros(size, np.uint8)
        self.work[comms:] = segment_work_s
        self.launch_s[comms:] = segment_host_s
        self.launch_s[:comms] = comm_host_s

    def comm(self, row: int, kind: TaskKind, latency_s: float, work: float, pattern: int, comm_class: int) -> None:
        """Set the communication row `row` of the plan."""
        self.kind[row], self.latency_s[row], self.work[row] = kind, latency_s, work
        self.pattern[row], self.op_class[row] = pattern, comm_class

    def steps(self, plan: RankPlan) -> StepColumns:
        """The rows spread over the steps of the plan; the same as last time for a plan that an edit leaves alone."""
        columns = (self.latency_s, self.work, self.launch_s, self.pattern, self.op_class, self.kind)
        return _spread(MemoKey((self, plan.row), id(plan.row), *(column.tobytes() for column in columns)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepColumns:
    """Columns of the steps of one plan.

    `release_s` is when the host has launched a step, were it never held;
    `segment` counts the plan's own segments, below 0 for communication.
    """

    kind: np.ndarray
    latency_s: np.ndarray
    work: np.ndarray
    release_s: np.ndarray
    pattern: np.ndarray
    op_class: np.ndarray
    segment: np.ndarray


@lru_cache(maxsize=64)
def _spread(key: MemoKey[tuple[RowTable, np.ndarray]]) -> StepColumns:
    table, row = key.value
    return StepColumns(
        kind=table.kind.take(row),
        latency_s=table.latency_s.take(row),
        work=table.work.take(row),
        release_s=np.cumsum(table.launch_s.take(row)),
        pattern=table.pattern.take(row),
        op_class=table.op_class.take(row),
        segment=np.maximum(row - table.num_comms, -1, dtype=np.int32),
    )


class TaskColumns:
    """Columns of all tasks; sends are appended behind the steps."""

    def __init__(self, filled: int, total: int) -> None:
        self.filled = filled
        self.kind = np.zeros(total, np.uint8)
        self.latency_s, self.work, self.release_s = np.zeros(total), np.zeros(total), np.zeros(total)
        self.segment, self.pattern = np.full(total, -1, np.int32), np.full(total, -1, np.int32)
        self.op_class = np.zeros(total, np.int16)

    def fill(self, tasks: slice, owns: np.ndarray | None, steps: StepColumns, segment_base: int) -> None:
        """Set the tasks of the steps that a rank owns (None: of all); its segments begin at `segment_base`."""
        for column, values in (
            (self.kind, steps.kind),
            (self.latency_s, steps.latency_s),
            (self.work, steps.work),
            (self.release_s, steps.release_s),
            (self.pattern, steps.pattern),
            (self.op_class, steps.op_class),
            (self.segment, np.where(steps.segment < 0, -1, steps.segment + segment_base)),
        ):
            column[tasks] = values if owns is None else values[owns]

    def append(
        self, count: int, kind: TaskKind, latency_s: float, work: float, pattern: int, op_class: int
    ) -> np.ndarray:
        """`count` equal tasks; their numbers."""
        rows = slice(self.filled, self.filled + count)
        self.kind[rows], self.latency_s[rows], self.work[rows] = kind, latency_s, work
        self.pattern[rows], self.op_class[rows] = pattern, op_class
        self.filled += count
        return np.arange(rows.start, rows.stop, dtype=np.int32)
