"""The numba kernels of the engine: arrays in, arrays out.

They mean what :mod:`proteus.htae.reference` means, and tests compare the two
span by span.  All kernels stand in one file because numba's disk cache looks
only at the file of the function that it loads.

Speed comes from four things.  Every task runs in a *slot*, that of the first
stream it stands in, so the state of what runs is as small as the number of
streams.  The next event is the winner of a tournament over the slots, so there
are no stale events.  A link that the tasks of one slot alone use can never be
shared, so it is only one more limit of the flow.  And rates are worked out once
per instant, for the slots that the instant touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numba import njit  # type: ignore[import-untyped]

from proteus.htae.tasks import TaskKind

F = TypeVar("F", bound=Callable[..., object])

_COMPUTE, _HOST = int(TaskKind.COMPUTE), int(TaskKind.HOST)
_INF = np.inf
_IDLE, _LATENCY, _WORK = 0, 1, 2
#: why a flow is looked at again: its cap may have changed, or its links have
_CAP, _LINKS = 1, 2


def jit(function: F) -> F:
    """Compile on first use and keep the machine code on disk where that is possible."""
    try:
        return cast(F, njit(cache=True, error_model="numpy")(function))
    except RuntimeError:  # no folder that can be written: compile in every process
        return cast(F, njit(error_model="numpy")(function))


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
def waits_of(pred_ptr: np.ndarray, stream_ptr: np.ndarray, stream_task: np.ndarray) -> np.ndarray:
    """How many ends every task waits for: its predecessors, and the task before it in each stream."""
    waits = pred_ptr[1:] - pred_ptr[:-1]
    for stream in range(len(stream_ptr) - 1):
        for j in range(stream_ptr[stream] + 1, stream_ptr[stream + 1]):
            waits[stream_task[j]] += 1
    return waits


@jit
def nodes_of(home: np.ndarray, num_slots: int, task_pattern: np.ndarray, pattern_ptr: np.ndarray) -> np.ndarray:
    """CSR pointer: each slot owns as many list nodes as its longest pattern has links."""
    base = np.zeros(num_slots + 1, np.int64)
    for task in range(len(home)):
        p = task_pattern[task]
        if p >= 0:
            base[home[task] + 1] = max(base[home[task] + 1], pattern_ptr[p + 1] - pattern_ptr[p])
    for slot in range(num_slots):
        base[slot + 1] += base[slot]
    return base


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
            task, other = stream_task[j], stream_task[j - 1]
            if end_s[other] == start_s[task]:
                c = cause[task]
                if c < 0 or priority[c] < priority[other] or (priority[c] == priority[other] and c < other):
                    cause[task] = other
    for task in range(len(start_s)):
        for j in range(pred_ptr[task], pred_ptr[task + 1]):
            other = pred[j]
            if end_s[other] == start_s[task]:
                c = cause[task]
                if c < 0 or priority[c] < priority[other] or (priority[c] == priority[other] and c < other):
                    cause[task] = other
    return cause


@jit
def runs_of(
    segment_ptr: np.ndarray, work_s: np.ndarray, op_class: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Neighbouring ops of one class as one run: CSR, class, and the work left after the run.

    Between two ops of one class no rate changes, so the engine need not stop there.
    """
    num_segments = len(segment_ptr) - 1
    run_ptr = np.zeros(num_segments + 1, np.int32)
    run_class = np.empty(len(work_s), np.int32)
    run_left = np.empty(len(work_s), np.float64)
    n = 0
    for segment in range(num_segments):
        first, end = segment_ptr[segment], segment_ptr[segment + 1]
        for j in range(first, end):
            if j == first or op_class[j] != op_class[j - 1]:
                run_class[n] = op_class[j]
                n += 1
        run_ptr[segment + 1] = n
        left, run = 0.0, n - 1
        for j in range(end - 1, first - 1, -1):
            if j == end - 1 or op_class[j] != op_class[j + 1]:
                run_left[run] = left
                run -= 1
            left += work_s[j]
    return run_ptr, run_class[:n].copy(), run_left[:n].copy()


