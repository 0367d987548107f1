"""The records that the kernel plays on.

A task graph comes in columns, which are good to fill and to look at.  The play
touches all that belongs to one task at once, so here it lies in one record of
64 bytes, one line of the processor's cache.  What runs lives in *slots*: a task
runs in the slot of the first stream it stands in, so there are as many slots as
streams, and few tasks that stand in none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from proteus.htae.columns import slots_of, transpose
from proteus.htae.compiled import jit, quick
from proteus.htae.patterns import deciding_rows
from proteus.htae.records import record
from proteus.htae.tasks import TaskGraph, TaskKind

_INF = np.inf
_COMPUTE, _HOST = int(TaskKind.COMPUTE), int(TaskKind.HOST)

#: ``start_s`` is the release until the task starts; ``row`` the segment or the pattern;
#: ``on:on_end`` are its rows in the list of streams, ``succ:succ_end`` of successors
TASK = record(f8="work latency_s start_s end_s", i4="waits home row on on_end succ succ_end", i2="op_class", u1="kind")
#: ``left`` is the work left at ``since_s``; the event is when it has fallen to ``target``: its
#: end, or the end of a run of ops; ``rate`` is 0 while none was set yet; ``node`` is its first node
SLOT = record(f8="left since_s rate target cap_Bps", i4="task run pattern node mark", i2="op_class", u1="phase stale")
#: ``head`` is the first node of the list of its flows; the rest is scratch of the solver
LINK = record(f8="capacity_Bps left_Bps share_Bps", i8="weight taken", i4="head mark")
NODE = record(i4="next prev slot")
RUN = record(f8="left_s", i8="op_class")
#: ``runs`` is the slot whose work goes on there and can slow or be slowed, or -1
STREAM = record(i4="device place end runs")
DEVICE = record(i4="first end flows computes")
MATCH = record(f8="time_s", i8="slot")
ENTRY = record(f8="time_s rate", i8="task")
CLOCK = record(f8="now_s", i8="log_size", i4="mark")


class World(NamedTuple):
    """Everything the play reads and writes, so that its steps can be functions of one argument."""

    tasks: np.ndarray  # TASK
    slots: np.ndarray  # SLOT
    streams: np.ndarray  # STREAM
    devices: np.ndarray  # DEVICE
    links: np.ndarray  # LINK
    nodes: np.ndarray  # NODE: the flows of each link, as linked lists; a slot owns those from its `node` on
    patterns: np.ndarray  # PATTERN
    rows: np.ndarray  # ROW: the links of the patterns
    first_run: np.ndarray  # int32[segments]
    runs: np.ndarray  # RUN
    on: np.ndarray  # int32: the streams of every task
    succ: np.ndarray  # int32: the tasks that wait for every task
    stream_task: np.ndarray  # int32: the tasks of every stream
    device_stream: np.ndarray  # int32: the streams of every device
    interacts: np.ndarray  # bool[comm classes]: whether it slows compute or is slowed by it
    compute_slowdown: np.ndarray  # float64[compute classes, comm classes]
    comm_slowdown: np.ndarray  # float64[comm classes, compute classes]
    beside: np.ndarray  # int32[slots, compute classes]: how many ops of each class run beside a flow
    ready: np.ndarray  # stack of tasks that can start
    begun: np.ndarray  # stack of slots whose latency has passed
    ended: np.ndarray  # stack of slots whose task is over
    touched: np.ndarray  # stack of slots: flows whose rate may change
    touched_compute: np.ndarray  # stack of slots: compute ops whose rate may change
    members: np.ndarray  # int32[slots]: scratch of the solver
    found: np.ndarray  # int32[links]: scratch of the solver
    fair_Bps: np.ndarray  # float64[slots]: what the solver found
    bracket: np.ndarray  # MATCH: the tournament, its leaves in the second half
    log: np.ndarray  # ENTRY
    clock: np.ndarray  # CLOCK, one record: where the play stands
    signal: np.ndarray  # int64: of :class:`proteus.progress.Progress`, which other threads read and write


def build_world(graph: TaskGraph, record: bool, signal: np.ndarray) -> World:
    """The records that the kernel plays on, at time zero."""
    num_streams, num_links = graph.num_streams, len(graph.link_capacity_Bps)
    num_devices = int(graph.stream_device.max()) + 1 if num_streams else 0
    succ_ptr, succ = transpose(graph.pred_ptr, graph.pred, graph.num_tasks)
    on_ptr, on = transpose(graph.stream_ptr, graph.stream_task, graph.num_tasks)
    device_ptr, device_stream = transpose(np.arange(num_streams + 1, dtype=np.int32), graph.stream_device, num_devices)
    home, num_slots = slots_of(on_ptr, on, num_streams)
    first_run, runs = runs_of(graph.segment_ptr, graph.segment_work_s, graph.segment_class)
    patterns, rows = deciding_rows(graph, home)
    tasks = np.empty(graph.num_tasks, TASK)  # numpy takes huge pages, which numba does not
    fill_tasks(
        tasks,
        graph.kind,
        graph.latency_s,
        graph.work,
        graph.release_s,
        graph.segment,
        graph.pattern,
        graph.op_class,
        home,
        graph.pred_ptr,
        graph.stream_ptr,
        graph.stream_task,
        on_ptr,
        succ_ptr,
    )
    slots, nodes = slot_records(num_slots, tasks, patterns)
    streams = np.zeros(num_streams, STREAM)
    streams["device"], streams["runs"] = graph.stream_device, -1
    streams["place"], streams["end"] = graph.stream_ptr[:-1], graph.stream_ptr[1:]
    devices = np.zeros(num_devices, DEVICE)
    devices["first"], devices["end"] = device_ptr[:-1], device_ptr[1:]
    links = np.zeros(num_links, LINK)
    links["capacity_Bps"], links["head"] = graph.link_capacity_Bps, -1
    return World(
        tasks=tasks,
        slots=slots,
        streams=streams,
        devices=devices,
        links=links,
        nodes=nodes,
        patterns=patterns,
        rows=rows,
        first_run=first_run,
        runs=runs,
        on=on,
        succ=succ,
        stream_task=graph.stream_task,
        device_stream=device_stream,
        interacts=np.any((graph.comm_slowdown > 0) | (graph.compute_slowdown.T > 0), axis=1),
        compute_slowdown=graph.compute_slowdown,
        comm_slowdown=graph.comm_slowdown,
        beside=np.zeros((num_slots, graph.comm_slowdown.shape[1]), np.int32),
        ready=stack(np.flatnonzero(tasks["waits"] == 0), num_slots),
        begun=stack((), num_slots),
        ended=stack((), num_slots),
        touched=stack((), num_slots),
        touched_compute=stack((), num_slots),
        members=np.empty(num_slots, np.int32),
        found=np.empty(num_links, np.int32),
        fair_Bps=np.zeros(num_slots),
        bracket=empty_bracket(num_slots),
        log=np.empty(2 * num_slots + 1024 if record else 0, ENTRY),
        clock=np.zeros(1, CLOCK),
        signal=signal,
    )


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


@quick
def fill_tasks(
    tasks: np.ndarray,
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
) -> None:
    """Put the columns of each task side by side; ``waits`` counts its predecessors and those before it in streams."""
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


def stack(values: Sequence[int] | np.ndarray, size: int) -> np.ndarray:
    """A stack keeps its size in its first element."""
    out = np.zeros(size + 1, np.int32)
    out[0] = len(values)
    out[1 : 1 + len(values)] = values
    return out


def empty_bracket(num_slots: int) -> np.ndarray:
    """A tournament without events."""
    half = 1 << max(0, num_slots - 1).bit_length()
    bracket = np.zeros(2 * half, MATCH)
    bracket["time_s"] = _INF
    bracket["slot"][half:] = np.arange(half)
    while half > 1:  # of two that have none, the first one wins
        half //= 2
        bracket["slot"][half : 2 * half] = bracket["slot"][2 * half : 4 * half : 2]
    return bracket
