"""The meaning of a simulation, in plain Python.

This is docs/how-htae-works.md line by line: slow, short, and what the compiled
engine is compared with.  A segment is played op by op here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proteus.errors import SimulationError
from proteus.htae.rates import INFINITE, max_min_reference
from proteus.htae.tasks import TaskGraph, TaskKind, Timeline
from proteus.htae.validate import explain_stuck, validate

FLOWS = (TaskKind.COMM, TaskKind.COPY)


@dataclass(slots=True)
class _Running:
    """A task between its start and its end."""

    begin_s: float  # when its latency has passed
    ops: list[tuple[int, float]]  # (class, work) of the op that runs and of those after it
    is_working: bool = False
    left: float = 0.0  # work left of the first op at `since_s`
    since_s: float = 0.0
    rate: float = 0.0

    @property
    def event_s(self) -> float:
        """When its latency or its op ends, if its rate stays."""
        if not self.is_working:
            return self.begin_s
        return self.since_s + self.left / self.rate if self.rate > 0 else INFINITE


class _Player:
    def __init__(self, graph: TaskGraph) -> None:
        n = graph.num_tasks
        self.graph = graph
        self.now_s = 0.0
        self.start_s, self.end_s = [INFINITE] * n, [INFINITE] * n
        self.running: dict[int, _Running] = {}
        self.log: list[tuple[int, float, float]] = []
        self.preds = [_row(graph.pred_ptr, graph.pred, task) for task in range(n)]
        self.queues = [_row(graph.stream_ptr, graph.stream_task, s) for s in range(graph.num_streams)]
        self.streams: list[list[int]] = [[] for _ in range(n)]
        self.before: list[list[int]] = [list(preds) for preds in self.preds]  # all that lets a task start
        for stream, queue in enumerate(self.queues):
            for place, task in enumerate(queue):
                self.streams[task].append(stream)
                if place:
                    self.before[task].append(queue[place - 1])
        self.devices = [{int(graph.stream_device[s]) for s in streams} for streams in self.streams]

    def play(self) -> Timeline:
        while True:
            while self.end_what_is_over() or self.start_what_can():
                pass
            self.set_rates()
            release = [float(self.graph.release_s[t]) for t in self.free_tasks()]
            next_s = min([*(r.event_s for r in self.running.values()), *release], default=INFINITE)
            if next_s == INFINITE:
                break
            self.now_s = max(self.now_s, next_s)
        if max(self.end_s, default=0.0) == INFINITE:
            raise SimulationError(explain_stuck(self.graph, np.array(self.start_s) < INFINITE, np.array(self.end_s)))
        return Timeline(
            start_s=np.array(self.start_s),
            end_s=np.array(self.end_s),
            cause=np.array([self.cause(task) for task in range(self.graph.num_tasks)], "i4"),
            rate_task=np.array([task for task, _, _ in self.log], "i4"),
            rate_time_s=np.array([time_s for _, time_s, _ in self.log], "f8"),
            rate=np.array([rate for _, _, rate in self.log], "f8"),
        )

    def order(self, task: int) -> tuple[int, int]:
        return int(self.graph.priority[task]), task

    def end_what_is_over(self) -> bool:
        """Latencies and ops that are over at this instant; True when there was one."""
        over = sorted((t for t, r in self.running.items() if r.event_s <= self.now_s), key=self.order)
        for task in over:
            running = self.running[task]
            if running.is_working:
                running.ops.pop(0)
            running.is_working = True
            while running.ops and running.ops[0][1] == 0:  # an op without work is over where it begins
                running.ops.pop(0)
            if running.ops:
                running.left, running.since_s = running.ops[0][1], self.now_s
            else:
                del self.running[task]
                self.end_s[task] = self.now_s
                for stream in self.streams[task]:
                    self.queues[stream].remove(task)
        return bool(over)

    def free_tasks(self) -> list[int]:
        """Tasks whose predecessors have ended and that are at the head of all their streams."""
        return [
            task
            for task in range(self.graph.num_tasks)
            if self.start_s[task] == INFINITE
            and all(self.end_s[pred] < INFINITE for pred in self.preds[task])
            and all(self.queues[stream][0] == task for stream in self.streams[task])
        ]

    def start_what_can(self) -> bool:
        graph = self.graph
        starting = [task for task in self.free_tasks() if graph.release_s[task] <= self.now_s]
        for task in sorted(starting, key=self.order):
            self.start_s[task] = self.now_s
            ops = [(int(graph.op_class[task]), float(graph.work[task]))]
            if graph.segment[task] >= 0:
                classes = _row(graph.segment_ptr, graph.segment_class, graph.segment[task])
                ops = list(
                    zip(classes, _row(graph.segment_ptr, graph.segment_work_s, graph.segment[task]), strict=True)
                )
            self.running[task] = _Running(begin_s=self.now_s + float(graph.latency_s[task]), ops=ops)
        return bool(starting)

    def working(self, kinds: tuple[TaskKind, ...]) -> list[int]:
        return [t for t, r in self.running.items() if r.is_working and self.graph.kind[t] in kinds]

    def set_rates(self) -> None:
        """Give every working task its rate; settle the work done by those whose rate changes."""
        graph, flows, computes = self.graph, self.working(FLOWS), self.working((TaskKind.COMPUTE,))
        rates = dict.fromkeys(self.working((TaskKind.HOST,)), 1.0)
        beside = {t: [c for c in computes if self.devices[c] & self.devices[t]] for t in flows}
        for task in computes:
            own_class = self.running[task].ops[0][0]
            slow = [graph.compute_slowdown[own_class, graph.op_class[t]] for t in flows if task in beside[t]]
            rates[task] = 1.0 / (1.0 + float(max(slow, default=0.0)))
        caps = []
        for task in flows:
            own_class = graph.op_class[task]
            slow = [graph.comm_slowdown[own_class, self.running[c].ops[0][0]] for c in beside[task]]
            caps.append(float(graph.pattern_cap_Bps[graph.pattern[task]]) / (1.0 + float(max(slow, default=0.0))))
        crossed = [
            dict(
                zip(
                    _row(graph.pattern_ptr, graph.pattern_link, graph.pattern[task]),
                    _row(graph.pattern_ptr, graph.pattern_count, graph.pattern[task]),
                    strict=True,
                )
            )
            for task in flows
        ]
        rates.update(zip(flows, max_min_reference(crossed, caps, graph.link_capacity_Bps.tolist()), strict=True))
        for task, rate in rates.items():
            self.set_rate(task, rate)

    def set_rate(self, task: int, rate: float) -> None:
        running = self.running[task]
        if rate == running.rate:
            return
        if self.now_s > running.since_s:
            running.left = max(0.0, running.left - running.rate * (self.now_s - running.since_s))
        if self.graph.kind[task] in FLOWS or rate != (running.rate or 1.0):
            self.log.append((task, self.now_s, rate))
        running.rate, running.since_s = rate, self.now_s

    def cause(self, task: int) -> int:
        """Of the tasks before it that end where it starts, the last in the order of events."""
        return max((t for t in self.before[task] if self.end_s[t] == self.start_s[task]), key=self.order, default=-1)


def _row(ptr: np.ndarray, values: np.ndarray, row: int) -> list[int]:
    items: list[int] = values[ptr[row] : ptr[row + 1]].tolist()
    return items


def play_reference(graph: TaskGraph) -> Timeline:
    """Play all tasks of `graph`, in time that grows with the square of its size.

    Raises
    ------
    SimulationError
        The graph is malformed or cannot finish.

    Examples
    --------
    A flow of 12 bytes for itself on a link of 12 B/s, after 2 s of compute:

    >>> from proteus.htae.build import GraphBuilder
    >>> builder = GraphBuilder(capacity_Bps=[12.0])
    >>> forward = builder.compute(2.0, builder.stream(0))
    >>> _ = builder.comm(12.0, links={0: 1}, streams=[builder.stream(0)], after=[forward])
    >>> play_reference(builder.graph()).end_s.tolist()
    [2.0, 3.0]
    """
    validate(graph)
    return _Player(graph).play()
