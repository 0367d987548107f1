"""Busy, exposed, waiting, bubble: a device's step in the words of HolisticTraceAnalysis.

::

    busy       the compute stream works
    exposed    it does not, and a communication of the device does (which kind, by priority)
    idle       neither; by what ends it:
      host       the launch of the next task, or an update on the host
      waiting    another rank that reaches a collective later
      bubble     another pipeline stage, or the end of the step

The five of a device add up to the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from proteus.compiler.graph import ExecutionGraph
from proteus.compiler.kinds import SpanKind
from proteus.htae.tasks import Timeline
from proteus.result.spans import Spans

#: names of exposed communication, the first that runs is the one that is waited for
EXPOSED = {
    SpanKind.TENSOR_COMM: "tensor",
    SpanKind.CONTEXT_COMM: "context",
    SpanKind.EXPERT_COMM: "expert",
    SpanKind.PARAMETER_COMM: "parameter",
    SpanKind.GRADIENT_COMM: "gradient",
    SpanKind.PIPELINE_COMM: "pipeline",
    SpanKind.COPY: "copy",
}
#: tasks without duration between a start and what caused it; more in a row do not happen
_INSTANTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTimes:
    """Where the step of one device went [s].

    Parameters
    ----------
    multiplicity
        Devices that this one stands for.
    overlapped_s
        Communication beside computation.
    by_kind_s
        Sum of the spans of each kind, overlapping ones counted twice.
    """

    device: int
    multiplicity: int
    busy_s: float
    exposed_s: Mapping[str, float] = field(default_factory=dict)
    host_s: float = 0.0
    waiting_s: float = 0.0
    bubble_s: float = 0.0
    overlapped_s: float = 0.0
    by_kind_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def exposed_comm_s(self) -> float:
        """Exposed communication of all kinds [s]."""
        return sum(self.exposed_s.values())

    @property
    def idle_s(self) -> float:
        """Time in which neither its compute stream nor a communication runs [s]."""
        return self.host_s + self.waiting_s + self.bubble_s


def union(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Disjoint intervals that cover the same time, sorted.

    >>> union(np.array([0.0, 4.0, 1.0]), np.array([2.0, 5.0, 3.0]))
    (array([0., 4.]), array([3., 5.]))
    """
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    head = np.concatenate([[True], start[1:] > end[:-1]])
    last = np.flatnonzero(np.concatenate([head[1:], [True]]))
    return start[head], end[last]


