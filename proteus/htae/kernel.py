"""The numba kernel that plays tasks.

It means what :mod:`proteus.htae.reference` means, and tests compare the two
span by span.  All of it stands in one file because numba's disk cache looks
only at the file of the function that it loads.

Speed comes from five things.  Every task runs in a *slot*, that of the first
stream it stands in, so the state of what runs is as small as the number of
streams.  The next event is the winner of a tournament over the slots, so there
are no stale events.  A link that the tasks of one slot alone use can never be
shared, so it is only one more limit of the flow.  Rates are worked out once per
instant, for the slots that the instant touched.  And what belongs to one task
lies in one record of 64 bytes, which is one line of the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numba import njit

from proteus.htae.columns import jit
from proteus.htae.tasks import TaskKind

F = TypeVar("F", bound=Callable[..., object])

_INF = np.inf
_COMPUTE, _HOST = int(TaskKind.COMPUTE), int(TaskKind.HOST)
#: phases of a slot: nothing, before its work, and its work by kind
_IDLE, _LATENCY, _COMPUTES, _FLOWS, _HOSTS = range(5)
#: why the rate of a slot is looked at again: what runs beside it, or what flows on its links
_BESIDE, _LINKS, _COMPUTE_RATE = 1, 2, 4

#: ``start_s`` is the release until the task starts; ``row`` the segment or the pattern;
#: ``on:on_end`` are its rows in the list of streams, ``succ:succ_end`` of successors
TASK = np.dtype(
    [("work", "f8"), ("latency_s", "f8"), ("start_s", "f8"), ("end_s", "f8"), ("waits", "i4"), ("home", "i4")]
    + [("row", "i4"), ("on", "i4"), ("on_end", "i4"), ("succ", "i4"), ("succ_end", "i4"), ("op_class", "i2")]
    + [("kind", "u1"), ("pad", "u1")],
    align=True,
)
#: ``left`` is the work left at ``since_s``; the event is when it has fallen to ``target``:
#: its end, or the end of a run of ops; ``rate`` is 0 while none was set yet
SLOT = np.dtype(
    [("left", "f8"), ("since_s", "f8"), ("rate", "f8"), ("target", "f8"), ("cap_Bps", "f8"), ("task", "i4")]
    + [("run", "i4"), ("pattern", "i4"), ("node", "i4"), ("mark", "i4"), ("op_class", "i2"), ("phase", "u1")]
    + [("stale", "u1")],
    align=True,
)
#: ``head`` is the first node of the list of its flows; the rest is scratch of the solver
LINK = np.dtype(
    [("capacity_Bps", "f8"), ("left_Bps", "f8"), ("share_Bps", "f8"), ("weight", "i8"), ("taken", "i8")]
    + [("head", "i4"), ("mark", "i4")],
    align=True,
)
NODE = np.dtype([("next", "i4"), ("prev", "i4"), ("slot", "i4")], align=True)
PATTERN = np.dtype([("cap_Bps", "f8"), ("limit_Bps", "f8"), ("first", "i4"), ("end", "i4")], align=True)
ROW = np.dtype([("link", "i4"), ("count", "i4")], align=True)
RUN = np.dtype([("left_s", "f8"), ("op_class", "i8")], align=True)
#: ``runs`` is the slot whose work goes on there and can slow or be slowed, or -1
STREAM = np.dtype([("device", "i4"), ("place", "i4"), ("end", "i4"), ("runs", "i4")], align=True)
DEVICE = np.dtype([("first", "i4"), ("end", "i4"), ("flows", "i4"), ("computes", "i4")], align=True)
MATCH = np.dtype([("time_s", "f8"), ("slot", "i8")], align=True)
ENTRY = np.dtype([("time_s", "f8"), ("rate", "f8"), ("task", "i8")], align=True)


def inline(function: F) -> F:
    """Compile into its callers."""
    return cast(F, njit(forceinline=True, error_model="numpy")(function))


# -- before the play ---------------------------------------------------------------------------------


@jit
def runs_of(segment_ptr: np.ndarray, work_s: np.ndarray, op_class: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Neighbouring ops of one class as one run: first run of each segment, and the runs.

    Between two ops of one class no rate changes, so the engine need not stop there.
    """
    num_segments = len(segment_ptr) - 1
    first_run = np.zeros(num_segments + 1, np.int32)
    runs = np.zeros(len(work_s), RUN)
    n = 0
    for segment in range(num_segments):
        first, end = segment_ptr[segment], segment_ptr[segment + 1]
        for j in range(first, end):
            if j == first or op_class[j] != op_class[j - 1]:
                runs[n].op_class = op_class[j]
                n += 1
        first_run[segment + 1] = n
        left, run = 0.0, n - 1
        for j in range(end - 1, first - 1, -1):
            if j == end - 1 or op_class[j] != op_class[j + 1]:
                runs[run].left_s = left
                run -= 1
            left += work_s[j]
    return first_run, runs[:n]


