"""What must hold of every timeline; tests play random graphs and call :func:`check_timeline`.

A violation is a bug of the engine, so it is an ``AssertionError``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from proteus.htae.segments import op_bounds
from proteus.htae.tasks import TaskGraph, TaskKind, Timeline

#: relative room for the rounding of float64 sums
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class _Piece:
    """A time in which one task works on one op."""

    task: int
    start_s: float
    end_s: float
    op_class: int


def check_timeline(graph: TaskGraph, timeline: Timeline) -> None:
    """Assert all invariants of a timeline that was played with ``record=True``.

    Every start has its cause; no stream runs two tasks; work is conserved; at
    every time the slow-downs are those of the tables, the shares of links are
    within capacity and max-min optimal; and the makespan is at least that of
    the longest path, of every stream and of every link.
    """
    check_starts(graph, timeline)
    rates = _rates(graph, timeline)
    check_work(graph, timeline, rates)
    check_rates(graph, timeline, rates)
    check_bounds(graph, timeline)


def _before(graph: TaskGraph) -> list[set[int]]:
    """Everything that must have ended before each task starts."""
    before = [set(graph.pred[a:b].tolist()) for a, b in zip(graph.pred_ptr[:-1], graph.pred_ptr[1:], strict=True)]
    for stream in range(graph.num_streams):
        row = graph.stream_task[graph.stream_ptr[stream] : graph.stream_ptr[stream + 1]].tolist()
        for earlier, later in pairwise(row):
            before[later].add(earlier)
    return before


def check_starts(graph: TaskGraph, timeline: Timeline) -> None:
    """A task starts exactly when the last thing that it waits for is over, and its cause says what that was."""
    for task, before in enumerate(_before(graph)):
        start_s, cause = timeline.start_s[task], int(timeline.cause[task])
        due_s = max([float(graph.release_s[task]), *(float(timeline.end_s[predecessor]) for predecessor in before)])
        assert start_s == due_s, f"task {task} starts at {start_s}, was due at {due_s}"
        if cause < 0:
            assert start_s == graph.release_s[task], f"task {task} starts at {start_s} without a cause"
        else:
            assert cause in before and timeline.end_s[cause] == start_s, f"task {task} is not caused by {cause}"
    leads_back = timeline.cause < 0
    for task in range(graph.num_tasks):
        chain: list[int] = []
        while not leads_back[task]:
            chain.append(task)
            task = int(timeline.cause[task])
            assert len(chain) <= graph.num_tasks, "the causes run in a circle"
        leads_back[chain] = True


def _rates(graph: TaskGraph, timeline: Timeline) -> list[list[tuple[float, float]]]:
    """Per task the (time, rate) from the beginning of its work on, closed by (end, 0)."""
    rates: list[list[tuple[float, float]]] = []
    for task in range(graph.num_tasks):
        is_flow = graph.kind[task] in (TaskKind.COMM, TaskKind.COPY)
        begin_s = float(timeline.start_s[task] + graph.latency_s[task])
        rates.append([] if is_flow else [(begin_s, 1.0)])
    for task, time_s, rate in zip(
        timeline.rate_task.tolist(), timeline.rate_time_s.tolist(), timeline.rate.tolist(), strict=True
    ):
        assert not rates[task] or rates[task][-1][0] <= time_s, f"the log of task {task} runs backwards"
        rates[task].append((time_s, rate))
    for task, steps in enumerate(rates):
        steps.append((float(timeline.end_s[task]), 0.0))
    return rates


def check_work(graph: TaskGraph, timeline: Timeline, rates: list[list[tuple[float, float]]]) -> None:
    """The integral of the rate over time is the work."""
    for task, steps in enumerate(rates):
        begin_s, work = float(timeline.start_s[task] + graph.latency_s[task]), float(graph.work[task])
        assert steps[0][0] >= begin_s and (work == 0 or steps[0][0] == begin_s), f"task {task} idles after its latency"
        if work == 0:
            assert timeline.end_s[task] == begin_s
            continue
        if any(np.isinf(rate) for _, rate in steps):
            assert timeline.end_s[task] == begin_s
            continue
        done = sum(rate * (later - time_s) for (time_s, rate), (later, _) in pairwise(steps))
        # times carry a rounding error of their own size, so work carries that error times the rate
        room = TOLERANCE * (work + max(rate for _, rate in steps) * timeline.makespan_s)
        assert abs(done - work) <= room, f"task {task} did {done} of {work}"


def _pieces(graph: TaskGraph, timeline: Timeline) -> list[_Piece]:
    """Every op with its class; ops of segments apart."""
    pieces = [
        _Piece(task, float(timeline.start_s[task] + graph.latency_s[task]), float(timeline.end_s[task]), op_class)
        for task, op_class in enumerate(graph.op_class.tolist())
        if graph.segment[task] < 0
    ]
    for task, op, start_s, end_s in zip(*(column.tolist() for column in op_bounds(graph, timeline)), strict=True):
        row = graph.segment_ptr[graph.segment[task]] + op
        pieces.append(_Piece(task, start_s, end_s, int(graph.segment_class[row])))
    return pieces


def check_rates(graph: TaskGraph, timeline: Timeline, rates: list[list[tuple[float, float]]]) -> None:
    """At the middle of every time between two changes, all rates are the ones that the rules give."""
    pieces = _pieces(graph, timeline)
    devices = [set[int]() for _ in range(graph.num_tasks)]
    for stream in range(graph.num_streams):
        for task in graph.stream_task[graph.stream_ptr[stream] : graph.stream_ptr[stream + 1]].tolist():
            devices[task].add(int(graph.stream_device[stream]))
    changes = sorted(
        {p.start_s for p in pieces} | {p.end_s for p in pieces} | {time_s for steps in rates for time_s, _ in steps}
    )
    for before_s, after_s in pairwise(changes):
        if after_s - before_s <= TOLERANCE * timeline.makespan_s:
            continue
        now_s = (before_s + after_s) / 2
        running = [p for p in pieces if p.start_s < now_s < p.end_s]
        rate = {p.task: [r for time_s, r in rates[p.task] if time_s < now_s][-1] for p in running}
        flows = [p for p in running if graph.kind[p.task] in (TaskKind.COMM, TaskKind.COPY)]
        computes = [p for p in running if graph.kind[p.task] == TaskKind.COMPUTE]
        for p in computes:
            slow = [graph.compute_slowdown[p.op_class, f.op_class] for f in flows if devices[f.task] & devices[p.task]]
            assert np.isclose(rate[p.task], 1 / (1 + max(slow, default=0.0))), f"rate of task {p.task} at {now_s}"
        caps = {}
        for f in flows:
            slow = [graph.comm_slowdown[f.op_class, p.op_class] for p in computes if devices[f.task] & devices[p.task]]
            caps[f.task] = graph.pattern_cap_Bps[graph.pattern[f.task]] / (1 + max(slow, default=0.0))
        check_shares(graph, {f.task: rate[f.task] for f in flows}, caps)


def check_shares(graph: TaskGraph, rate_Bps: dict[int, float], cap_Bps: dict[int, float]) -> None:
    """Every link within capacity; every flow at its cap or, on a full link of its, not below any other."""
    flows_on: dict[int, dict[int, int]] = {}
    for task in rate_Bps:
        row = graph.pattern[task]
        for j in range(graph.pattern_ptr[row], graph.pattern_ptr[row + 1]):
            flows_on.setdefault(int(graph.pattern_link[j]), {})[task] = int(graph.pattern_count[j])
    limited = {task for task, rate in rate_Bps.items() if rate >= cap_Bps[task] * (1 - TOLERANCE)}
    for link, counts in flows_on.items():
        capacity_Bps = float(graph.link_capacity_Bps[link])
        used_Bps = sum(count * rate_Bps[task] for task, count in counts.items())
        assert used_Bps <= capacity_Bps * (1 + TOLERANCE), f"link {link} carries {used_Bps} of {capacity_Bps}"
        if used_Bps >= capacity_Bps * (1 - TOLERANCE):
            largest = max(rate_Bps[task] for task in counts)
            limited |= {task for task in counts if rate_Bps[task] >= largest * (1 - TOLERANCE)}
    assert all(rate <= cap_Bps[task] * (1 + TOLERANCE) for task, rate in rate_Bps.items())
    assert limited == set(rate_Bps), f"nothing limits {set(rate_Bps) - limited}"


def alone_s(graph: TaskGraph) -> np.ndarray:
    """float64[tasks]: how long each task takes with everything to itself."""
    alone = graph.work.copy()
    for task in np.flatnonzero(graph.pattern >= 0):
        rows = slice(graph.pattern_ptr[graph.pattern[task]], graph.pattern_ptr[graph.pattern[task] + 1])
        limits = graph.link_capacity_Bps[graph.pattern_link[rows]] / graph.pattern_count[rows]
        alone[task] /= min(graph.pattern_cap_Bps[graph.pattern[task]], limits.min(initial=np.inf))
    return graph.latency_s + alone


def check_bounds(graph: TaskGraph, timeline: Timeline) -> None:
    """No run is shorter than its longest path, its busiest stream or its busiest link."""
    from proteus.htae.usage import link_bytes

    alone, least_s = alone_s(graph), timeline.makespan_s * (1 + TOLERANCE)
    before, earliest_s = _before(graph), np.zeros(graph.num_tasks)
    for task in np.argsort(timeline.start_s, kind="stable").tolist():  # an order of the graph but for empty tasks
        earliest_s[task] = alone[task] + max([float(graph.release_s[task]), *(earliest_s[list(before[task])])])
    assert earliest_s.max(initial=0.0) <= least_s, "shorter than the longest path"
    for stream in range(graph.num_streams):
        row = graph.stream_task[graph.stream_ptr[stream] : graph.stream_ptr[stream + 1]]
        assert alone[row].sum() <= least_s, f"shorter than stream {stream}"
    assert np.all(link_bytes(graph) <= graph.link_capacity_Bps * least_s), "shorter than a link's bytes take"
