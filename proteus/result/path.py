"""The critical path: the chain of causes that ends with the step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proteus.compiler.graph import ExecutionGraph
from proteus.compiler.kinds import SpanKind
from proteus.htae.tasks import Timeline
from proteus.result.spans import Spans
from proteus.result.windows import Windows

#: what stands where no task runs: the host has not launched the next one
NO_TASK = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalPath:
    """Columns of the path, a row for each op or communication, in order of time.

    Row ``i`` ends where row ``i + 1`` begins.

    Parameters
    ----------
    task
        int32[n]: task of the graph; -1 while the host launches.
    device
        int32[n]: device that runs it; of several the one that the path came by.
    kind
        uint8[n], :class:`SpanKind`.
    start_s, end_s
        float64[n].
    node
        int32[n]: row id in the strategy tree.
    spans
        int64: rows of the result's spans that lie on the path; those of the
        path itself but for the launch at its beginning.
    """

    task: np.ndarray
    device: np.ndarray
    kind: np.ndarray
    start_s: np.ndarray
    end_s: np.ndarray
    node: np.ndarray
    spans: np.ndarray

    def __len__(self) -> int:
        return len(self.task)

    def seconds_by_kind(self) -> dict[str, float]:
        """Time on the path of every kind [s], the longest first; together they are the step."""
        seconds = {
            SpanKind(k).name.lower(): float((self.end_s - self.start_s)[self.kind == k].sum())
            for k in np.unique(self.kind).tolist()
        }
        return dict(sorted(seconds.items(), key=lambda item: -item[1]))


def chain_of_causes(timeline: Timeline, windows: Windows) -> np.ndarray:
    """int64: the last task of the longest window, preceded by what caused each to start.

    It goes back to the begin of the window, or to a launch.
    """
    if not len(timeline.end_s):
        return np.empty(0, np.int64)
    from proteus.result.kernels import chain  # numba takes long to import

    tasks = chain(timeline.cause, int(windows.last[windows.longest]))
    begin_s = windows.begin_s[windows.longest]
    return tasks[timeline.end_s[tasks] > begin_s] if begin_s > 0.0 else tasks


def critical_path(graph: ExecutionGraph, timeline: Timeline, windows: Windows, spans: Spans) -> CriticalPath:
    """The critical path of a timeline.

    A task that starts later than the step and has no cause waited for its
    launch: that time is a row of kind HOST.
    """
    begin_s, end_s = (float(column[windows.longest]) for column in (windows.begin_s, windows.end_s))
    chain = chain_of_causes(timeline, windows)
    chain = chain[timeline.end_s[chain] > timeline.start_s[chain]]
    is_on_chain = np.zeros(graph.tasks.num_tasks, bool)
    is_on_chain[chain] = True
    candidates = np.flatnonzero(is_on_chain[spans.task])
    lane = np.searchsorted(spans.lane_ptr, candidates, side="right") - 1
    lane_device = np.array([lane.device for lane in spans.lanes], np.int64)[lane]
    sort = np.lexsort((spans.start_s[candidates], lane_device, spans.task[candidates]))
    order = candidates[sort]
    key = _key(spans.task[order], lane_device[sort])
    device = _devices(chain, key)
    first, stop = np.searchsorted(key, _key(chain, device)), np.searchsorted(key, _key(chain, device), side="right")
    counts = stop - first
    rows = order[np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))]
    is_within = spans.start_s[rows] + spans.duration_s[rows] > begin_s  # ops of the first task may lie before it
    rows, device = rows[is_within], np.repeat(device, counts)[is_within]
    start_s = np.maximum(spans.start_s[rows], begin_s)
    path = CriticalPath(
        task=spans.task[rows],
        device=device.astype(np.int32),
        kind=spans.kind[rows],
        start_s=start_s,
        end_s=np.append(start_s[1:], end_s),
        node=spans.node[rows],
        spans=rows,
    )
    return _with_launch(path, begin_s)


#: more devices than any cluster has: tells (task, device) pairs apart in one number
_DEVICES = 1 << 32


def _key(task: np.ndarray, device: np.ndarray) -> np.ndarray:
    key: np.ndarray = task.astype(np.int64) * _DEVICES + device
    return key


def _devices(chain: np.ndarray, key: np.ndarray) -> np.ndarray:
    """The device by which the path passes each task: its only one, or that of the task before, if it is one of them."""
    first = np.searchsorted(key, _key(chain, np.zeros(len(chain), np.int64)))
    stop = np.searchsorted(key, _key(chain + 1, np.zeros(len(chain), np.int64)))
    first_device, last = key[first] % _DEVICES, key[stop - 1] % _DEVICES
    is_sure = first_device == last
    is_sure[:1] = True
    before = first_device[np.maximum.accumulate(np.where(is_sure, np.arange(len(chain)), 0))]
    at = np.minimum(np.searchsorted(key, _key(chain, before)), len(key) - 1)
    devices: np.ndarray = np.where(key[at] == _key(chain, before), before, first_device)
    return devices


def _with_launch(path: CriticalPath, begin_s: float) -> CriticalPath:
    """The time before the first task, in which the host launches it, as a row of its own."""
    if not len(path) or path.start_s[0] <= begin_s:
        return path

    def before(value: float, column: np.ndarray) -> np.ndarray:
        return np.concatenate([np.array([value], column.dtype), column])

    return CriticalPath(
        task=before(NO_TASK, path.task),
        device=before(int(path.device[0]), path.device),
        kind=before(SpanKind.HOST, path.kind),
        start_s=before(begin_s, path.start_s),
        end_s=before(float(path.start_s[0]), path.end_s),
        node=before(int(path.node[0]), path.node),
        spans=path.spans,
    )
