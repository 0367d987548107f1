"""Which call on the host launched a kernel, and in which operator.

::

    thread   |-- aten::linear ----------------|
                |-- aten::addmm ----------|
                     |launch|                      the innermost operator around the launch
    stream                    |== kernel ==|       the same correlation id
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proteus.traces.events import FileEvents

#: share of kernels that start before their launch, from which on the clocks are taken to differ
_SKEWED_SHARE = 0.1
#: microseconds; times of older traces are whole numbers
_ROUNDING_US = 1.0
#: operators inside each other; deeper ones are not looked through
_MAX_DEPTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Per kernel: ``launch_us`` (NaN without), ``op`` (row of the operator, -1 without); and the parent of every op.

    Parameters
    ----------
    host_shift_us
        Added to every time on the host, so that no kernel starts before its launch.
    """

    launch_us: np.ndarray
    op: np.ndarray
    parent: np.ndarray
    host_shift_us: float


def link(file: FileEvents) -> Links:
    """Find the launch and the operator of every kernel; what does not fit is added to the warnings of `file`."""
    row = _launch_rows(file)
    kernel_us = file.kernels["ts"]
    launch_us = np.full(len(row), np.nan)
    has = row >= 0
    launch_us[has] = file.launches["ts"][row[has]]
    lag_us = kernel_us - launch_us
    early = lag_us < -_ROUNDING_US
    shift_us = 0.0
    if early.any():
        if early.sum() >= _SKEWED_SHARE * has.sum():
            shift_us = float(np.nanquantile(lag_us, 0.01))
            file.warnings.append(
                f"{early.sum()} kernels start before their launch: the host's clock was shifted by {shift_us:.3f} us"
            )
            early = lag_us - shift_us < -_ROUNDING_US
        if early.any():
            file.warnings.append(f"{early.sum()} kernels start before the launch of their id; its launch is not used")
            row[early], launch_us[early] = -1, np.nan
    op, parent = _enclosing(file, row)
    return Links(launch_us=launch_us + shift_us, op=op, parent=parent, host_shift_us=shift_us)


def _launch_rows(file: FileEvents) -> np.ndarray:
    """int64[kernels]: the launch with the same id, the last one before the kernel where ids repeat; -1 without."""
    ids, ts = file.launches["correlation"], file.launches["ts"]
    order = np.lexsort((ts, ids))
    wanted, kernel_us = file.kernels["correlation"], file.kernels["ts"]
    left = np.searchsorted(ids[order], wanted, side="left")
    right = np.searchsorted(ids[order], wanted, side="right")
    row = np.full(len(wanted), -1, np.int64)
    known = (right > left) & (wanted > 0)
    row[known] = order[right[known] - 1]
    repeated = np.flatnonzero(known & (right - left > 1))
    if len(repeated):
        file.warnings.append(
            f"{len(repeated)} kernels have an id that several launches have; the last launch before each counts"
        )
        sorted_ts = ts[order]
        for kernel in repeated.tolist():
            low, high = left[kernel], right[kernel]
            at = low + np.searchsorted(sorted_ts[low:high], kernel_us[kernel], side="right") - 1
            row[kernel] = order[max(at, low)]
    return row


def _enclosing(file: FileEvents, launch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int64[kernels]: the innermost operator around the launch; int64[ops]: the operator around each, -1 without."""
    ops = file.ops
    order = np.lexsort((-ops["dur"], ops["ts"], ops["thread"]))
    start, end = ops["ts"][order], (ops["ts"] + ops["dur"])[order]
    thread = ops["thread"][order]
    parent = _parents(thread, end, start)
    found = np.full(len(launch), -1, np.int64)
    has = np.flatnonzero(launch >= 0)
    launch_us, launch_thread = file.launches["ts"][launch[has]], file.launches["thread"][launch[has]]
    for number in np.unique(thread):
        first, last = np.searchsorted(thread, number, side="left"), np.searchsorted(thread, number, side="right")
        mine = np.flatnonzero(launch_thread == number)
        at = first + np.searchsorted(start[first:last], launch_us[mine], side="right") - 1
        at[at < first] = -1
        for _ in range(_MAX_DEPTH):
            outside = (at >= 0) & (end[at] < launch_us[mine])
            if not outside.any():
                break
            at[outside] = parent[at[outside]]
        else:
            at[outside] = -1
        found[has[mine]] = np.where(at >= 0, order[at], -1)
    by_row = np.full(len(order), -1, np.int64)
    by_row[order] = np.where(parent >= 0, order[parent], -1) if len(order) else parent
    return found, by_row


def _parents(thread: np.ndarray, end: np.ndarray, start: np.ndarray) -> np.ndarray:
    """int64: of operators sorted by thread and start, the one around each."""
    parents = []
    stack: list[int] = []
    last = None
    ends = end.tolist()
    for row, (number, begin) in enumerate(zip(thread.tolist(), start.tolist(), strict=True)):
        if number != last:
            stack, last = [], number
        while stack and ends[stack[-1]] <= begin:
            stack.pop()
        parents.append(stack[-1] if stack else -1)
        stack.append(row)
    return np.array(parents, np.int64)
