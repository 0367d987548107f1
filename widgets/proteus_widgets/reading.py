"""Columns that the views need, derived from the spans of a result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from proteus.result.spans import Spans
from proteus.strategy import TreeRow
from proteus_widgets.timeline import MemoryTrack

if TYPE_CHECKING:
    from proteus.result.result import Result


def lane_of_span(spans: Spans) -> np.ndarray:
    """int64[spans]: lane of every span."""
    return np.repeat(np.arange(len(spans.lanes)), np.diff(spans.lane_ptr))


def _is_compute(spans: Spans) -> np.ndarray:
    """bool[spans]: whether a span runs on a compute stream."""
    compute = np.array([lane.stream == "compute" for lane in spans.lanes], bool)
    return np.repeat(compute, np.diff(spans.lane_ptr))


def busy_by_device(result: Result) -> dict[int, float]:
    """Share of the step that each shown device computes."""
    spans = result.spans
    device = np.array([lane.device for lane in spans.lanes])[lane_of_span(spans)]
    chosen = _is_compute(spans)
    busy = np.bincount(device[chosen], weights=spans.duration_s[chosen])
    return {int(d): float(busy[d] / result.step_time_s) for d in np.flatnonzero(busy)}


def node_shares(result: Result, rows: Sequence[TreeRow]) -> list[float]:
    """Share of all compute time that each tree row, with what is below it, takes."""
    spans = result.spans
    chosen = _is_compute(spans) & (spans.node >= 0)
    weight = np.array([lane.multiplicity for lane in spans.lanes], float)[lane_of_span(spans)][chosen]
    time = np.bincount(spans.node[chosen], weights=spans.duration_s[chosen] * weight, minlength=len(rows))
    for row in reversed(rows):  # parents stand before their children
        if row.parent >= 0:
            time[row.parent] += time[row.id]
    return (time / time[0]).tolist() if len(time) and time[0] > 0 else [0.0] * len(rows)


def critical_mask(result: Result) -> np.ndarray | None:
    """bool[spans]: whether a span is on the critical path."""
    path = np.asarray(result.critical_path, np.int64)
    mask = np.zeros(len(result.spans), bool)
    mask[path] = True
    return mask


def memory_tracks(result: Result) -> list[MemoryTrack]:
    """Live bytes of every shown device over the step."""
    devices = dict.fromkeys(lane.device for lane in result.spans.lanes)
    tracks = []
    for device in devices:
        live = result.memory_over_time(device)
        tracks.append(
            MemoryTrack(
                device=device,
                time_s=live.time_s,
                live_bytes=live.total_bytes,
                capacity_bytes=float(result.cluster.gpu(device).memory_bytes),
            )
        )
    return tracks


