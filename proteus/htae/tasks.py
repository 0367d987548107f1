"""What the engine plays: tasks in columns.

The meaning of every column is the one of docs/how-htae-works.md.  Nothing
here knows of models, strategies or clusters: a graph of tasks on streams,
links with capacities, and two tables of slow-downs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from proteus.errors import SimulationError


class TaskKind(IntEnum):
    COMPUTE = 0  # work in seconds at full speed
    COMM = 1  # work in bytes per flow
    COPY = 2  # a flow as well: host to device or back
    HOST = 3  # work in seconds; never slowed


def _empty(dtype: str) -> np.ndarray:
    return np.empty(0, dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGraph:
    """Columns of tasks, streams, segments, flow patterns and links.

    A CSR pair ``x_ptr``, ``x`` means: row ``i`` owns ``x[x_ptr[i]:x_ptr[i+1]]``.

    Parameters
    ----------
    kind
        uint8[tasks], :class:`TaskKind`.
    latency_s
        float64[tasks]: fixed time before the work begins; uses no link.
    work
        float64[tasks]: seconds at full speed (COMPUTE, HOST) or bytes per
        flow (COMM, COPY).
    release_s
        float64[tasks]: earliest start, the end of its launch on the host.
    priority
        int32[tasks]: among tasks that become ready at the same time, the
        smaller goes first; then the smaller index.
    pred_ptr, pred
        CSR int32: the tasks that must have ended.
    stream_ptr, stream_task
        CSR int32: the tasks of every stream in program order.  A task may
        stand in several streams (a collective of several devices); it starts
        only when it is at the head of all of them.
    stream_device
        int32[streams].
    segment
        int32[tasks]: row of ``segment_ptr`` of a COMPUTE task, or -1 for a
        task that is one op (class ``op_class``).
    segment_ptr, segment_work_s, segment_class
        CSR: the ops of a segment, their seconds at full speed and their
        compute class.  ``work`` of the task is their sum.
    pattern
        int32[tasks]: flow pattern of a COMM or COPY task, else -1.
    pattern_ptr, pattern_link, pattern_count
        CSR: how many flows of the pattern cross which link (int32, int32).
    pattern_cap_Bps
        float64[patterns]: most bandwidth of one flow (protocol, channels).
    op_class
        int16[tasks]: compute class of a COMPUTE task (when ``segment`` is
        -1), communication class of a COMM or COPY task.
    link_capacity_Bps
        float64[links].
    compute_slowdown
        float64[compute classes, comm classes]: s >= 0.  A compute op of class
        c runs at ``1 / (1 + max s[c, k])`` over the communications k whose
        streams include one of its device.
    comm_slowdown
        float64[comm classes, compute classes]: the cap of a communication of
        class k is divided by ``1 + max s[k, c]`` over the compute ops that run
        on any of its devices.
    """

    kind: np.ndarray
    latency_s: np.ndarray
    work: np.ndarray
    release_s: np.ndarray
    priority: np.ndarray
    pred_ptr: np.ndarray
    pred: np.ndarray
    stream_ptr: np.ndarray
    stream_task: np.ndarray
    stream_device: np.ndarray
    segment: np.ndarray
    segment_ptr: np.ndarray
    segment_work_s: np.ndarray
    segment_class: np.ndarray
    pattern: np.ndarray
    pattern_ptr: np.ndarray
    pattern_link: np.ndarray
    pattern_count: np.ndarray
    pattern_cap_Bps: np.ndarray
    op_class: np.ndarray
    link_capacity_Bps: np.ndarray
    compute_slowdown: np.ndarray
    comm_slowdown: np.ndarray

    @property
    def num_tasks(self) -> int:
        return len(self.kind)

    @property
    def num_streams(self) -> int:
        return len(self.stream_device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """When every task ran, and why it started when it did.

    Parameters
    ----------
    start_s, end_s
        float64[tasks].
    cause
        int32[tasks]: the task whose end let it start (a predecessor or the
        task before it in a stream), or -1 (time zero or its launch).
    rate_task, rate_time_s, rate
        The log of rates, in event order: from `rate_time_s` on, `rate_task`
        runs at `rate` (seconds of work per second, or bytes per second and
        flow) until its next entry or its end.  Every COMM and COPY task has
        an entry where its work begins; COMPUTE tasks have entries only when
        they were ever slowed (else their rate is 1 from start to end).
    makespan_s
        The end of the last task; 0 without tasks.
    """

    start_s: np.ndarray
    end_s: np.ndarray
    cause: np.ndarray
    rate_task: np.ndarray = field(default_factory=lambda: _empty("i4"))
    rate_time_s: np.ndarray = field(default_factory=lambda: _empty("f8"))
    rate: np.ndarray = field(default_factory=lambda: _empty("f8"))
    makespan_s: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "makespan_s", float(self.end_s.max(initial=0.0)))


__all__ = ["SimulationError", "TaskGraph", "TaskKind", "Timeline"]
