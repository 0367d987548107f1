"""Where the ops inside segments began and ended.

The engine plays a run of compute ops as one task.  Afterwards its rate is
known at every time, so the boundaries are found by inverting the work done
over time, which is piecewise linear.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proteus.htae.tasks import TaskGraph, Timeline


class OpBounds(NamedTuple):
    """Columns of ops, sorted by task and then in program order.

    ``task`` int32, ``op`` int32 (place inside the segment), ``start_s`` and
    ``end_s`` float64.  The row of op ``i`` in ``segment_work_s`` is
    ``segment_ptr[segment[task[i]]] + op[i]``.
    """

    task: np.ndarray
    op: np.ndarray
    start_s: np.ndarray
    end_s: np.ndarray


def op_bounds(graph: TaskGraph, timeline: Timeline) -> OpBounds:
    """Start and end of every op of every segment.

    Parameters
    ----------
    graph, timeline
        A graph and its timeline, played with ``record=True``.

    Returns
    -------
    OpBounds
        One row per op of every task with a segment.

    Examples
    --------
    Two ops of 1 s; from 0.5 s on the device computes at half speed for 2 s:

    >>> from proteus.htae.build import GraphBuilder
    >>> from proteus.htae.engine import play
    >>> builder = GraphBuilder([10.0], compute_slowdown=[[1.0]], comm_slowdown=[[0.0]])
    >>> task = builder.segment([(0, 1.0), (0, 1.0)], builder.stream(0))
    >>> _ = builder.comm(20.0, links={0: 1}, streams=[builder.stream(0)], latency_s=0.5)
    >>> graph = builder.graph()
    >>> bounds = op_bounds(graph, play(graph))
    >>> bounds.start_s.tolist(), bounds.end_s.tolist()
    ([0.0, 1.5], [1.5, 3.0])
    """
    from proteus.htae import columns  # numba takes long to import

    tasks = np.flatnonzero(graph.segment >= 0).astype(np.int32)
    rows = np.flatnonzero(graph.segment[timeline.rate_task] >= 0)
    rows = rows[np.argsort(timeline.rate_task[rows], kind="stable")]
    segment = graph.segment[tasks]
    ends = np.searchsorted(timeline.rate_task[rows], tasks, side="right")
    num_ops = int((graph.segment_ptr[segment + 1] - graph.segment_ptr[segment]).sum())
    placed = columns.place_ops(
        tasks,
        timeline.start_s[tasks] + graph.latency_s[tasks],
        timeline.end_s[tasks],
        segment,
        graph.segment_ptr,
        graph.segment_work_s,
        np.concatenate(([0], ends)),
        timeline.rate_time_s[rows],
        timeline.rate[rows],
        num_ops,
    )
    return OpBounds(*placed)
