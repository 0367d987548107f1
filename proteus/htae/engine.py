"""Play a task graph with the compiled kernels: same meaning as the reference, fast."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from proteus.errors import SimulationError
from proteus.htae import columns, kernel
from proteus.htae.build import GraphBuilder
from proteus.htae.tasks import TaskGraph, Timeline
from proteus.htae.validate import explain_stuck, validate


def play(graph: TaskGraph, record: bool = True, *, describe: Callable[[int], str] = str) -> Timeline:
    """Play all tasks of `graph` and return when each ran.

    Parameters
    ----------
    graph
        The tasks.
    record
        Keep the log of rates, which :mod:`proteus.htae.segments` and
        :mod:`proteus.htae.usage` read.  A run without it is faster.
    describe
        Names a task in the message of an error.

    Raises
    ------
    SimulationError
        The graph is malformed, or it cannot finish; the message names the
        tasks that wait for each other.

    Examples
    --------
    Two rings of 12 bytes share a NIC of 12 B/s, so each has half of it:

    >>> builder = GraphBuilder(capacity_Bps=[12.0])
    >>> for device in range(2):
    ...     _ = builder.comm(12.0, links={0: 1}, streams=[builder.stream(device)])
    >>> play(builder.graph()).end_s.tolist()
    [2.0, 2.0]
    """
    validate(graph, describe)
    num_streams = graph.num_streams
    num_devices = int(graph.stream_device.max()) + 1 if num_streams else 0
    succ_ptr, succ = columns.transpose(graph.pred_ptr, graph.pred, graph.num_tasks)
    on_ptr, on = columns.transpose(graph.stream_ptr, graph.stream_task, graph.num_tasks)
    device_ptr, device_stream = columns.transpose(
        np.arange(num_streams + 1, dtype=np.int32), graph.stream_device, num_devices
    )
    home, num_slots = columns.slots_of(on_ptr, on, num_streams)
    first_run, runs = kernel.runs_of(graph.segment_ptr, graph.segment_work_s, graph.segment_class)
    patterns, rows = kernel.shared_rows(
        home,
        graph.pattern,
        graph.pattern_ptr,
        graph.pattern_link,
        graph.pattern_count,
        graph.pattern_cap_Bps,
        graph.link_capacity_Bps,
    )
    tasks = kernel.task_records(
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
    slots, nodes = kernel.slot_records(num_slots, tasks, patterns)
    log = kernel.play_records(
        tasks,
        slots,
        nodes,
        patterns,
        rows,
        first_run,
        runs,
        succ,
        on,
        graph.stream_ptr,
        graph.stream_task,
        graph.stream_device,
        device_ptr,
        device_stream,
        graph.link_capacity_Bps,
        graph.compute_slowdown,
        graph.comm_slowdown,
        record,
    )
    start_s, end_s = tasks["start_s"].copy(), tasks["end_s"].copy()
    if not end_s.max(initial=0.0) < np.inf:
        raise SimulationError(explain_stuck(graph, tasks["waits"] == 0, end_s, describe))
    cause = columns.causes_of(
        start_s, end_s, graph.priority, graph.pred_ptr, graph.pred, graph.stream_ptr, graph.stream_task
    )
    return Timeline(
        start_s=start_s,
        end_s=end_s,
        cause=cause,
        rate_task=log["task"].astype(np.int32),
        rate_time_s=log["time_s"].copy(),
        rate=log["rate"].copy(),
    )


def is_warm() -> bool:
    """Whether compiled kernels lie on disk, as new as their source.

    A hint for people: numba itself decides what it can load.
    """
    folder = Path(kernel.play_records.stats.cache_path or ".")
    source = Path(kernel.__file__)
    indexes = folder.glob(f"{source.stem}.play_records-*.nbi")
    return any(index.stat().st_mtime >= source.stat().st_mtime for index in indexes)


def warm_up(announce: Callable[[str], None] | None = None) -> float:
    """Compile the kernels, or load them from disk, by playing two tasks.

    Parameters
    ----------
    announce
        Called with a sentence before a compilation that takes seconds, and
        with another after it; not called when the kernels lie on disk.

    Returns
    -------
    float
        How long it took [s].
    """
    is_cold = not kernel.play_records.signatures and not is_warm()
    if is_cold and announce:
        announce("compiling the engine, once for this installation (about ten seconds) ...")
    begin_s = time.perf_counter()
    builder = GraphBuilder(capacity_Bps=[1.0])
    stream = builder.stream(0)
    builder.compute(1.0, stream)
    builder.comm(1.0, links={0: 1}, streams=[stream])
    play(builder.graph())
    took_s = time.perf_counter() - begin_s
    if is_cold and announce:
        announce(f"compiled in {took_s:.1f} s; later runs load it from disk")
    return took_s