@jit
def shared_rows(
    home: np.ndarray,
    task_pattern: np.ndarray,
    ptr: np.ndarray,
    link: np.ndarray,
    count: np.ndarray,
    cap_Bps: np.ndarray,
    capacity_Bps: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
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
    patterns = np.zeros(num_patterns, PATTERN)
    rows = np.zeros(len(link), ROW)
    n = 0
    for p in range(num_patterns):
        patterns[p].cap_Bps, patterns[p].limit_Bps, patterns[p].first = cap_Bps[p], _INF, n
        for j in range(ptr[p], ptr[p + 1]):
            if link_user[link[j]] == -2:
                rows[n].link, rows[n].count = link[j], count[j]
                n += 1
            else:
                patterns[p].limit_Bps = min(patterns[p].limit_Bps, capacity_Bps[link[j]] / count[j])
        patterns[p].end = n
    return patterns, rows[:n]


@jit
def task_records(
    kind: np.ndarray,
    latency_s: np.ndarray,
    work: np.ndarray,
    release_s: np.ndarray,
    segment: np.ndarray,
    pattern: np.ndarray,
    op_class: np.ndarray,
    home: np.ndarray,
    pred_ptr: np.ndarray,
    stream_ptr: np.ndarray,
    stream_task: np.ndarray,
    on_ptr: np.ndarray,
    succ_ptr: np.ndarray,
) -> np.ndarray:
    """The columns of each task side by side; ``waits`` counts its predecessors and those before it in streams."""
    tasks = np.empty(len(kind), TASK)
    for i in range(len(kind)):
        task = tasks[i]
        task.work, task.latency_s, task.start_s, task.end_s = work[i], latency_s[i], release_s[i], _INF
        task.waits, task.home = pred_ptr[i + 1] - pred_ptr[i], home[i]
        task.on, task.on_end, task.succ, task.succ_end = on_ptr[i], on_ptr[i + 1], succ_ptr[i], succ_ptr[i + 1]
        task.kind, task.op_class = kind[i], op_class[i]
        task.row = segment[i] if kind[i] == _COMPUTE else pattern[i]
    for stream in range(len(stream_ptr) - 1):
        for j in range(stream_ptr[stream] + 1, stream_ptr[stream + 1]):
            tasks[stream_task[j]].waits += 1
    return tasks


@jit
def slot_records(num_slots: int, tasks: np.ndarray, patterns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Empty slots, each with as many list nodes as the longest pattern of its tasks has links."""
    slots = np.zeros(num_slots, SLOT)
    size = np.zeros(num_slots, np.int32)
    for i in range(len(tasks)):
        if tasks[i].kind != _COMPUTE and tasks[i].kind != _HOST:
            pattern = patterns[tasks[i].row]
            size[tasks[i].home] = max(size[tasks[i].home], pattern.end - pattern.first)
    nodes = np.zeros(size.sum(), NODE)
    n = 0
    for i in range(num_slots):
        slots[i].task, slots[i].node = -1, n
        for _ in range(size[i]):
            nodes[n].slot = i
            n += 1
    return slots, nodes


# -- the tournament, stacks and marks ----------------------------------------------------------------


@inline
def schedule(bracket: np.ndarray, slot: int, time_s: float) -> None:
    """Give `slot` the time of its next event and replay its matches; the next event of all stands in row 1."""
    node = (len(bracket) >> 1) + slot
    bracket[node].time_s = time_s
    node >>= 1
    while node >= 1:
        a, b, match = bracket[2 * node], bracket[2 * node + 1], bracket[node]
        is_a = a.time_s <= b.time_s
        time_s = a.time_s if is_a else b.time_s
        best = a.slot if is_a else b.slot
        if match.slot == best and best != slot:
            return  # neither its match nor any above it changes
        match.time_s, match.slot = time_s, best
        node >>= 1


@inline
def push(stack: np.ndarray, value: int) -> None:
    """A stack keeps its size in its first element."""
    stack[0] += 1
    stack[stack[0]] = value


@inline
def pop(stack: np.ndarray) -> int:
    stack[0] -= 1
    value: int = stack[stack[0] + 1]
    return value


@inline
def touch(slots: np.ndarray, touched: np.ndarray, slot: int, why: int) -> None:
    """Have the rate of `slot` looked at when the instant is over."""
    if why == _COMPUTE_RATE:
        if not slots[slot].stale & _COMPUTE_RATE:
            push(touched, slot)
    elif not slots[slot].stale & (_BESIDE | _LINKS):
        push(touched, slot)
    slots[slot].stale |= why


@inline
def move_beside(
    slots: np.ndarray,
    streams: np.ndarray,
    devices: np.ndarray,
    device_stream: np.ndarray,
    beside: np.ndarray,
    touched: np.ndarray,
    device: int,
    old: int,
    new: int,
) -> None:
    """Tell the flows of `device` that a compute op of class `old` has given way to one of class `new` (-1: none)."""
    for j in range(devices[device].first, devices[device].end):
        other = streams[device_stream[j]].runs
        if other >= 0 and slots[other].phase == _FLOWS:
            if old >= 0:
                beside[other, old] -= 1
            if new >= 0:
                beside[other, new] += 1
            touch(slots, touched, other, _BESIDE)


@inline
def log_rate(log: np.ndarray, size: np.ndarray, task: int, time_s: float, rate: float) -> None:
    log[size[0]].task, log[size[0]].time_s, log[size[0]].rate = task, time_s, rate
    size[0] += 1


@inline
def room_for(log: np.ndarray, size: np.ndarray, more: int) -> np.ndarray:
    """The log, copied to twice its size where `more` entries do not fit."""
    if size[0] + more <= len(log):
        return log
    larger = np.empty(2 * (size[0] + more), ENTRY)
    larger[: size[0]] = log[: size[0]]
    return larger


# -- max-min fair rates ------------------------------------------------------------------------------


@jit
def fill(
    members: np.ndarray,
    num_members: int,
    found: np.ndarray,
    num_found: int,
    slots: np.ndarray,
    patterns: np.ndarray,
    rows: np.ndarray,
    links: np.ndarray,
    fair_Bps: np.ndarray,
) -> None:
    """Progressive filling: the max-min fair rates of the slots `members` over the links `found`.

    On entry ``left_Bps`` of a link is its capacity and ``weight`` the flows of
    all members over it.  Every share is one division by a sum of integers, and
    all flows that freeze at one level are subtracted together: that makes the
    result of a folded graph equal to the bit.
    """
    while num_members > 0:
        level = _INF
        kept = 0
        for i in range(num_found):
            link = links[found[i]]
            if link.weight > 0:
                found[kept] = found[i]
                kept += 1
                link.share_Bps = link.left_Bps / link.weight
                level = min(level, link.share_Bps)
        num_found = kept
        for i in range(num_members):
            level = min(level, slots[members[i]].cap_Bps)
        i = 0
        while i < num_members:
            m = members[i]
            pattern = patterns[slots[m].pattern]
            is_frozen = slots[m].cap_Bps <= level
            j = pattern.first
            while j < pattern.end and not is_frozen:
                is_frozen = links[rows[j].link].share_Bps <= level
                j += 1
            if not is_frozen:
                i += 1
                continue
            fair_Bps[m] = level
            for j in range(pattern.first, pattern.end):
                links[rows[j].link].taken += rows[j].count
            num_members -= 1
            members[i], members[num_members] = members[num_members], m
        for i in range(num_found):
            link = links[found[i]]
            if link.taken > 0:
                if level < _INF:
                    link.left_Bps -= link.taken * level
                link.weight -= link.taken
                link.taken = 0


@jit
def max_min_rows(
    ptr: np.ndarray, link: np.ndarray, count: np.ndarray, cap_Bps: np.ndarray, capacity_Bps: np.ndarray
) -> np.ndarray:
    """Max-min fair rates of all rows of a CSR of flows at once."""
    n, num_links = len(cap_Bps), len(capacity_Bps)
    slots, patterns = np.zeros(n, SLOT), np.zeros(n, PATTERN)
    rows, links = np.zeros(len(link), ROW), np.zeros(num_links, LINK)
    for i in range(n):
        slots[i].cap_Bps, slots[i].pattern = cap_Bps[i], i
        patterns[i].first, patterns[i].end = ptr[i], ptr[i + 1]
    for i in range(num_links):
        links[i].left_Bps = capacity_Bps[i]
    for j in range(len(link)):
        rows[j].link, rows[j].count = link[j], count[j]
        links[link[j]].weight += count[j]
    fair_Bps = np.zeros(n)
    members, found = np.arange(n).astype(np.int32), np.arange(num_links).astype(np.int32)
    fill(members, n, found, num_links, slots, patterns, rows, links, fair_Bps)
    return fair_Bps


# -- the play ----------------------------------------------------------------------------------------


@inline
def end_task(
    now: float,
    slot: int,
    tasks: np.ndarray,
    slots: np.ndarray,
    streams: np.ndarray,
    devices: np.ndarray,
    links: np.ndarray,
    nodes: np.ndarray,
    patterns: np.ndarray,
    rows: np.ndarray,
    on: np.ndarray,
    succ: np.ndarray,
    stream_task: np.ndarray,
    device_stream: np.ndarray,
    interacts: np.ndarray,
    beside: np.ndarray,
    touched: np.ndarray,
    touched_compute: np.ndarray,
    ready: np.ndarray,
) -> None:
    """End the task of `slot`: leave its links and devices, and let start what waited for it."""
    state = slots[slot]
    task = tasks[state.task]
    task.end_s = now
    if state.phase == _FLOWS:
        pattern = patterns[state.pattern]
        for j in range(pattern.end - pattern.first):
            node, link = nodes[state.node + j], links[rows[pattern.first + j].link]
            if node.prev >= 0:
                nodes[node.prev].next = node.next
            else:
                link.head = node.next
            if node.next >= 0:
                nodes[node.next].prev = node.prev
            if link.head >= 0:
                touch(slots, touched, nodes[link.head].slot, _LINKS)
        if interacts[state.op_class]:
            for i in range(task.on, task.on_end):
                streams[on[i]].runs = -1
                device = devices[streams[on[i]].device]
                device.flows -= 1
                if device.computes > 0:
                    for j in range(device.first, device.end):
                        other = streams[device_stream[j]].runs
                        if other >= 0 and slots[other].phase == _COMPUTES:
                            touch(slots, touched_compute, other, _COMPUTE_RATE)
            for c in range(beside.shape[1]):
                beside[slot, c] = 0
    elif state.phase == _COMPUTES and slot < len(streams):
        streams[slot].runs = -1
        where = streams[slot].device
        devices[where].computes -= 1
        if devices[where].flows > 0:
            move_beside(slots, streams, devices, device_stream, beside, touched, where, state.op_class, -1)
    state.phase = _IDLE
    for i in range(task.on, task.on_end):
        stream = streams[on[i]]
        stream.place += 1
        if stream.place < stream.end:
            other = stream_task[stream.place]
            tasks[other].waits -= 1
            if tasks[other].waits == 0:
                push(ready, other)
    for i in range(task.succ, task.succ_end):
        other = succ[i]
        tasks[other].waits -= 1
        if tasks[other].waits == 0:
            push(ready, other)


@inline
def begin_work(
    now: float,
    slot: int,
    tasks: np.ndarray,
    slots: np.ndarray,
    streams: np.ndarray,
    devices: np.ndarray,
    links: np.ndarray,
    nodes: np.ndarray,
    patterns: np.ndarray,
    rows: np.ndarray,
    on: np.ndarray,
    device_stream: np.ndarray,
    first_run: np.ndarray,
    runs: np.ndarray,
    interacts: np.ndarray,
    beside: np.ndarray,
    touched: np.ndarray,
    touched_compute: np.ndarray,
    bracket: np.ndarray,
) -> None:
    """The latency of the task of `slot` has passed: enter its links and devices."""
    state = slots[slot]
    task = tasks[state.task]
    state.left, state.since_s, state.target = task.work, now, 0.0
    if task.kind == _HOST:
        state.phase = _HOSTS
        schedule(bracket, slot, now + task.work)
    elif task.kind == _COMPUTE:
        state.phase, state.rate, state.run, state.op_class = _COMPUTES, 1.0, -1, task.op_class
        if task.row >= 0:
            state.run = first_run[task.row]
            while runs[state.run].left_s >= task.work:  # ops without work at its beginning
                state.run += 1
            state.op_class = runs[state.run].op_class
        schedule(bracket, slot, now + task.work)
        if slot < len(streams):
            streams[slot].runs = slot
            where = streams[slot].device
            devices[where].computes += 1
            if devices[where].flows > 0:
                touch(slots, touched_compute, slot, _COMPUTE_RATE)
                move_beside(slots, streams, devices, device_stream, beside, touched, where, -1, state.op_class)
    else:
        state.phase, state.rate, state.pattern, state.op_class = _FLOWS, 0.0, task.row, task.op_class
        touch(slots, touched, slot, _LINKS)
        pattern = patterns[task.row]
        for j in range(pattern.end - pattern.first):
            i = state.node + j
            link = links[rows[pattern.first + j].link]
            nodes[i].next, nodes[i].prev = link.head, -1
            if link.head >= 0:
                nodes[link.head].prev = i
            link.head = i
        if interacts[task.op_class]:
            for i in range(task.on, task.on_end):
                streams[on[i]].runs = slot
                device = devices[streams[on[i]].device]
                device.flows += 1
                if device.computes > 0:
                    for j in range(device.first, device.end):
                        o = streams[device_stream[j]].runs
                        if o < 0 or slots[o].phase != _COMPUTES:
                            continue
                        other = slots[o]
                        if device.flows == 1 and other.run >= 0:  # it ran as one event: at which op is it now?
                            left = other.left - other.rate * (now - other.since_s)
                            while runs[other.run].left_s > 0.0 and runs[other.run].left_s >= left:
                                other.run += 1
                            other.op_class = runs[other.run].op_class
                        beside[slot, other.op_class] += 1
                        touch(slots, touched_compute, o, _COMPUTE_RATE)


@inline
def gather(
    seed: int,
    mark: int,
    members: np.ndarray,
    found: np.ndarray,
    slots: np.ndarray,
    links: np.ndarray,
    nodes: np.ndarray,
    patterns: np.ndarray,
    rows: np.ndarray,
) -> tuple[int, int]:
    """All slots that share links with `seed`, directly or through others, and those links, made ready to fill."""
    members[0] = seed
    slots[seed].mark = mark
    num_members, num_found, m = 1, 0, 0
    while m < num_members:
        pattern = patterns[slots[members[m]].pattern]
        m += 1
        for j in range(pattern.first, pattern.end):
            link = links[rows[j].link]
            if link.mark != mark:
                link.mark = mark
                found[num_found] = rows[j].link
                num_found += 1
                link.left_Bps, link.weight = link.capacity_Bps, 0
                node = link.head
                while node >= 0:
                    other = nodes[node].slot
                    if slots[other].mark != mark:
                        slots[other].mark = mark
                        members[num_members] = other
                        num_members += 1
                    node = nodes[node].next
            link.weight += rows[j].count
    return num_members, num_found


@jit
def play_records(
    tasks: np.ndarray,
    slots: np.ndarray,
    nodes: np.ndarray,
    patterns: np.ndarray,
    rows: np.ndarray,
    first_run: np.ndarray,
    runs: np.ndarray,
    succ: np.ndarray,
    on: np.ndarray,
    stream_ptr: np.ndarray,
    stream_task: np.ndarray,
    stream_device: np.ndarray,
    device_ptr: np.ndarray,
    device_stream: np.ndarray,
    capacity_Bps: np.ndarray,
    compute_slowdown: np.ndarray,
    comm_slowdown: np.ndarray,
    record: bool,
) -> np.ndarray:
    """Play all tasks: sets ``start_s`` and ``end_s`` of the records and returns the log of rates."""
    num_slots, num_comm, num_compute = len(slots), comm_slowdown.shape[0], comm_slowdown.shape[1]
    streams = np.empty(len(stream_device), STREAM)
    for i in range(len(streams)):
        streams[i].device, streams[i].runs = stream_device[i], -1
        streams[i].place, streams[i].end = stream_ptr[i], stream_ptr[i + 1]
    devices = np.zeros(len(device_ptr) - 1, DEVICE)
    for i in range(len(devices)):
        devices[i].first, devices[i].end = device_ptr[i], device_ptr[i + 1]
    links = np.zeros(len(capacity_Bps), LINK)
    for i in range(len(links)):
        links[i].capacity_Bps, links[i].head = capacity_Bps[i], -1
    # communications of these classes slow compute or are slowed by it; `beside` counts what runs beside each flow
    interacts = np.zeros(num_comm, np.bool_)
    for k in range(num_comm):
        interacts[k] = np.any(comm_slowdown[k] > 0) or np.any(compute_slowdown[:, k] > 0)
    beside = np.zeros((num_slots, num_compute), np.int32)
    # stacks of what the instant brings
    ready, begun = np.zeros(num_slots + 1, np.int32), np.zeros(num_slots + 1, np.int32)
    ended = np.zeros(num_slots + 1, np.int32)
    touched, touched_compute = np.zeros(num_slots + 1, np.int32), np.zeros(num_slots + 1, np.int32)
    members, found = np.empty(num_slots, np.int32), np.empty(len(links), np.int32)
    fair_Bps = np.zeros(num_slots)
    mark = 0
    log, log_size = np.empty(1024 if record else 0, ENTRY), np.zeros(1, np.int64)
    half = 1
    while half < num_slots:
        half *= 2
    bracket = np.empty(2 * half, MATCH)
    for i in range(2 * half):
        bracket[i].time_s, bracket[i].slot = _INF, max(0, i - half)

    for i in range(len(tasks)):
        if tasks[i].waits == 0:
            push(ready, i)
    now = 0.0
    while True:
        # 1. the events of this instant
        while bracket[1].time_s == now:
            slot = bracket[1].slot
            state = slots[slot]
            schedule(bracket, slot, _INF)
            if state.phase == _LATENCY:
                push(begun, slot)
            elif state.target == 0.0:
                push(ended, slot)
            else:  # a run of ops is over, the next one has another class
                state.left, state.since_s, old = state.target, now, state.op_class
                while runs[state.run].left_s >= state.left:
                    state.run += 1
                state.op_class = runs[state.run].op_class
                touch(slots, touched_compute, slot, _COMPUTE_RATE)
                move_beside(
                    slots, streams, devices, device_stream, beside, touched, streams[slot].device, old, state.op_class
                )

        # 2. ends, starts and beginnings of work, until nothing more happens at this instant
        while ended[0] + ready[0] + begun[0] > 0:
            while ended[0] > 0:
                end_task(
                    now, pop(ended), tasks, slots, streams, devices, links, nodes, patterns, rows, on, succ,
                    stream_task, device_stream, interacts, beside, touched, touched_compute, ready,
                )  # fmt: skip
            while ready[0] > 0:
                i = pop(ready)
                task = tasks[i]
                slots[task.home].task, slots[task.home].phase = i, _LATENCY
                task.start_s = max(now, task.start_s)
                if task.start_s + task.latency_s > now:
                    schedule(bracket, task.home, task.start_s + task.latency_s)
                else:
                    push(begun, task.home)
            while begun[0] > 0:
                slot = pop(begun)
                if not tasks[slots[slot].task].work > 0.0:
                    slots[slot].phase = _LATENCY  # it never works, so it leaves nothing when it ends
                    push(ended, slot)
                    continue
                begin_work(
                    now, slot, tasks, slots, streams, devices, links, nodes, patterns, rows, on, device_stream,
                    first_run, runs, interacts, beside, touched, touched_compute, bracket,
                )  # fmt: skip

        # 3. rates of compute ops beside communication
        if record:
            log = room_for(log, log_size, touched_compute[0])
        while touched_compute[0] > 0:
            slot = pop(touched_compute)
            state = slots[slot]
            state.stale &= ~_COMPUTE_RATE
            if state.phase != _COMPUTES:
                continue
            device = devices[streams[slot].device]
            slowdown, target = 0.0, 0.0
            if device.flows > 0:
                for j in range(device.first, device.end):
                    other = streams[device_stream[j]].runs
                    if other >= 0 and slots[other].phase == _FLOWS:
                        slowdown = max(slowdown, compute_slowdown[state.op_class, slots[other].op_class])
                if state.run >= 0:
                    target = runs[state.run].left_s
            rate = 1.0 / (1.0 + slowdown)
            if rate != state.rate:
                state.left = max(0.0, state.left - state.rate * (now - state.since_s))
                state.since_s, state.rate = now, rate
                if record:
                    log_rate(log, log_size, state.task, now, rate)
            state.target = target
            schedule(bracket, slot, max(now, state.since_s + (state.left - target) / rate))

        # 4. rates of flows: first all caps, then each component of links and flows that was touched
        mark += 1
        num_seeds = 0
        for i in range(1, touched[0] + 1):
            slot = touched[i]
            state = slots[slot]
            why = state.stale
            state.stale &= _COMPUTE_RATE
            if state.phase != _FLOWS:
                continue
            slowdown = 0.0
            if interacts[state.op_class]:
                for c in range(num_compute):
                    if beside[slot, c] > 0:
                        slowdown = max(slowdown, comm_slowdown[state.op_class, c])
            pattern = patterns[state.pattern]
            cap = min(pattern.cap_Bps / (1.0 + slowdown), pattern.limit_Bps)
            was_bound = state.rate >= state.cap_Bps or state.rate > cap
            if why & _LINKS or (cap != state.cap_Bps and was_bound):
                num_seeds += 1
                touched[num_seeds] = slot
            state.cap_Bps = cap
        touched[0] = 0
        for i in range(1, num_seeds + 1):
            if slots[touched[i]].mark == mark:
                continue
            num_members, num_found = gather(touched[i], mark, members, found, slots, links, nodes, patterns, rows)
            if num_members == 1:
                state = slots[members[0]]
                fair = state.cap_Bps
                for j in range(num_found):
                    fair = min(fair, links[found[j]].capacity_Bps / links[found[j]].weight)
                fair_Bps[members[0]] = fair
            else:
                fill(members, num_members, found, num_found, slots, patterns, rows, links, fair_Bps)
            if record:
                log = room_for(log, log_size, num_members)
            for m in range(num_members):
                state = slots[members[m]]
                rate = fair_Bps[members[m]]
                if rate == state.rate:
                    continue
                if now > state.since_s:
                    state.left = max(0.0, state.left - state.rate * (now - state.since_s))
                state.since_s, state.rate = now, rate
                if record:
                    log_rate(log, log_size, state.task, now, rate)
                schedule(bracket, members[m], now + state.left / rate)

        # 5. on to the next instant
        if bracket[1].time_s == _INF:
            return log[: log_size[0]]
        now = bracket[1].time_s
