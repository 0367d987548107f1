"""Play a task graph with the compiled kernels: same meaning as the reference, fast."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from proteus.errors import SimulationError
from proteus.htae import columns, kernel
from proteus.htae.build import GraphBuilder
from proteus.htae.tasks import TaskGraph, Timeline
from proteus.htae.validate import explain_stuck, validate
from proteus.htae.world import build_world
from proteus.progress import Progress

#: the compiled function with what numba knows of it
_dispatcher: Any = kernel.play_world


def play(
    graph: TaskGraph,
    record: bool = True,
    *,
    describe: Callable[[int], str] = str,
    progress: Progress | None = None,
) -> Timeline:
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
    progress
        Is told how many tasks have ended, and may stop the play.

    Raises
    ------
    SimulationError
        The graph is malformed, or it cannot finish; the message names the
        tasks that wait for each other.
    Stopped
        It was stopped by `progress`.

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
    progress = progress or Progress()
    progress.check()
    progress.begin(graph.num_tasks)
    world = build_world(graph, record, progress.signal)
    while not kernel.play_world(world):
        log = np.empty(2 * len(world.log), world.log.dtype)
        log[: len(world.log)] = world.log
        world = world._replace(log=log)
    progress.check()
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


def is_warm() -> bool:
    """Whether compiled kernels lie on disk, as new as their source.

    A hint for people: numba itself decides what it can load.
    """
    folder = Path(_dispatcher.stats.cache_path or ".")
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
    is_cold = not _dispatcher.signatures and not is_warm()
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
