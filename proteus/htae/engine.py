"""Play a task graph with the compiled kernels: same meaning as the reference, fast."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from proteus.errors import SimulationError
from proteus.htae import kernel
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
    num_tasks, num_streams = graph.num_tasks, graph.num_streams
    succ_ptr, succ = kernel.transpose(graph.pred_ptr, graph.pred, num_tasks)
    on_ptr, on = kernel.transpose(graph.stream_ptr, graph.stream_task, num_tasks)
    num_devices = int(graph.stream_device.max()) + 1 if num_streams else 0
    device_ptr, device_stream = kernel.transpose(
        np.arange(num_streams + 1, dtype=np.int32), graph.stream_device, num_devices
    )
    home, num_slots = kernel.slots_of(on_ptr, on, num_streams)
    run_ptr, run_class, run_left = kernel.runs_of(graph.segment_ptr, graph.segment_work_s, graph.segment_class)
    pattern_ptr, pattern_link, pattern_count, limit_Bps = kernel.private_links(
        home,
        graph.pattern,
        graph.pattern_ptr,
        graph.pattern_link,
        graph.pattern_count,
        graph.link_capacity_Bps,
    )
    start_s, end_s, num_done, rate_task, rate_time_s, rate = kernel.play_columns(
        graph.kind,
        graph.latency_s,
        graph.work,
        graph.release_s,
        kernel.waits_of(graph.pred_ptr, graph.stream_ptr, graph.stream_task),
        succ_ptr,
        succ,
        on_ptr,
        on,
        home,
        graph.stream_ptr,
        graph.stream_task,
        graph.stream_device,
        device_ptr,
        device_stream,
        graph.segment,
        run_ptr,
        run_class,
        run_left,
        graph.pattern,
        pattern_ptr,
        pattern_link,
        pattern_count,
        graph.pattern_cap_Bps,
        limit_Bps,
        kernel.nodes_of(home, num_slots, graph.pattern, pattern_ptr),
        graph.op_class,
        graph.link_capacity_Bps,
        graph.compute_slowdown,
        graph.comm_slowdown,
        record,
    )
    if num_done < num_tasks:
        raise SimulationError(explain_stuck(graph, start_s, end_s, describe))
    cause = kernel.causes_of(
        start_s, end_s, graph.priority, graph.pred_ptr, graph.pred, graph.stream_ptr, graph.stream_task
    )
    return Timeline(
        start_s=start_s, end_s=end_s, cause=cause, rate_task=rate_task, rate_time_s=rate_time_s, rate=rate
    )


def is_warm() -> bool:
    """Whether compiled kernels lie on disk, as new as their source.

    A hint for people: numba itself decides what it can load.
    """
    folder = Path(kernel.play_columns.stats.cache_path or ".")  # type: ignore[attr-defined]
    source = Path(kernel.__file__)
    indexes = folder.glob(f"{source.stem}.play_columns-*.nbi")
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
    is_cold = not kernel.play_columns.signatures and not is_warm()  # type: ignore[attr-defined]
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
