"""Busy, exposed, waiting, bubble: a device's step in terms of HolisticTraceAnalysis.

::

    busy       the compute stream works
    exposed    it does not, and a communication of the device does (which kind, by priority)
    idle       neither; by what ends it:
      host       the launch of the next task, a transfer in which it is held, or an update on the host
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
from proteus.result.windows import Windows

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """What runs on one device over the step [s].

    Parameters
    ----------
    busy_s, comm_s, working_s
        Time with computation, with communication, with either.
    exposed_s
        By kind: how much of each communication nothing hides.
    by_kind_s
        By kind: the sum of the spans.
    on_s, off_s
        float64: the disjoint intervals in which anything runs, the host included.
    """

    busy_s: float
    comm_s: float
    working_s: float
    exposed_s: Mapping[str, float]
    by_kind_s: Mapping[str, float]
    on_s: np.ndarray
    off_s: np.ndarray


def lanes_of_devices(spans: Spans) -> dict[int, np.ndarray]:
    """int64[lanes, 2]: the rows, from and to, of the lanes of each simulated device."""
    lanes: dict[int, list[int]] = {}
    for number, lane in enumerate(spans.lanes):
        lanes.setdefault(lane.device, []).append(number)
    edges = np.stack([spans.lane_ptr[:-1], spans.lane_ptr[1:]], axis=1)
    return {device: edges[numbers] for device, numbers in lanes.items()}


def device_uses(spans: Spans) -> tuple[np.ndarray, dict[int, DeviceUse]]:
    """float64[spans]: how much of each communication nothing hides [s]; and what runs on every device.

    Hidden is what lies beside computation of the device, beside a
    communication of a kind that comes first, or beside an earlier one of its
    own kind; so the exposed times of a device never count an instant twice.
    """
    from proteus.result.kernels import sweep  # numba takes long to import

    rank_of = np.zeros(len(SpanKind), np.int64)  # compute comes first, the host last
    rank_of[list(EXPOSED)] = np.arange(1, 1 + len(EXPOSED))
    rank_of[SpanKind.HOST] = 1 + len(EXPOSED)
    exposed = np.zeros(len(spans))
    use_of_device = {}
    for device, lanes in lanes_of_devices(spans).items():
        by_rank, by_kind, busy_s, comm_s, working_s, on_s, off_s = sweep(
            lanes, spans.start_s, spans.duration_s, spans.kind, rank_of, 2 + len(EXPOSED), exposed
        )
        use_of_device[device] = DeviceUse(
            busy_s=busy_s,
            comm_s=comm_s,
            working_s=working_s,
            exposed_s={name: float(by_rank[rank_of[kind]]) for kind, name in EXPOSED.items() if by_kind[kind] > 0},
            by_kind_s={SpanKind(kind).name.lower(): float(by_kind[kind]) for kind in np.flatnonzero(by_kind).tolist()},
            on_s=on_s,
            off_s=off_s,
        )
    return exposed, use_of_device


def device_times(
    graph: ExecutionGraph, timeline: Timeline, windows: Windows, uses: Mapping[int, DeviceUse]
) -> tuple[DeviceTimes, ...]:
    """Times of every simulated device, in the order of `uses`."""
    number = {rank.device: n for n, rank in enumerate(graph.classes)}
    starts = _Starts(graph, timeline)
    return tuple(_device(graph, windows, number[device], use, starts) for device, use in uses.items())


def _device(graph: ExecutionGraph, windows: Windows, number: int, use: DeviceUse, starts: _Starts) -> DeviceTimes:
    begin_s = float(windows.begin_s[number])
    until_s = begin_s + windows.step_time_s  # when it begins the next step
    host_s, waiting_s, bubble_s = starts.split(number, *_idle(use.on_s, use.off_s, begin_s, until_s), until_s)
    rank = graph.classes[number]
    return DeviceTimes(
        device=rank.device,
        multiplicity=rank.multiplicity,
        busy_s=use.busy_s,
        exposed_s=use.exposed_s,
        host_s=host_s + float((use.off_s - use.on_s).sum()) - use.working_s,
        waiting_s=waiting_s,
        bubble_s=bubble_s,
        overlapped_s=max(use.comm_s - sum(use.exposed_s.values()), 0.0),
        by_kind_s=use.by_kind_s,
    )


def _idle(on_s: np.ndarray, off_s: np.ndarray, begin_s: float, until_s: float) -> tuple[np.ndarray, np.ndarray]:
    """The gaps between disjoint sorted intervals, from the start of the step to its end."""
    begin = np.concatenate([[begin_s], off_s])
    end = np.concatenate([on_s, [until_s]])
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

    def split(self, number: int, begin: np.ndarray, end: np.ndarray, until_s: float) -> tuple[float, float, float]:
        """Idle time of rank class `number` that ends by a launch, by another rank, by another stage or the step [s]."""
        if not len(begin):
            return 0.0, 0.0, 0.0
        line, graph = self.timeline, self.graph
        tasks = np.concatenate([graph.classes[number].task_of, *self.sends.get(number, [])])
        tasks = tasks[line.end_s[tasks] > line.start_s[tasks]]
        tasks = tasks[np.argsort(line.start_s[tasks], kind="stable")]
        at = np.searchsorted(line.start_s[tasks], end)
        is_tail = (at >= len(tasks)) | (end >= until_s)
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
