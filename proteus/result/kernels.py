"""The numba kernels that read results: arrays in, arrays out.

Millions of spans are laid out, and the time of every device is distinguished, in
one pass over each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proteus.htae.compiled import jit


class Source(NamedTuple):
    """What the spans of all devices are read from.

    ``start_s``, ``end_s`` and ``pattern`` are columns of tasks; ``segment``, ``segment_ptr`` and ``first_op``
    lead from a task to its ops, ``op_start_s`` and ``op_end_s``; the rest are columns of the rows of the
    segment table (``op_*``) and of the communication rows (``comm_*``).
    """

    start_s: np.ndarray
    end_s: np.ndarray
    pattern: np.ndarray
    segment: np.ndarray
    segment_ptr: np.ndarray
    first_op: np.ndarray
    op_start_s: np.ndarray
    op_end_s: np.ndarray
    op_kind: np.ndarray
    op_node: np.ndarray
    op_name: np.ndarray
    comm_kind: np.ndarray
    comm_node: np.ndarray
    comm_name: np.ndarray
    comm_stream: np.ndarray


class Columns(NamedTuple):
    """The columns of :class:`proteus.result.spans.Spans`."""

    start_s: np.ndarray
    duration_s: np.ndarray
    kind: np.ndarray
    node: np.ndarray
    name_id: np.ndarray
    micro_batch: np.ndarray
    pattern: np.ndarray
    task: np.ndarray


@jit
def count_spans(source: Source, task_of: np.ndarray, is_comm: np.ndarray, ref: np.ndarray, count: np.ndarray) -> None:
    """Add the spans of the steps of a device to `count`, by stream; what takes no time is none."""
    for i in range(len(task_of)):
        task = task_of[i]
        if is_comm[i]:
            count[source.comm_stream[ref[i]]] += source.end_s[task] > source.start_s[task]
            continue
        row = source.segment[task]
        for k in range(source.segment_ptr[row + 1] - source.segment_ptr[row]):
            at = source.first_op[task] + k
            count[0] += source.op_end_s[at] > source.op_start_s[at]


@jit
def put_spans(
    out: Columns,
    source: Source,
    task_of: np.ndarray,
    is_comm: np.ndarray,
    ref: np.ndarray,
    micro_batch: np.ndarray,
    place: np.ndarray,
) -> None:
    """Write the spans of the steps of a device, each stream from its row of `place` on."""
    for i in range(len(task_of)):
        task, row = task_of[i], ref[i]
        if is_comm[i]:
            if source.end_s[task] > source.start_s[task]:
                n = place[source.comm_stream[row]]
                place[source.comm_stream[row]] += 1
                out.start_s[n], out.duration_s[n] = source.start_s[task], source.end_s[task] - source.start_s[task]
                out.kind[n], out.node[n] = source.comm_kind[row], source.comm_node[row]
                out.name_id[n], out.micro_batch[n] = source.comm_name[row], micro_batch[i]
                out.pattern[n], out.task[n] = source.pattern[task], task
            continue
        row = source.segment[task]
        first = source.segment_ptr[row]
        for k in range(source.segment_ptr[row + 1] - first):
            at = source.first_op[task] + k
            if source.op_end_s[at] > source.op_start_s[at]:
                n = place[0]
                place[0] += 1
                out.start_s[n], out.duration_s[n] = source.op_start_s[at], source.op_end_s[at] - source.op_start_s[at]
                out.kind[n], out.node[n] = source.op_kind[first + k], source.op_node[first + k]
                out.name_id[n], out.micro_batch[n] = source.op_name[first + k], micro_batch[i]
                out.pattern[n], out.task[n] = -1, task


@jit
def in_order(values: np.ndarray) -> bool:
    """Whether `values` never fall."""
    i = 1
    while i < len(values) and values[i - 1] <= values[i]:
        i += 1
    return i >= len(values)


@jit
def unsorted_lanes(start_s: np.ndarray, lane_ptr: np.ndarray) -> np.ndarray:
    """The lanes whose spans do not lie in order of time."""
    is_unsorted = np.zeros(len(lane_ptr) - 1, np.bool_)
    for lane in range(len(is_unsorted)):
        is_unsorted[lane] = not in_order(start_s[lane_ptr[lane] : lane_ptr[lane + 1]])
    return np.flatnonzero(is_unsorted)


@jit
def joined(
    start: np.ndarray, end: np.ndarray, more_start: np.ndarray, more_length: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Disjoint sorted intervals that cover what two lists cover, both sorted by start; the second may overlap."""
    out_start, out_end = np.empty(len(start) + len(more_start)), np.empty(len(start) + len(more_start))
    i, j, n = 0, 0, 0
    while i < len(start) or j < len(more_start):
        if j == len(more_start) or (i < len(start) and start[i] <= more_start[j]):
            first, last = start[i], end[i]
            i += 1
        else:
            first, last = more_start[j], more_start[j] + more_length[j]
            j += 1
        if n > 0 and first <= out_end[n - 1]:
            out_end[n - 1] = max(out_end[n - 1], last)
        else:
            out_start[n], out_end[n] = first, last
            n += 1
    return out_start[:n], out_end[:n]


