"""The numba kernels around the play itself: arrays in, arrays out.

Before it, they turn a graph around (who waits for a task, on which streams does
it stand); after it, they find the cause of every start and the ops of segments.
"""

from __future__ import annotations

import numpy as np

from proteus.htae.compiled import jit


@jit
def transpose(ptr: np.ndarray, values: np.ndarray, num_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """CSR of the transposed relation; the rows of a column stay in order."""
    out_ptr = np.zeros(num_columns + 1, np.int32)
    for value in values:
        out_ptr[value + 1] += 1
    for i in range(num_columns):
        out_ptr[i + 1] += out_ptr[i]
    place = out_ptr[:-1].copy()
    out = np.empty(len(values), np.int32)
    for row in range(len(ptr) - 1):
        for j in range(ptr[row], ptr[row + 1]):
            value = values[j]
            out[place[value]] = row
            place[value] += 1
    return out_ptr, out


@jit
def row_with_repeat(ptr: np.ndarray, values: np.ndarray, num_columns: int) -> int:
    """The first row of a CSR that names a column twice, or -1."""
    seen_in = np.full(num_columns, -1, np.int64)
    for row in range(len(ptr) - 1):
        for j in range(ptr[row], ptr[row + 1]):
            if seen_in[values[j]] == row:
                return row
            seen_in[values[j]] = row
    return -1


@jit
def slots_of(on_ptr: np.ndarray, on: np.ndarray, num_streams: int) -> tuple[np.ndarray, int]:
    """The slot of every task: its first stream, or one of its own; and how many slots there are."""
    home = np.empty(len(on_ptr) - 1, np.int32)
    num_slots = num_streams
    for task in range(len(home)):
        if on_ptr[task] < on_ptr[task + 1]:
            home[task] = on[on_ptr[task]]
        else:
            home[task] = num_slots
            num_slots += 1
    return home, num_slots


@jit
def causes_of(
    start_s: np.ndarray,
    end_s: np.ndarray,
    priority: np.ndarray,
    pred_ptr: np.ndarray,
    pred: np.ndarray,
    stream_ptr: np.ndarray,
    stream_task: np.ndarray,
) -> np.ndarray:
    """The task whose end let each task start: of those that end there, the last by (priority, index)."""
    cause = np.full(len(start_s), -1, np.int32)
    for stream in range(len(stream_ptr) - 1):
        for j in range(stream_ptr[stream] + 1, stream_ptr[stream + 1]):
            task, previous = stream_task[j], stream_task[j - 1]
            if end_s[previous] == start_s[task]:
                c = cause[task]
                if c < 0 or priority[c] < priority[previous] or (priority[c] == priority[previous] and c < previous):
                    cause[task] = previous
    for task in range(len(start_s)):
        for j in range(pred_ptr[task], pred_ptr[task + 1]):
            previous = pred[j]
            if end_s[previous] == start_s[task]:
                c = cause[task]
                if c < 0 or priority[c] < priority[previous] or (priority[c] == priority[previous] and c < previous):
                    cause[task] = previous
    return cause


@jit
def place_ops(
    tasks: np.ndarray,
    begin_s: np.ndarray,
    end_s: np.ndarray,
    segment: np.ndarray,
    segment_ptr: np.ndarray,
    work_s: np.ndarray,
    entry_ptr: np.ndarray,
    entry_time_s: np.ndarray,
    entry_rate: np.ndarray,
    num_ops: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Start and end of every op of the segments of `tasks`, walking along the rates of each."""
    out_task, out_op = np.empty(num_ops, np.int32), np.empty(num_ops, np.int32)
    out_start_s, out_end_s = np.empty(num_ops), np.empty(num_ops)
    n = 0
    for i in range(len(tasks)):
        now, rate, entry = begin_s[i], 1.0, entry_ptr[i]
        first = segment_ptr[segment[i]]
        for op in range(segment_ptr[segment[i] + 1] - first):
            out_task[n], out_op[n], out_start_s[n] = tasks[i], op, now
            need = work_s[first + op]
            while entry < entry_ptr[i + 1] and rate * (entry_time_s[entry] - now) < need:
                need -= rate * (entry_time_s[entry] - now)
                now, rate = entry_time_s[entry], entry_rate[entry]
                entry += 1
            now = min(now + need / rate, end_s[i])
            out_end_s[n] = now
            n += 1
        if n > 0 and out_task[n - 1] == tasks[i]:
            out_end_s[n - 1] = end_s[i]  # rounding must not open a gap before the end
    return out_task, out_op, out_start_s, out_end_s
