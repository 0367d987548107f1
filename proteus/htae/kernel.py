"""The numba kernel that plays tasks.

It means what :mod:`proteus.htae.reference` means, and tests compare the two
span by span.  All of it stands in one file because numba's disk cache looks
only at the file of the function that it loads.

Speed comes from four things.  The next event is the winner of a tournament over
the slots, so there are no stale events.  A link that the tasks of one slot alone
use can never be shared, so it is only one more limit of the flow.  Rates are
worked out once per instant, for the slots that the instant touched and those
that share links with them.  And memory is read in the order of
:mod:`proteus.htae.world`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from proteus.htae.compiled import inline, quick
from proteus.htae.tasks import TaskKind
from proteus.htae.world import World
from proteus.progress import ENDED, STOP

_INF = np.inf
_COMPUTE, _HOST = int(TaskKind.COMPUTE), int(TaskKind.HOST)
#: phases of a slot: nothing, before its work, and its work by kind
_IDLE, _LATENCY, _COMPUTES, _FLOWS, _HOSTS = range(5)
#: why the rate of a slot is looked at again: what runs beside it, or what flows on its links
_BESIDE, _LINKS, _COMPUTE_RATE = 1, 2, 4


# -- the tournament, stacks and marks ----------------------------------------------------------------


@inline
def schedule(bracket: np.ndarray, slot: int, time_s: float) -> None:
    """Give `slot` the time of its next event and replay its matches; the next event of all stands in row 1."""
    node, best = (len(bracket) >> 1) + slot, slot
    bracket[node].time_s = time_s
    while node > 1:
        rival = bracket[node ^ 1]
        is_beaten = rival.time_s < time_s or (rival.time_s == time_s and rival.slot < best)
        time_s = rival.time_s if is_beaten else time_s
        best = rival.slot if is_beaten else best
        node >>= 1
        match = bracket[node]
        if match.slot == best and best != slot:
            return  # neither this match nor any above it changes
        match.time_s, match.slot = time_s, best


@intrinsic
def _prefetch(typing: Any, array: Any, index: Any) -> tuple[Any, Any]:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.bitcast(builder.gep(data, [arguments[1]]), pointer)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        builder.call(hint, [place, number(1), number(3), number(1)])  # to write, to keep, data
        return context.get_dummy_value()

    return types.void(array, types.intp), code


#: asks for the memory of ``array[index]`` before it is needed; saves a fifth of the time, as measured
prefetch: Any = _prefetch


@inline
def push(values: np.ndarray, value: int) -> None:
    values[0] += 1
    values[values[0]] = value


@inline
def pop(values: np.ndarray) -> int:
    values[0] -= 1
    value: int = values[values[0] + 1]
    return value


@inline
def touch_flow(w: World, slot: int, why: int) -> None:
    """Have the rate of a flow looked at when the instant is over."""
    if not w.slots[slot].stale & (_BESIDE | _LINKS):
        push(w.touched, slot)
    w.slots[slot].stale |= why


@inline
def touch_compute(w: World, slot: int) -> None:
    """Have the rate of a compute op looked at when the instant is over."""
    if not w.slots[slot].stale & _COMPUTE_RATE:
        push(w.touched_compute, slot)
    w.slots[slot].stale |= _COMPUTE_RATE


@inline
def move_beside(w: World, where: int, old: int, new: int) -> None:
    """Tell the flows of a device that a compute op of class `old` has given way to one of class `new` (-1: none)."""
    device = w.devices[where]
    if device.flows > 0:
        for j in range(device.first, device.end):
            peer_slot = w.streams[w.device_stream[j]].runs
            if peer_slot >= 0 and w.slots[peer_slot].phase == _FLOWS:
                if old >= 0:
                    w.beside[peer_slot, old] -= 1
                if new >= 0:
                    w.beside[peer_slot, new] += 1
                touch_flow(w, peer_slot, _BESIDE)


@inline
def set_rate(w: World, slot: int, rate: float, now: float) -> None:
    """Settle the work done so far and go on at `rate`."""
    state = w.slots[slot]
    if now > state.since_s:
        state.left = max(0.0, state.left - state.rate * (now - state.since_s))
    state.since_s, state.rate = now, rate
    if len(w.log) > 0:
        clock = w.clock[0]
        entry = w.log[clock.log_size]
        entry.task, entry.time_s, entry.rate = state.task, now, rate
        clock.log_size += 1


# -- max-min fair rates ------------------------------------------------------------------------------


@quick
def fill(
    slots: np.ndarray,
    patterns: np.ndarray,
    rows: np.ndarray,
    links: np.ndarray,
    members: np.ndarray,
    num_members: int,
    active_links: np.ndarray,
    num_found: int,
    fair_Bps: np.ndarray,
) -> None:
    """Progressive filling: the max-min fair rates of the slots `members` over the links `active_links`.

    On entry ``left_Bps`` of a link is its capacity and ``weight`` the flows of
    all members over it.  Every share is one division by a sum of integers, and
    all flows that freeze at one level are subtracted together: that makes the
    result of a folded graph equal to the bit.
    """
    while num_members > 0:
        level = _INF
        kept = 0
        for i in range(num_found):
            link = links[active_links[i]]
            if link.weight > 0:
                active_links[kept] = active_links[i]
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
            link = links[active_links[i]]
            if link.taken > 0:
                if level < _INF:
                    link.left_Bps -= link.taken * level
                link.weight -= link.taken
                link.taken = 0


@inline
def gather(w: World, seed: int) -> tuple[int, int]:
    """All slots that share links with `seed`, directly or through others, and those links, made ready to fill."""
    mark = w.clock[0].mark
    w.members[0] = seed
    w.slots[seed].mark = mark
    num_members, num_found, m = 1, 0, 0
    while m < num_members:
        pattern = w.patterns[w.slots[w.members[m]].pattern]
        m += 1
        for j in range(pattern.first, pattern.end):
            row = w.rows[j]
            link = w.links[row.link]
            if link.mark != mark:
                link.mark = mark
                w.found[num_found] = row.link
                num_found += 1
                link.left_Bps, link.weight = link.capacity_Bps, 0
                node = link.head
                while node >= 0:
                    peer_slot = w.nodes[node].slot
                    if w.slots[peer_slot].mark != mark:
                        w.slots[peer_slot].mark = mark
                        w.members[num_members] = peer_slot
                        num_members += 1
                    node = w.nodes[node].next
            link.weight += row.count
    return num_members, num_found


# -- the play ----------------------------------------------------------------------------------------


@inline
def leave(w: World, slot: int) -> None:
    """Take what `slot` works on off its links and devices."""
    state = w.slots[slot]
    if state.phase == _FLOWS:
        pattern = w.patterns[state.pattern]
        for j in range(pattern.end - pattern.first):
            node, link = w.nodes[state.node + j], w.links[w.rows[pattern.first + j].link]
            if node.prev >= 0:
                w.nodes[node.prev].next = node.next
            else:
                link.head = node.next
            if node.next >= 0:
                w.nodes[node.next].prev = node.prev
            if link.head >= 0:
                touch_flow(w, w.nodes[link.head].slot, _LINKS)
        if w.interacts[state.op_class]:
            task = w.tasks[state.task]
            for i in range(task.on, task.on_end):
                w.streams[w.on[i]].runs = -1
                device = w.devices[w.streams[w.on[i]].device]
                device.flows -= 1
                if device.computes > 0:
                    for j in range(device.first, device.end):
                        peer_slot = w.streams[w.device_stream[j]].runs
                        if peer_slot >= 0 and w.slots[peer_slot].phase == _COMPUTES:
                            touch_compute(w, peer_slot)
            for c in range(w.beside.shape[1]):
                w.beside[slot, c] = 0
    elif state.phase == _COMPUTES and slot < len(w.streams):
        w.streams[slot].runs = -1
        where = w.streams[slot].device
        w.devices[where].computes -= 1
        move_beside(w, where, state.op_class, -1)


@inline
def release(w: World, index: int) -> None:
    """One thing that task `index` waits for is over."""
    task = w.tasks[index]
    task.waits -= 1
    if task.waits == 0:
        push(w.ready, index)


@inline
def end_task(w: World, slot: int, now: float) -> None:
    """End the task of `slot` and release those that waited for it."""
    leave(w, slot)
    w.slots[slot].phase = _IDLE
    task = w.tasks[w.slots[slot].task]
    task.end_s = now
    w.signal[ENDED] += 1
    for i in range(task.on, task.on_end):
        stream = w.streams[w.on[i]]
        stream.place += 1
        if stream.place < stream.end:
            release(w, w.stream_task[stream.place])
    for i in range(task.succ, task.succ_end):
        release(w, w.succ[i])


@inline
def start_task(w: World, index: int, now: float) -> None:
    """Start a task; its latency begins, after its launch."""
    task = w.tasks[index]
    state = w.slots[task.home]
    state.task, state.phase = index, _LATENCY
    task.start_s = max(now, task.start_s)
    if task.home < len(w.streams):
        place = w.streams[task.home].place + 1
        if place < w.streams[task.home].end:
            prefetch(w.tasks, w.stream_task[place])
    if task.start_s + task.latency_s > now:
        schedule(w.bracket, task.home, task.start_s + task.latency_s)
    else:
        push(w.begun, task.home)


@inline
def begin_compute(w: World, slot: int, now: float) -> None:
    state = w.slots[slot]
    task = w.tasks[state.task]
    state.phase, state.rate, state.run, state.op_class = _COMPUTES, 1.0, -1, task.op_class
    if task.row >= 0:
        state.run = w.first_run[task.row]
        while w.runs[state.run].left_s >= task.work:  # ops without work at its beginning
            state.run += 1
        state.op_class = w.runs[state.run].op_class
    schedule(w.bracket, slot, now + task.work)
    if slot < len(w.streams):
        w.streams[slot].runs = slot
        where = w.streams[slot].device
        w.devices[where].computes += 1
        if w.devices[where].flows > 0:
            touch_compute(w, slot)
            move_beside(w, where, -1, state.op_class)


@inline
def begin_flow(w: World, slot: int, now: float) -> None:
    state = w.slots[slot]
    task = w.tasks[state.task]
    state.phase, state.rate, state.pattern, state.op_class = _FLOWS, 0.0, task.row, task.op_class
    touch_flow(w, slot, _LINKS)
    pattern = w.patterns[task.row]
    for j in range(pattern.end - pattern.first):
        i = state.node + j
        link = w.links[w.rows[pattern.first + j].link]
        w.nodes[i].next, w.nodes[i].prev = link.head, -1
        if link.head >= 0:
            w.nodes[link.head].prev = i
        link.head = i
    if not w.interacts[task.op_class]:
        return
    for i in range(task.on, task.on_end):
        w.streams[w.on[i]].runs = slot
        device = w.devices[w.streams[w.on[i]].device]
        device.flows += 1
        if device.computes > 0:
            for j in range(device.first, device.end):
                index = w.streams[w.device_stream[j]].runs
                if index < 0 or w.slots[index].phase != _COMPUTES:
                    continue
                peer = w.slots[index]
                if device.flows == 1 and peer.run >= 0:  # it ran as one event: at which op is it now?
                    left = peer.left - peer.rate * (now - peer.since_s)
                    while w.runs[peer.run].left_s > 0.0 and w.runs[peer.run].left_s >= left:
                        peer.run += 1
                    peer.op_class = w.runs[peer.run].op_class
                w.beside[slot, peer.op_class] += 1
                touch_compute(w, index)


@inline
def begin_work(w: World, slot: int, now: float) -> None:
    """The latency of the task of `slot` has passed."""
    state = w.slots[slot]
    task = w.tasks[state.task]
    if not task.work > 0.0:
        push(w.ended, slot)
        return
    state.left, state.since_s, state.target = task.work, now, 0.0
    if task.kind == _COMPUTE:
        begin_compute(w, slot, now)
    elif task.kind == _HOST:
        state.phase = _HOSTS
        schedule(w.bracket, slot, now + task.work)
    else:
        begin_flow(w, slot, now)


@inline
def next_run(w: World, slot: int, now: float) -> None:
    """A run of ops is over; the next one has another class."""
    state = w.slots[slot]
    old = state.op_class
    state.left, state.since_s = state.target, now
    while w.runs[state.run].left_s >= state.left:
        state.run += 1
    state.op_class = w.runs[state.run].op_class
    touch_compute(w, slot)
    move_beside(w, w.streams[slot].device, old, state.op_class)


@inline
def rate_compute(w: World, slot: int, now: float) -> None:
    """The rate of a compute op beside what communicates on its device, and its next event."""
    state = w.slots[slot]
    state.stale &= ~_COMPUTE_RATE
    if state.phase != _COMPUTES:
        return
    device = w.devices[w.streams[slot].device]
    slowdown, target = 0.0, 0.0
    if device.flows > 0:
        for j in range(device.first, device.end):
            peer_slot = w.streams[w.device_stream[j]].runs
            if peer_slot >= 0 and w.slots[peer_slot].phase == _FLOWS:
                slowdown = max(slowdown, w.compute_slowdown[state.op_class, w.slots[peer_slot].op_class])
        if state.run >= 0:
            target = w.runs[state.run].left_s
    rate = 1.0 / (1.0 + slowdown)
    if rate != state.rate:
        set_rate(w, slot, rate, now)
    state.target = target
    schedule(w.bracket, slot, max(now, state.since_s + (state.left - target) / rate))


@inline
def limit_flow(w: World, slot: int) -> bool:
    """Set the cap of a flow; True when rates must be worked out again."""
    state = w.slots[slot]
    why = state.stale & _LINKS
    state.stale &= _COMPUTE_RATE
    if state.phase != _FLOWS:
        return False
    slowdown = 0.0
    if w.interacts[state.op_class]:
        for c in range(w.beside.shape[1]):
            if w.beside[slot, c] > 0:
                slowdown = max(slowdown, w.comm_slowdown[state.op_class, c])
    pattern = w.patterns[state.pattern]
    cap_Bps = min(pattern.cap_Bps / (1.0 + slowdown), pattern.limit_Bps)
    # a cap that did not bind and does not bind now changes nothing
    is_free = state.rate < state.cap_Bps and state.rate <= cap_Bps
    is_needed = why != 0 or (cap_Bps != state.cap_Bps and not is_free)
    state.cap_Bps = cap_Bps
    return is_needed


@inline
def rate_flows(w: World, seed: int, now: float) -> None:
    """The rates of all flows that depend on each other through links with that of `seed`, and their next events."""
    num_members, num_found = gather(w, seed)
    if num_members == 1:
        fair_Bps = w.slots[seed].cap_Bps
        for i in range(num_found):
            link = w.links[w.found[i]]
            fair_Bps = min(fair_Bps, link.capacity_Bps / link.weight)
        w.fair_Bps[seed] = fair_Bps
    else:
        fill(w.slots, w.patterns, w.rows, w.links, w.members, num_members, w.found, num_found, w.fair_Bps)
    for m in range(num_members):
        slot = w.members[m]
        if w.fair_Bps[slot] != w.slots[slot].rate:
            set_rate(w, slot, w.fair_Bps[slot], now)
            schedule(w.bracket, slot, now + w.slots[slot].left / w.slots[slot].rate)


@quick
def play_world(w: World) -> bool:
    """Play until nothing happens any more, or it is stopped; False when the log has no room for another instant."""
    clock = w.clock[0]
    while clock.now_s < _INF and w.signal[STOP] == 0:
        now = clock.now_s
        if len(w.log) > 0 and clock.log_size + len(w.slots) > len(w.log):
            return False
        # 1. the events of this instant
        while w.bracket[1].time_s == now:
            slot = w.bracket[1].slot
            schedule(w.bracket, slot, _INF)
            if w.slots[slot].phase == _LATENCY:
                push(w.begun, slot)
            elif w.slots[slot].target > 0.0:
                next_run(w, slot, now)
            else:
                push(w.ended, slot)
        # 2. ends, starts and beginnings of work, until nothing more happens at this instant
        while w.ended[0] + w.ready[0] + w.begun[0] > 0:
            while w.ended[0] > 0:
                end_task(w, pop(w.ended), now)
            while w.ready[0] > 0:
                start_task(w, pop(w.ready), now)
            while w.begun[0] > 0:
                begin_work(w, pop(w.begun), now)
        # 3. rates of compute ops beside communication
        while w.touched_compute[0] > 0:
            rate_compute(w, pop(w.touched_compute), now)
        # 4. rates of flows: first all caps, then each component of links and flows that was touched
        clock.mark += 1
        num_seeds = 0
        for i in range(1, w.touched[0] + 1):
            if limit_flow(w, w.touched[i]):
                num_seeds += 1
                w.touched[num_seeds] = w.touched[i]
        w.touched[0] = 0
        for i in range(1, num_seeds + 1):
            if w.slots[w.touched[i]].mark != clock.mark:
                rate_flows(w, w.touched[i], now)
        # 5. on to the next instant
        clock.now_s = w.bracket[1].time_s
    return True
