"""Busy, exposed, bubble: a device's step in the words of HolisticTraceAnalysis.

    busy       the compute stream works
    exposed    it does not, and a communication does (which kind, by priority)
    bubble     neither: it waits for another pipeline stage, the host, or the end
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from proteus.compiler.kinds import SpanKind
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTimes:
    """Where the step of one device went [s]; busy + exposed + bubble = step."""

    device: int
    multiplicity: int
    busy_s: float
    exposed_s: dict[str, float] = field(default_factory=dict)
    bubble_s: float
    overlapped_s: float
    by_kind_s: dict[str, float] = field(default_factory=dict)


def union(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Disjoint intervals that cover the same time, sorted."""
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    head = np.concatenate([[True], start[1:] > end[:-1]])
    last = np.flatnonzero(np.concatenate([head[1:], [True]]))
    return start[head], end[last]


def covered(start: np.ndarray, end: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Time covered by disjoint sorted intervals up to each of `at`."""
    if not len(start):
        return np.zeros(len(at))
    done = np.concatenate([[0.0], np.cumsum(end - start)])
    row = np.searchsorted(start, at, side="right") - 1
    inside = np.clip(at - start[row], 0.0, (end - start)[row])
    result: np.ndarray = np.where(row >= 0, done[row] + inside, 0.0)
    return result


def device_times(spans: Spans, step_s: float) -> tuple[DeviceTimes, ...]:
    """Times of every device that was played, in the order of the lanes."""
    found: dict[int, list[int]] = {}
    for number, lane in enumerate(spans.lanes):
        found.setdefault(lane.device, []).append(number)
    return tuple(_device(spans, device, lanes, step_s) for device, lanes in found.items())


def _device(spans: Spans, device: int, lanes: list[int], step_s: float) -> DeviceTimes:
    rows = np.concatenate([np.arange(spans.lane_ptr[n], spans.lane_ptr[n + 1]) for n in lanes])
    start, kind = spans.start_s[rows], spans.kind[rows]
    end = start + spans.duration_s[rows]
    is_compute = kind <= SpanKind.OPTIMIZER
    busy_start, busy_end = union(start[is_compute], end[is_compute])
    busy = float((busy_end - busy_start).sum())
    seen_start, seen_end = busy_start, busy_end
    exposed: dict[str, float] = {}
    total = busy
    for which, name in EXPOSED.items():
        mine = kind == which
        if not mine.any():
            continue
        seen_start, seen_end = union(np.concatenate([seen_start, start[mine]]), np.concatenate([seen_end, end[mine]]))
        now = float((seen_end - seen_start).sum())
        exposed[name] = now - total
        total = now
    comm_start, comm_end = union(start[~is_compute], end[~is_compute])
    comm = float((comm_end - comm_start).sum())
    by_kind = {
        SpanKind(k).name.lower(): float(spans.duration_s[rows][kind == k].sum()) for k in np.unique(kind).tolist()
    }
    return DeviceTimes(
        device=device,
        multiplicity=spans.lanes[lanes[0]].multiplicity,
        busy_s=busy,
        exposed_s=exposed,
        bubble_s=step_s - total,
        overlapped_s=comm - sum(exposed.values()),
        by_kind_s=by_kind,
    )
