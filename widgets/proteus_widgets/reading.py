"""Columns that the views need, derived from the spans of a result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from proteus.strategy import TreeRow
from proteus_widgets.tracks import MemoryTrack

if TYPE_CHECKING:
    from proteus.result.result import Result


#: more consumers of one span than this are a tangle
MAX_ARROWS = 12


def prepare(result: Result) -> None:
    """Work out what every view asks first: a thread does it while the kernel answers."""
    if len(result.spans):
        _ = result.devices, result.memory_over_time, result.link_utilisation, result.kernel_band


def busy_by_device(result: Result) -> dict[int, float]:
    """Share of the step that each device computes; what folding left out is as its representative."""
    busy = {times.device: times.busy_s / result.step_time_s for times in result.devices}
    folding = result.graph.folding
    shown = folding.representatives[folding.rank_class].tolist()
    return {device: busy[first] for device, first in enumerate(shown)}


def members(result: Result) -> dict[int, list[int]]:
    """The ranks that each shown device stands for, itself first."""
    folding = result.graph.folding
    order = np.argsort(folding.rank_class, kind="stable")
    ends = np.searchsorted(folding.rank_class[order], np.arange(1, len(folding.representatives)))
    return {
        int(first): ranks.tolist() for first, ranks in zip(folding.representatives, np.split(order, ends), strict=True)
    }


def first_link(result: Result) -> np.ndarray:
    """int64[links of the cluster]: the first link that is used just as this one; itself when it is not used.

    Spans name the first link of a class, since folding plays only that one.
    """
    folding = result.graph.folding
    first = np.arange(result.cluster.num_links)
    first[folding.links] = folding.link_first[folding.link_class]
    return first


def node_shares(result: Result, rows: Sequence[TreeRow]) -> list[float]:
    """Share of all compute time that each tree row, with what is below it, takes."""
    spans, time = result.spans, np.zeros(len(rows))
    for lane, low, high in zip(spans.lanes, spans.lane_ptr, spans.lane_ptr[1:], strict=False):
        if lane.stream == "compute":
            time += lane.multiplicity * np.bincount(spans.node[low:high], spans.duration_s[low:high], len(rows))
    for row in reversed(rows):  # parents stand before their children
        if row.parent >= 0:
            time[row.parent] += time[row.id]
    return (time / time[0]).tolist() if len(time) and time[0] > 0 else [0.0] * len(rows)


def critical_mask(result: Result) -> np.ndarray:
    """bool[spans]: whether a span is on the critical path."""
    mask = np.zeros(len(result.spans), bool)
    mask[result.critical_path.spans] = True
    return mask


def arrows(result: Result, span: int) -> list[dict[str, float]]:
    """What a span waited for and what waited for it, as arrows between lanes.

    The ops of a segment run on without a cause: only its first one waited,
    and only its last one was waited for.
    """
    spans, cause = result.spans, result.timeline.cause
    task = int(spans.task[span])
    waiting = np.flatnonzero(cause == task)[:MAX_ARROWS]
    is_near = np.zeros(len(cause), bool)
    is_near[[task, *waiting]] = True
    if cause[task] >= 0:
        is_near[cause[task]] = True
    rows = np.flatnonzero(is_near[spans.task])
    lane = np.searchsorted(spans.lane_ptr, rows, side="right") - 1
    device = np.array([lane.device for lane in spans.lanes])[lane]
    here = int(np.searchsorted(rows, span))

    def nearest(task: int, *, last: bool) -> list[int]:
        """The span of `task` on the device of `span`, or else any one: its last op or its first."""
        task_rows = np.flatnonzero(spans.task[rows] == task)
        if not len(task_rows):
            return []
        same = task_rows[device[task_rows] == device[here]]
        task_rows = same if len(same) else task_rows[lane[task_rows] == lane[task_rows[0]]]
        return [int(task_rows[-1 if last else 0])]

    lane_rows = np.flatnonzero((spans.task[rows] == task) & (lane == lane[here]))
    pairs: list[tuple[int, int]] = []
    if here == lane_rows[0] and cause[task] >= 0:
        pairs += [(row, here) for row in nearest(int(cause[task]), last=True)]
    if here == lane_rows[-1]:
        for waiting_task in waiting.tolist():
            pairs += [(here, row) for row in nearest(waiting_task, last=False)]
    start_s, end_s = spans.start_s[rows], spans.start_s[rows] + spans.duration_s[rows]
    return [
        {
            "from_lane": int(lane[a]),
            "from_s": float(end_s[a]),
            "to_lane": int(lane[b]),
            "to_s": float(start_s[b]),
        }
        for a, b in pairs
    ]


def memory_tracks(result: Result) -> list[MemoryTrack]:
    """Live bytes of every shown device over the step."""
    tracks = []
    for device, steps in result.memory_over_time.items():
        tracks.append(
            MemoryTrack(
                device=device,
                time_s=steps.time_s,
                live_bytes=steps.bytes,
                capacity_bytes=result.cluster.gpu(device).memory_bytes - steps.reserve_bytes,
            )
        )
    return tracks
