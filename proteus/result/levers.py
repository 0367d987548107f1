"""What would a better machine buy?  The same tasks, played again with one resource improved.

The strategy and the algorithms stay; only capacities, speeds or launches
change.  So a lever says how much a resource limits the step, not what a
newer machine would choose to do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from proteus.cluster.kinds import LinkKind
from proteus.compiler.graph import ExecutionGraph
from proteus.compiler.kinds import SpanKind
from proteus.htae.engine import play
from proteus.htae.tasks import TaskGraph
from proteus.progress import Progress
from proteus.result.windows import windows

#: how much better a resource becomes
FACTOR = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """A resource, improved, and the step that it would give [s]."""

    label: str
    step_time_s: float
    gain_s: float
    note: str = ""


def levers(graph: ExecutionGraph, step_time_s: float, progress: Progress | None = None) -> tuple[Lever, ...]:
    """The step on better machines, the most useful first."""
    tasks = graph.tasks
    improved = [
        ("compute twice as fast", faster_compute(graph), "every kernel takes half the time"),
        ("no launch overhead", without_launches(graph), "the device never waits for the host"),
        ("no communication latency", without_latency(tasks), "only the bytes of collectives take time"),
        ("no overlap slow-down", without_overlap(tasks), "compute and communication do not slow each other down"),
    ]
    if any(row.span == SpanKind.RECOMPUTE for row in graph.op_rows):
        improved.append(
            ("memory for all activations", without_recompute(graph), "no recomputation in the backward pass")
        )
    kinds = graph.cluster.link_kind[graph.folding.link_first]
    for kind in LinkKind:
        if (kinds == kind).any():
            name = kind.name.lower().replace("_", " ")
            improved.append(
                (
                    f"{name} links twice as fast",
                    faster_links(tasks, kinds == kind),
                    "twice the capacity, and flows that can use it",
                )
            )
    helpful = []
    for label, better, note in improved:
        took_s = windows(graph, play(better, record=False, progress=progress)).step_time_s
        helpful.append(Lever(label=label, step_time_s=took_s, gain_s=step_time_s - took_s, note=note))
    return tuple(sorted(helpful, key=lambda lever: (-lever.gain_s, lever.label)))


def faster_compute(graph: ExecutionGraph, factor: float = FACTOR) -> TaskGraph:
    """Every kernel takes ``1 / factor`` of its time."""
    work_s = graph.tasks.segment_work_s
    return _with_work(graph.tasks, np.where(graph.op_wait_s > 0, work_s, work_s / factor))


def without_launches(graph: ExecutionGraph) -> TaskGraph:
    """Everything was launched before the step began."""
    tasks = _with_work(graph.tasks, np.where(graph.op_wait_s > 0, 0.0, graph.tasks.segment_work_s))
    return replace(tasks, release_s=np.zeros_like(tasks.release_s))


def without_recompute(graph: ExecutionGraph) -> TaskGraph:
    """The ops that are computed again take no time; their communication stays."""
    tasks = graph.tasks
    again = np.array([row.span == SpanKind.RECOMPUTE for row in graph.op_rows], bool)
    return _with_work(tasks, np.where(again, 0.0, tasks.segment_work_s))


def _with_work(tasks: TaskGraph, work_s: np.ndarray) -> TaskGraph:
    """The same tasks with `work_s` for the ops of their segments."""
    total_s = np.add.reduceat(work_s, tasks.segment_ptr[:-1])
    work = np.where(tasks.segment >= 0, total_s[tasks.segment], tasks.work)
    return replace(tasks, segment_work_s=work_s, work=work)


def without_latency(tasks: TaskGraph) -> TaskGraph:
    """Communication without its fixed part."""
    return replace(tasks, latency_s=np.zeros_like(tasks.latency_s))


def without_overlap(tasks: TaskGraph) -> TaskGraph:
    """Compute and communication do not slow each other."""
    return replace(
        tasks,
        compute_slowdown=np.zeros_like(tasks.compute_slowdown),
        comm_slowdown=np.zeros_like(tasks.comm_slowdown),
    )


def faster_links(tasks: TaskGraph, is_faster: np.ndarray, factor: float = FACTOR) -> TaskGraph:
    """The links `is_faster` carry `factor` times as much.

    The cap of a flow stands for its protocol's share of the links that limit
    it; it grows where the narrowest link of the flow is a faster one.
    """
    capacity = np.where(is_faster, tasks.link_capacity_Bps * factor, tasks.link_capacity_Bps)
    cap = tasks.pattern_cap_Bps.copy()
    for pattern in range(len(cap)):
        rows = slice(tasks.pattern_ptr[pattern], tasks.pattern_ptr[pattern + 1])
        links = tasks.pattern_link[rows]
        if len(links) and is_faster[links[np.argmin(tasks.link_capacity_Bps[links] / tasks.pattern_count[rows])]]:
            cap[pattern] *= factor
    return replace(tasks, link_capacity_Bps=capacity, pattern_cap_Bps=cap)