@jit
def uncovered(
    start: np.ndarray, end: np.ndarray, mine_start: np.ndarray, mine_length: np.ndarray, out: np.ndarray
) -> float:
    """Write how much of each interval neither an earlier one nor the disjoint `start`, `end` covers; their sum."""
    until, total, p = 0.0, 0.0, 0
    for i in range(len(mine_start)):
        first = max(mine_start[i], until)
        last = max(mine_start[i] + mine_length[i], first)
        until = last
        while p < len(start) and end[p] <= first:
            p += 1
        left, q = last - first, p
        while q < len(start) and start[q] < last:
            left -= min(end[q], last) - max(start[q], first)
            q += 1
        p = max(p, q - 1)
        out[i] = max(left, 0.0)
        total += out[i]
    return total


@jit
def sweep(
    lanes: np.ndarray,
    start_s: np.ndarray,
    duration_s: np.ndarray,
    kind: np.ndarray,
    rank_of: np.ndarray,
    num_ranks: int,
    exposed_s: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, float, float, float, np.ndarray, np.ndarray]:
    """The step of one device: what runs, distinguished by the rank of its kind.

    `lanes` are the rows of the device, from and to, in pairs.  Rank 0 is compute, 1 to `num_ranks` - 2
    communication in the order in which exposed time is counted, and the last one the host.  Gives by rank the
    sum of exposed times and by kind that of all spans; the time with compute, with communication, with either;
    and the intervals in which something runs, the host included.
    """
    count, by_kind = np.zeros(num_ranks, np.int64), np.zeros(len(rank_of))
    first, last = np.full(num_ranks, len(kind), np.int64), np.full(num_ranks, -1, np.int64)
    for low, high in lanes:
        for row in range(low, high):
            rank = rank_of[kind[row]]
            count[rank] += 1
            first[rank], last[rank] = min(first[rank], row), max(last[rank], row)
            by_kind[kind[row]] += duration_s[row]
    by_rank = np.zeros(num_ranks)
    comm, comm_end = np.empty(0), np.empty(0)
    seen, seen_end = np.empty(0), np.empty(0)
    busy_s, both_s = 0.0, 0.0
    for rank in range(num_ranks):
        start, length = start_s[first[rank] : last[rank] + 1], duration_s[first[rank] : last[rank] + 1]
        out, rows = exposed_s[first[rank] : last[rank] + 1], np.empty(0, np.int64)
        if len(start) != count[rank] or not in_order(start):  # on several lanes, or beside other kinds
            rows, n = np.empty(count[rank], np.int64), 0
            for low, high in lanes:
                for row in range(low, high):
                    if rank_of[kind[row]] == rank:
                        rows[n] = row
                        n += 1
            rows = rows[np.argsort(start_s[rows], kind="mergesort")]
            start, length, out = start_s[rows], duration_s[rows], np.zeros(n)
        if rank == num_ranks - 1:
            both_s = (seen_end - seen).sum()
        elif rank > 0:
            by_rank[rank] = uncovered(seen, seen_end, start, length, out)
            exposed_s[rows] = out[: len(rows)]
            comm, comm_end = joined(comm, comm_end, start, length)
        seen, seen_end = joined(seen, seen_end, start, length)
        if rank == 0:
            busy_s = (seen_end - seen).sum()
    return by_rank, by_kind, busy_s, (comm_end - comm).sum(), both_s, seen, seen_end


@jit
def chain(cause: np.ndarray, task: int) -> np.ndarray:
    """`task`, preceded by what caused it, and so on."""
    length, at = 0, task
    while at >= 0:
        length += 1
        at = cause[at]
    tasks = np.empty(length, np.int64)
    for i in range(length):
        tasks[length - 1 - i] = task
        task = cause[task]
    return tasks
