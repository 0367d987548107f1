"""When every rank begins and ends its step, and how long a step of many takes.

A step ends when its last rank does, if the ranks meet there: the norm of the
gradients needs all of them.  Where the optimizer of a rank waits for no other rank
(``Training.overlap_steps``), each rank goes on to the next step when it has
ended its own, so in a run a step takes as long as the rank that is occupied
longest, and not from the first start to the last end::

    rank 0  |FFFF..BBBB|FFFF..BBBB|          the step: |<-------->|
    rank 1     |FFFFBBBB..|FFFFBBBB..|       one alone: from | of rank 0 to the end of rank 1
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proteus.compiler.graph import ExecutionGraph
from proteus.htae.tasks import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """The part of a timeline that is the step of each class of ranks.

    Parameters
    ----------
    begin_s, end_s
        float64[classes].
    last
        int64[classes]: the task with which it ends.
    """

    begin_s: np.ndarray
    end_s: np.ndarray
    last: np.ndarray

    @property
    def longest(self) -> int:
        """The class whose step takes longest."""
        return int((self.end_s - self.begin_s).argmax())

    @property
    def step_time_s(self) -> float:
        """Time from one step of a run to the next [s]."""
        return float((self.end_s - self.begin_s).max())


def windows(graph: ExecutionGraph, timeline: Timeline) -> Windows:
    """The windows of all classes of ranks: the whole timeline, or what each of them takes part in."""
    size = len(graph.classes)
    if not graph.tree.training.overlap_steps:
        task = int(timeline.end_s.argmax()) if len(timeline.end_s) else -1
        return Windows(
            begin_s=np.zeros(size), end_s=np.full(size, timeline.makespan_s), last=np.full(size, task, np.int64)
        )
    tasks = [[rank.task_of] for rank in graph.classes]
    for transfer in graph.transfers:  # both ends take part, once they have ended the step before
        for end in {transfer.source, transfer.target}:
            tasks[end].append(transfer.tasks)
    begin_s, end_s, last = np.zeros(size), np.zeros(size), np.zeros(size, np.int64)
    for number, parts in enumerate(tasks):
        rank_tasks = np.concatenate(parts)
        rank_tasks = rank_tasks[timeline.end_s[rank_tasks] > timeline.start_s[rank_tasks]]
        if len(rank_tasks):
            last[number] = rank_tasks[timeline.end_s[rank_tasks].argmax()]
            begin_s[number], end_s[number] = timeline.start_s[rank_tasks].min(), timeline.end_s[last[number]]
    return Windows(begin_s=begin_s, end_s=end_s, last=last)
