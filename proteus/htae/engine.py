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
    world = build_world(graph, record)
    while not kernel.play_world(world):
        log = np.empty(2 * len(world.log), kernel.ENTRY)
        log[: len(world.log)] = world.log
        world = world._replace(log=log)
    start_s, end_s = world.tasks["start_s"].copy(), world.tasks["end_s"].copy()
    if not end_s.max(initial=0.0) < np.inf:
        raise SimulationError(explain_stuck(graph, world.tasks["waits"] == 0, end_s, describe))
    cause = columns.causes_of(
        start_s, end_s, graph.priority, graph.pred_ptr, graph.pred, graph.stream_ptr, graph.stream_task
    )
    log = world.log[: world.clock[0]["log_size"]]
    return Timeline(
        start_s=start_s,
        end_s=end_s,
        cause=cause,
        rate_task=log["task"].astype(np.int32),
        rate_time_s=log["time_s"].copy(),
        rate=log["rate"].copy(),
    )


def build_world(graph: TaskGraph, record: bool) -> kernel.World:
    """The records that the kernel plays on, at time zero."""
    num_streams, num_links = graph.num_streams, len(graph.link_capacity_Bps)
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
    streams = np.zeros(num_streams, kernel.STREAM)
    streams["device"], streams["runs"] = graph.stream_device, -1
    streams["place"], streams["end"] = graph.stream_ptr[:-1], graph.stream_ptr[1:]
    devices = np.zeros(num_devices, kernel.DEVICE)
    devices["first"], devices["end"] = device_ptr[:-1], device_ptr[1:]
    links = np.zeros(num_links, kernel.LINK)
    links["capacity_Bps"], links["head"] = graph.link_capacity_Bps, -1
    return kernel.World(
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
        interacts=(graph.comm_slowdown > 0).any(axis=1) | (graph.compute_slowdown > 0).any(axis=0),
        compute_slowdown=graph.compute_slowdown,
        comm_slowdown=graph.comm_slowdown,
        beside=np.zeros((num_slots, graph.comm_slowdown.shape[1]), np.int32),
        ready=kernel.stack(np.flatnonzero(tasks["waits"] == 0), num_slots),
        begun=kernel.stack((), num_slots),
        ended=kernel.stack((), num_slots),
        touched=kernel.stack((), num_slots),
        touched_compute=kernel.stack((), num_slots),
        members=np.empty(num_slots, np.int32),
        found=np.empty(num_links, np.int32),
        fair_Bps=np.zeros(num_slots),
        bracket=kernel.empty_bracket(num_slots),
        log=np.empty(2 * num_slots + 1024 if record else 0, kernel.ENTRY),
        clock=np.zeros(1, kernel.CLOCK),
    )


def is_warm() -> bool:
    """Whether compiled kernels lie on disk, as new as their source.

    A hint for people: numba itself decides what it can load.
    """
    folder = Path(kernel.play_world.stats.cache_path or ".")
    source = Path(kernel.__file__)
    indexes = folder.glob(f"{source.stem}.play_world-*.nbi")
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
    is_cold = not kernel.play_world.signatures and not is_warm()
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