def covered(start: np.ndarray, end: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Time covered by disjoint sorted intervals up to each of `at`.

    >>> covered(np.array([1.0, 4.0]), np.array([2.0, 6.0]), np.array([0.0, 1.5, 3.0, 5.0]))
    array([0. , 0.5, 1. , 2. ])
    """
    if not len(start):
        return np.zeros(len(at))
    done = np.concatenate([[0.0], np.cumsum(end - start)])
    row = np.searchsorted(start, at, side="right") - 1
    inside = np.clip(at - start[row], 0.0, (end - start)[row])
    result: np.ndarray = np.where(row >= 0, done[row] + inside, 0.0)
    return result


def rows_of_devices(spans: Spans) -> dict[int, np.ndarray]:
    """The rows of each device that was played, in the order of the lanes."""
    lanes: dict[int, list[np.ndarray]] = {}
    for number, lane in enumerate(spans.lanes):
        lanes.setdefault(lane.device, []).append(np.arange(spans.lane_ptr[number], spans.lane_ptr[number + 1]))
    return {device: np.concatenate(rows) for device, rows in lanes.items()}


def exposed_times(spans: Spans) -> np.ndarray:
    """float64[spans]: how much of each communication nothing hides [s].

    Hidden is what lies beside computation of the device, beside a
    communication of a kind that comes first, or beside an earlier one of its
    own kind; so the exposed times of a device never count an instant twice.
    """
    exposed = np.zeros(len(spans))
    for rows in rows_of_devices(spans).values():
        kind, start = spans.kind[rows], spans.start_s[rows]
        end = start + spans.duration_s[rows]
        is_compute = kind <= SpanKind.OPTIMIZER
        seen = union(start[is_compute], end[is_compute])
        for which in EXPOSED:
            mine = np.flatnonzero(kind == which)
            if not len(mine):
                continue
            mine = mine[np.argsort(start[mine], kind="stable")]
            until = np.concatenate([[0.0], np.maximum.accumulate(end[mine])[:-1]])
            first = np.maximum(start[mine], until)
            last = np.maximum(end[mine], first)
            exposed[rows[mine]] = np.maximum(last - first - (covered(*seen, last) - covered(*seen, first)), 0.0)
            seen = union(np.concatenate([seen[0], start[mine]]), np.concatenate([seen[1], end[mine]]))
    return exposed


def device_times(
    graph: ExecutionGraph, timeline: Timeline, spans: Spans, exposed_s: np.ndarray | None = None
) -> tuple[DeviceTimes, ...]:
    """Times of every device that was played, in the order of the lanes."""
    exposed_s = exposed_times(spans) if exposed_s is None else exposed_s
    number = {rank.device: n for n, rank in enumerate(graph.classes)}
    starts = _Starts(graph, timeline)
    return tuple(
        _device(graph, timeline, spans, number[device], rows, exposed_s[rows], starts)
        for device, rows in rows_of_devices(spans).items()
    )


def _device(
    graph: ExecutionGraph,
    timeline: Timeline,
    spans: Spans,
    number: int,
    rows: np.ndarray,
    exposed_s: np.ndarray,
    starts: _Starts,
) -> DeviceTimes:
    start, kind, duration = spans.start_s[rows], spans.kind[rows], spans.duration_s[rows]
    is_compute = kind <= SpanKind.OPTIMIZER
    busy = _length(union(start[is_compute], (start + duration)[is_compute]))
    is_comm = ~is_compute & (kind != SpanKind.HOST)
    comm = _length(union(start[is_comm], (start + duration)[is_comm]))
    exposed = {name: float(exposed_s[kind == which].sum()) for which, name in EXPOSED.items() if (kind == which).any()}
    idle = _idle(union(start, start + duration), timeline.makespan_s)
    host_s, waiting_s, bubble_s = starts.split(number, *idle)
    busy_or_comm = kind != SpanKind.HOST
    host_s += _length(union(start, start + duration)) - _length(
        union(start[busy_or_comm], (start + duration)[busy_or_comm])
    )
    rank = graph.classes[number]
    return DeviceTimes(
        device=rank.device,
        multiplicity=rank.multiplicity,
        busy_s=busy,
        exposed_s=exposed,
        host_s=host_s,
        waiting_s=waiting_s,
        bubble_s=bubble_s,
        overlapped_s=max(comm - sum(exposed.values()), 0.0),
        by_kind_s={SpanKind(k).name.lower(): float(duration[kind == k].sum()) for k in np.unique(kind).tolist()},
    )


def _length(active: tuple[np.ndarray, np.ndarray]) -> float:
    """Time that disjoint intervals cover [s]."""
    return float((active[1] - active[0]).sum())


def _idle(active: tuple[np.ndarray, np.ndarray], step_s: float) -> tuple[np.ndarray, np.ndarray]:
    """The gaps between disjoint sorted intervals, from the start of the step to its end."""
    begin = np.concatenate([[0.0], active[1]])
    end = np.concatenate([active[0], [step_s]])
    keep = end > begin
    return begin[keep], end[keep]


class _Starts:
    """What lets the tasks of a device start, looked up by time."""

    def __init__(self, graph: ExecutionGraph, timeline: Timeline) -> None:
        self.graph, self.timeline = graph, timeline
        self.is_send = np.zeros(graph.tasks.num_tasks, bool)
        self.sends: dict[int, list[np.ndarray]] = {}
        for transfer in graph.transfers:
            self.is_send[transfer.tasks] = True
            for end in (transfer.source, transfer.target):
                self.sends.setdefault(end, []).append(transfer.tasks)

    def split(self, number: int, begin: np.ndarray, end: np.ndarray) -> tuple[float, float, float]:
        """Idle time of rank class `number` that ends by a launch, by another rank, by another stage [s]."""
        if not len(begin):
            return 0.0, 0.0, 0.0
        line, graph = self.timeline, self.graph
        tasks = np.concatenate([graph.classes[number].task_of, *self.sends.get(number, [])])
        tasks = tasks[line.end_s[tasks] > line.start_s[tasks]]
        tasks = tasks[np.argsort(line.start_s[tasks], kind="stable")]
        at = np.searchsorted(line.start_s[tasks], end)
        is_tail = (at >= len(tasks)) | (end >= line.makespan_s)
        task = tasks[np.minimum(at, len(tasks) - 1)]
        cause = line.cause[task]
        is_pipeline = self.is_send[task] | ((cause >= 0) & self.is_send[cause])
        for _ in range(_INSTANTS):
            instant = (cause >= 0) & (line.end_s[cause] == line.start_s[cause])
            cause = np.where(instant, line.cause[cause], cause)
            is_pipeline |= (cause >= 0) & self.is_send[cause]
        lost = end - begin
        is_host = ~is_tail & (cause < 0)
        has_stages = graph.schedule.num_ranks > 1
        is_bubble = (~is_tail & ~is_host & is_pipeline) | (is_tail & has_stages)
        host_s, bubble_s = float(lost[is_host].sum()), float(lost[is_bubble].sum())
        return host_s, float(lost[~is_host & ~is_bubble].sum()), bubble_s
