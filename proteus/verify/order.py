"""The order in which tasks run, and which tasks had surely ended before which."""

from __future__ import annotations

import heapq
import itertools

import numpy as np

from proteus.errors import SimulationError
from proteus.htae.tasks import TaskGraph


def edges(tasks: TaskGraph) -> tuple[list[list[int]], list[int]]:
    """(successors of every task, number of predecessors), streams included."""
    after: list[list[int]] = [[] for _ in range(tasks.num_tasks)]
    count = [0] * tasks.num_tasks
    for task in range(tasks.num_tasks):
        for before in tasks.pred[tasks.pred_ptr[task] : tasks.pred_ptr[task + 1]].tolist():
            after[before].append(task)
            count[task] += 1
    for stream in range(tasks.num_streams):
        run = tasks.stream_task[tasks.stream_ptr[stream] : tasks.stream_ptr[stream + 1]].tolist()
        for before, task in itertools.pairwise(run):
            after[before].append(task)
            count[task] += 1
    return after, count


def run_order(tasks: TaskGraph, start_s: np.ndarray) -> tuple[list[int], list[int]]:
    """Tasks by start (equal starts: as their edges demand, then by number), and their ancestors.

    Returns
    -------
    (order, ancestors)
        Bit ``b`` of ``ancestors[t]`` says that task b always ends before t starts.
    """
    after, count = edges(tasks)
    ancestors = [0] * tasks.num_tasks
    start = start_s.tolist()
    ready = [(start[t], t) for t in range(tasks.num_tasks) if not count[t]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, task = heapq.heappop(ready)
        order.append(task)
        behind = ancestors[task] | (1 << task)
        for later in after[task]:
            ancestors[later] |= behind
            count[later] -= 1
            if not count[later]:
                heapq.heappush(ready, (start[later], later))
    if len(order) < tasks.num_tasks:
        raise SimulationError(f"{tasks.num_tasks - len(order)} tasks wait for one another")
    return order, ancestors