@jit
def private_links(
    home: np.ndarray,
    task_pattern: np.ndarray,
    ptr: np.ndarray,
    link: np.ndarray,
    count: np.ndarray,
    capacity_Bps: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Patterns without the links that only one slot uses, and the limit that those set.

    The tasks of one slot run one after the other, so on such a link a flow set
    is always alone: it gives each flow ``capacity / count`` and no more.
    """
    num_patterns = len(ptr) - 1
    user = np.full(num_patterns, -1, np.int32)  # the slot, -1 none, -2 several
    for task in range(len(task_pattern)):
        p = task_pattern[task]
        if p >= 0 and user[p] != home[task]:
            user[p] = home[task] if user[p] == -1 else -2
    link_user = np.full(len(capacity_Bps), -1, np.int32)
    for p in range(num_patterns):
        if user[p] != -1:
            for j in range(ptr[p], ptr[p + 1]):
                if link_user[link[j]] != user[p]:
                    link_user[link[j]] = user[p] if link_user[link[j]] == -1 else -2
    out_ptr = np.zeros(num_patterns + 1, np.int32)
    out_link = np.empty(len(link), np.int32)
    out_count = np.empty(len(link), np.int32)
    limit_Bps = np.full(num_patterns, _INF)
    n = 0
    for p in range(num_patterns):
        for j in range(ptr[p], ptr[p + 1]):
            if link_user[link[j]] == -2:
                out_link[n], out_count[n] = link[j], count[j]
                n += 1
            else:
                limit_Bps[p] = min(limit_Bps[p], capacity_Bps[link[j]] / count[j])
        out_ptr[p + 1] = n
    return out_ptr, out_link[:n].copy(), out_count[:n].copy(), limit_Bps


@jit
def fill(
    members: np.ndarray,
    num_members: int,
    links: np.ndarray,
    num_links: int,
    first: np.ndarray,
    end: np.ndarray,
    link: np.ndarray,
    count: np.ndarray,
    cap_Bps: np.ndarray,
    left_Bps: np.ndarray,
    weight: np.ndarray,
    share_Bps: np.ndarray,
    taken: np.ndarray,
    rate_Bps: np.ndarray,
) -> None:
    """Progressive filling: the max-min fair rates of `members` over `links`.

    Member ``m`` owns rows ``first[m]:end[m]`` of `link` and `count`.  On entry
    ``left_Bps`` is the capacity and ``weight`` the flows of all members, by
    link.  Every share is one division of integers' sums, and all flows that
    freeze at one level are subtracted together: that makes the result of a
    folded graph equal to the bit.
    """
    while num_members > 0:
        level = _INF
        kept = 0
        for i in range(num_links):
            j = links[i]
            if weight[j] > 0:
                links[kept] = j
                kept += 1
                share_Bps[j] = left_Bps[j] / weight[j]
                level = min(level, share_Bps[j])
        num_links = kept
        for i in range(num_members):
            level = min(level, cap_Bps[members[i]])
        i = 0
        while i < num_members:
            m = members[i]
            frozen = cap_Bps[m] <= level
            for j in range(first[m], end[m]):
                if frozen:
                    break
                frozen = share_Bps[link[j]] <= level
            if not frozen:
                i += 1
                continue
            rate_Bps[m] = level
            for j in range(first[m], end[m]):
                taken[link[j]] += count[j]
            num_members -= 1
            members[i], members[num_members] = members[num_members], m
        if level == _INF:
            for i in range(num_links):
                taken[links[i]] = 0
            return
        for i in range(num_links):
            j = links[i]
            if taken[j] > 0:
                left_Bps[j] -= taken[j] * level
                weight[j] -= taken[j]
                taken[j] = 0


@jit
def max_min_rows(
    ptr: np.ndarray, link: np.ndarray, count: np.ndarray, cap_Bps: np.ndarray, capacity_Bps: np.ndarray
) -> np.ndarray:
    """Max-min fair rates of all rows of a CSR of flows at once."""
    n, num_links = len(cap_Bps), len(capacity_Bps)
    rate = np.zeros(n)
    weight = np.zeros(num_links, np.int64)
    for j in range(len(link)):
        weight[link[j]] += count[j]
    fill(
        np.arange(n).astype(np.int32),
        n,
        np.arange(num_links).astype(np.int32),
        num_links,
        ptr[:-1].astype(np.int32),
        ptr[1:].astype(np.int32),
        link,
        count,
        cap_Bps,
        capacity_Bps.copy(),
        weight,
        np.zeros(num_links),
        np.zeros(num_links, np.int64),
        rate,
    )
    return rate


@jit
def set_key(key: np.ndarray, winner: np.ndarray, slot: int, time_s: float) -> None:
    """Give `slot` the time of its next event and replay its matches in the tournament."""
    half = len(key) >> 1
    node = half + slot
    key[node] = time_s
    winner[node] = slot
    node >>= 1
    while node >= 1:
        a, b = 2 * node, 2 * node + 1
        best = a if key[a] <= key[b] else b
        if winner[node] == winner[best] and winner[node] != slot and key[node] == key[best]:
            return  # neither its match nor any above it changes
        winner[node] = winner[best]
        key[node] = key[best]
        node >>= 1


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


@jit
def play_columns(
    kind: np.ndarray,
    latency_s: np.ndarray,
    work: np.ndarray,
    release_s: np.ndarray,
    waits: np.ndarray,
    succ_ptr: np.ndarray,
    succ: np.ndarray,
    on_ptr: np.ndarray,
    on: np.ndarray,
    home: np.ndarray,
    stream_ptr: np.ndarray,
    stream_task: np.ndarray,
    stream_device: np.ndarray,
    device_ptr: np.ndarray,
    device_stream: np.ndarray,
    segment: np.ndarray,
    run_ptr: np.ndarray,
    run_class: np.ndarray,
    run_left: np.ndarray,
    task_pattern: np.ndarray,
    pattern_ptr: np.ndarray,
    pattern_link: np.ndarray,
    pattern_count: np.ndarray,
    pattern_cap_Bps: np.ndarray,
    pattern_limit_Bps: np.ndarray,
    node_base: np.ndarray,
    op_class: np.ndarray,
    capacity_Bps: np.ndarray,
    compute_slowdown: np.ndarray,
    comm_slowdown: np.ndarray,
    record: bool,
) -> tuple[np.ndarray, np.ndarray, int, np.ndarray, np.ndarray, np.ndarray]:
    """Play all tasks; the number that ended tells the caller whether it could finish.

    ``waits`` counts what a task waits for (predecessors and the tasks right
    before it in its streams) and is used up.  ``home`` is the slot of a task.
    """
    num_tasks, num_slots, num_links = len(kind), len(node_base) - 1, len(capacity_Bps)
    num_streams, num_compute_classes = len(stream_device), comm_slowdown.shape[1]
    start_s = np.full(num_tasks, _INF)
    end_s = np.full(num_tasks, _INF)

    # the task that runs in each slot
    task_in = np.full(num_slots, -1, np.int32)
    phase = np.zeros(num_slots, np.uint8)
    is_flow = np.zeros(num_slots, np.bool_)
    left = np.zeros(num_slots)  # work left at `since`
    since = np.zeros(num_slots)
    rate = np.zeros(num_slots)  # 0 while none was set yet
    target = np.zeros(num_slots)  # the event is when the work left falls to this: the end, or the end of a run of ops
    run = np.full(num_slots, -1, np.int32)
    klass = np.zeros(num_slots, np.int32)
    # flows: rows of the pattern, effective cap, and how many compute ops of each class run beside it
    first_row = np.zeros(num_slots, np.int32)
    end_row = np.zeros(num_slots, np.int32)
    cap = np.zeros(num_slots)
    beside = np.zeros((num_slots, max(1, num_compute_classes)), np.int32)
    # what the instant touched
    ended, num_ended = np.empty(num_slots, np.int32), 0
    begun, num_begun = np.empty(num_slots, np.int32), 0
    ready, num_ready = np.empty(num_slots, np.int32), 0
    is_stale = np.zeros(num_slots, np.bool_)  # a compute op
    stale_compute, num_stale_compute = np.empty(num_slots, np.int32), 0
    stale = np.zeros(num_slots, np.uint8)  # a flow, and why
    stale_flow, num_stale_flow = np.empty(num_slots, np.int32), 0
    # who runs on each stream and device (only what can slow something down)
    runs_on = np.full(num_streams, -1, np.int32)
    flows_on = np.zeros(len(device_ptr), np.int32)
    computes_on = np.zeros(len(device_ptr), np.int32)
    interacts = np.zeros(comm_slowdown.shape[0], np.bool_)
    for k in range(len(interacts)):
        interacts[k] = np.any(comm_slowdown[k] > 0) or np.any(compute_slowdown[:, k] > 0)
    # the flows of each link, as linked lists of nodes; a slot owns nodes node_base[slot]:node_base[slot + 1]
    head = np.full(num_links, -1, np.int32)
    node_next = np.full(node_base[-1], -1, np.int32)
    node_prev = np.full(node_base[-1], -1, np.int32)
    node_slot = np.empty(node_base[-1], np.int32)
    for slot in range(num_slots):
        node_slot[node_base[slot] : node_base[slot + 1]] = slot
    # scratch of the solver
    members = np.empty(num_slots, np.int32)
    links = np.empty(num_links, np.int32)
    slot_mark = np.zeros(num_slots, np.int64)
    link_mark = np.zeros(num_links, np.int64)
    mark = 0
    left_Bps = np.zeros(num_links)
    weight = np.zeros(num_links, np.int64)
    share_Bps = np.zeros(num_links)
    taken = np.zeros(num_links, np.int64)
    new_rate = np.zeros(num_slots)
    # the log of rates
    log_size = 1024 if record else 0
    log_task, log_time_s, log_rate = np.empty(log_size, np.int32), np.empty(log_size), np.empty(log_size)
    num_logged = 0
    # the tournament
    half = 1
    while half < num_slots:
        half *= 2
    key = np.full(2 * half, _INF)
    winner = np.zeros(2 * half, np.int32)
    position = stream_ptr[:-1].copy()

    for task in range(num_tasks):
        if waits[task] == 0:
            ready[num_ready] = task
            num_ready += 1
    now, num_done = 0.0, 0
    while True:
        # 1. the events of this instant
        while key[1] == now:
            slot = winner[1]
            set_key(key, winner, slot, _INF)
            if phase[slot] == _LATENCY:
                begun[num_begun] = slot
                num_begun += 1
            elif target[slot] == 0.0:
                ended[num_ended] = slot
                num_ended += 1
            else:  # a run of ops is over, the next one has another class
                left[slot], since[slot] = target[slot], now
                old = klass[slot]
                while run_left[run[slot]] >= left[slot]:
                    run[slot] += 1
                klass[slot] = run_class[run[slot]]
                if not is_stale[slot]:
                    is_stale[slot] = True
                    stale_compute[num_stale_compute] = slot
                    num_stale_compute += 1
                device = stream_device[slot]
                for j in range(device_ptr[device], device_ptr[device + 1]):
                    other = runs_on[device_stream[j]]
                    if other >= 0 and is_flow[other]:
                        beside[other, old] -= 1
                        beside[other, klass[slot]] += 1
                        if stale[other] == 0:
                            stale[other] = _CAP
                            stale_flow[num_stale_flow] = other
                            num_stale_flow += 1

        # 2. ends, starts and beginnings of work, until nothing more happens at this instant
        while num_ended + num_ready + num_begun > 0:
            while num_ended > 0:
                num_ended -= 1
                slot = ended[num_ended]
                task = task_in[slot]
                end_s[task] = now
                num_done += 1
                if phase[slot] == _WORK and is_flow[slot]:
                    base = node_base[slot]
                    for j in range(end_row[slot] - first_row[slot]):
                        node, link = base + j, pattern_link[first_row[slot] + j]
                        if node_prev[node] >= 0:
                            node_next[node_prev[node]] = node_next[node]
                        else:
                            head[link] = node_next[node]
                        if node_next[node] >= 0:
                            node_prev[node_next[node]] = node_prev[node]
                        if head[link] >= 0:
                            other = node_slot[head[link]]
                            if stale[other] == 0:
                                stale_flow[num_stale_flow] = other
                                num_stale_flow += 1
                            stale[other] = _LINKS
                    if interacts[klass[slot]]:
                        for i in range(on_ptr[task], on_ptr[task + 1]):
                            device = stream_device[on[i]]
                            runs_on[on[i]] = -1
                            flows_on[device] -= 1
                            if computes_on[device] > 0:
                                for j in range(device_ptr[device], device_ptr[device + 1]):
                                    other = runs_on[device_stream[j]]
                                    if other >= 0 and not is_flow[other] and not is_stale[other]:
                                        is_stale[other] = True
                                        stale_compute[num_stale_compute] = other
                                        num_stale_compute += 1
                        for c in range(num_compute_classes):
                            beside[slot, c] = 0
                elif phase[slot] == _WORK and kind[task] == _COMPUTE and slot < num_streams:
                    device = stream_device[slot]
                    runs_on[slot] = -1
                    computes_on[device] -= 1
                    if flows_on[device] > 0:
                        for j in range(device_ptr[device], device_ptr[device + 1]):
                            other = runs_on[device_stream[j]]
                            if other >= 0 and is_flow[other]:
                                beside[other, klass[slot]] -= 1
                                if stale[other] == 0:
                                    stale[other] = _CAP
                                    stale_flow[num_stale_flow] = other
                                    num_stale_flow += 1
                phase[slot] = _IDLE
                for i in range(on_ptr[task], on_ptr[task + 1]):
                    stream = on[i]
                    position[stream] += 1
                    if position[stream] < stream_ptr[stream + 1]:
                        other = stream_task[position[stream]]
                        waits[other] -= 1
                        if waits[other] == 0:
                            ready[num_ready] = other
                            num_ready += 1
                for i in range(succ_ptr[task], succ_ptr[task + 1]):
                    other = succ[i]
                    waits[other] -= 1
                    if waits[other] == 0:
                        ready[num_ready] = other
                        num_ready += 1

            while num_ready > 0:
                num_ready -= 1
                task = ready[num_ready]
                slot = home[task]
                start = max(now, release_s[task])
                start_s[task] = start
                task_in[slot] = task
                phase[slot] = _LATENCY
                if start + latency_s[task] > now:
                    set_key(key, winner, slot, start + latency_s[task])
                else:
                    begun[num_begun] = slot
                    num_begun += 1

            while num_begun > 0:
                num_begun -= 1
                slot = begun[num_begun]
                task = task_in[slot]
                is_flow[slot] = False
                target[slot] = 0.0
                if not work[task] > 0.0:
                    ended[num_ended] = slot
                    num_ended += 1
                    continue
                phase[slot] = _WORK
                left[slot], since[slot], rate[slot] = work[task], now, 0.0
                if kind[task] == _HOST:
                    rate[slot] = 1.0
                    set_key(key, winner, slot, now + work[task])
                elif kind[task] == _COMPUTE:
                    rate[slot] = 1.0
                    if segment[task] >= 0:
                        run[slot] = run_ptr[segment[task]]
                        while run_left[run[slot]] >= work[task]:  # ops without work at its beginning
                            run[slot] += 1
                        klass[slot] = run_class[run[slot]]
                    else:
                        run[slot] = -1
                        klass[slot] = op_class[task]
                    set_key(key, winner, slot, now + work[task])
                    if slot < num_streams:
                        device = stream_device[slot]
                        runs_on[slot] = slot
                        computes_on[device] += 1
                        if flows_on[device] > 0:
                            if not is_stale[slot]:
                                is_stale[slot] = True
                                stale_compute[num_stale_compute] = slot
                                num_stale_compute += 1
                            for j in range(device_ptr[device], device_ptr[device + 1]):
                                other = runs_on[device_stream[j]]
                                if other >= 0 and is_flow[other]:
                                    beside[other, klass[slot]] += 1
                                    if stale[other] == 0:
                                        stale[other] = _CAP
                                        stale_flow[num_stale_flow] = other
                                        num_stale_flow += 1
                else:
                    pattern = task_pattern[task]
                    is_flow[slot] = True
                    klass[slot] = op_class[task]
                    first_row[slot], end_row[slot] = pattern_ptr[pattern], pattern_ptr[pattern + 1]
                    base = node_base[slot]
                    for j in range(end_row[slot] - first_row[slot]):
                        node, link = base + j, pattern_link[first_row[slot] + j]
                        node_next[node] = head[link]
                        node_prev[node] = -1
                        if head[link] >= 0:
                            node_prev[head[link]] = node
                        head[link] = node
                    if stale[slot] == 0:
                        stale_flow[num_stale_flow] = slot
                        num_stale_flow += 1
                    stale[slot] = _LINKS
                    if interacts[klass[slot]]:
                        for i in range(on_ptr[task], on_ptr[task + 1]):
                            device = stream_device[on[i]]
                            runs_on[on[i]] = slot
                            flows_on[device] += 1
                            if computes_on[device] > 0:
                                for j in range(device_ptr[device], device_ptr[device + 1]):
                                    other = runs_on[device_stream[j]]
                                    if other < 0 or is_flow[other]:
                                        continue
                                    if flows_on[device] == 1 and run[other] >= 0:  # it ran as one event: where is it now?
                                        rest = left[other] - rate[other] * (now - since[other])
                                        while run_left[run[other]] > 0.0 and run_left[run[other]] >= rest:
                                            run[other] += 1
                                        klass[other] = run_class[run[other]]
                                    beside[slot, klass[other]] += 1
                                    if not is_stale[other]:
                                        is_stale[other] = True
                                        stale_compute[num_stale_compute] = other
                                        num_stale_compute += 1

        # 3. rates of compute ops beside communication
        if record and num_logged + num_stale_compute > len(log_task):
            log_size = 2 * (num_logged + num_stale_compute)
            log_task = np.concatenate((log_task[:num_logged], np.empty(log_size - num_logged, np.int32)))
            log_time_s = np.concatenate((log_time_s[:num_logged], np.empty(log_size - num_logged)))
            log_rate = np.concatenate((log_rate[:num_logged], np.empty(log_size - num_logged)))
        for i in range(num_stale_compute):
            slot = stale_compute[i]
            is_stale[slot] = False
            if runs_on[slot] != slot or is_flow[slot]:
                continue
            device = stream_device[slot]
            slowdown, aim = 0.0, 0.0
            if flows_on[device] > 0:
                for j in range(device_ptr[device], device_ptr[device + 1]):
                    other = runs_on[device_stream[j]]
                    if other >= 0 and is_flow[other]:
                        slowdown = max(slowdown, compute_slowdown[klass[slot], klass[other]])
                if run[slot] >= 0:
                    aim = run_left[run[slot]]
            new = 1.0 / (1.0 + slowdown)
            if new != rate[slot]:
                left[slot] = max(0.0, left[slot] - rate[slot] * (now - since[slot]))
                since[slot] = now
                rate[slot] = new
                if record:
                    log_task[num_logged], log_time_s[num_logged], log_rate[num_logged] = task_in[slot], now, new
                    num_logged += 1
            target[slot] = aim
            set_key(key, winner, slot, max(now, since[slot] + (left[slot] - aim) / new))
        num_stale_compute = 0

        # 4. rates of flows: first all caps, then each component of links and flows that was touched
        mark += 1
        num_seeds = 0
        for i in range(num_stale_flow):
            slot = stale_flow[i]
            why = stale[slot]
            stale[slot] = 0
            if phase[slot] != _WORK or not is_flow[slot]:
                continue
            pattern = task_pattern[task_in[slot]]
            slowdown = 0.0
            if interacts[klass[slot]]:
                for c in range(num_compute_classes):
                    if beside[slot, c] > 0:
                        slowdown = max(slowdown, comm_slowdown[klass[slot], c])
            new = min(pattern_cap_Bps[pattern] / (1.0 + slowdown), pattern_limit_Bps[pattern])
            if why == _LINKS or (new != cap[slot] and not (rate[slot] < cap[slot] and rate[slot] <= new)):
                stale_flow[num_seeds] = slot
                num_seeds += 1
            cap[slot] = new
        num_stale_flow = 0
        for i in range(num_seeds):
            if slot_mark[stale_flow[i]] == mark:
                continue
            members[0] = stale_flow[i]
            slot_mark[members[0]] = mark
            num_members, num_found, m = 1, 0, 0
            while m < num_members:
                slot = members[m]
                m += 1
                for j in range(first_row[slot], end_row[slot]):
                    link = pattern_link[j]
                    if link_mark[link] != mark:
                        link_mark[link] = mark
                        links[num_found] = link
                        num_found += 1
                        left_Bps[link] = capacity_Bps[link]
                        weight[link] = 0
                        node = head[link]
                        while node >= 0:
                            other = node_slot[node]
                            if slot_mark[other] != mark:
                                slot_mark[other] = mark
                                members[num_members] = other
                                num_members += 1
                            node = node_next[node]
                    weight[link] += pattern_count[j]
            if num_members == 1:
                slot = members[0]
                new_rate[slot] = cap[slot]
                for j in range(first_row[slot], end_row[slot]):
                    new_rate[slot] = min(new_rate[slot], capacity_Bps[pattern_link[j]] / pattern_count[j])
            else:
                fill(
                    members,
                    num_members,
                    links,
                    num_found,
                    first_row,
                    end_row,
                    pattern_link,
                    pattern_count,
                    cap,
                    left_Bps,
                    weight,
                    share_Bps,
                    taken,
                    new_rate,
                )
            if record and num_logged + num_members > len(log_task):
                log_size = 2 * (num_logged + num_members)
                log_task = np.concatenate((log_task[:num_logged], np.empty(log_size - num_logged, np.int32)))
                log_time_s = np.concatenate((log_time_s[:num_logged], np.empty(log_size - num_logged)))
                log_rate = np.concatenate((log_rate[:num_logged], np.empty(log_size - num_logged)))
            for m in range(num_members):
                slot = members[m]
                if new_rate[slot] == rate[slot]:
                    continue
                if now > since[slot]:
                    left[slot] = max(0.0, left[slot] - rate[slot] * (now - since[slot]))
                since[slot] = now
                rate[slot] = new_rate[slot]
                if record:
                    log_task[num_logged], log_time_s[num_logged], log_rate[num_logged] = task_in[slot], now, rate[slot]
                    num_logged += 1
                set_key(key, winner, slot, now + left[slot] / rate[slot] if rate[slot] > 0.0 else _INF)

        # 5. on to the next instant
        if key[1] == _INF:
            return (
                start_s,
                end_s,
                num_done,
                log_task[:num_logged].copy(),
                log_time_s[:num_logged].copy(),
                log_rate[:num_logged].copy(),
            )
        now = key[1]
