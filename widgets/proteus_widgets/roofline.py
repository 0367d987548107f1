"""The operators of a result against the roof of their GPU.

Williams, Waterman, Patterson, "Roofline: an insightful visual performance
model for multicore architectures" (CACM 52(4), 2009): an operator with so
many FLOP per byte of memory traffic cannot be faster than the smaller of the
GPU's peak and of that intensity times its memory bandwidth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from proteus.compiler.chain import op_sizes
from proteus.compiler.price import PHASE_OF
from proteus.compiler.program import Compute
from proteus.compiler.tables import OpRow
from proteus.costs import precision as precisions
from proteus.costs.lower import works
from proteus.costs.ops import OpCosts
from proteus.costs.work import Work
from proteus.result.spans import SpanKind

if TYPE_CHECKING:
    from proteus.result.result import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """An operator, all its runs on the shown devices together.

    `intensity` in FLOP per byte, `flops` in FLOP/s, `share` of all compute time.
    """

    name: str
    kind: SpanKind
    intensity: float
    flops: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Points below the roof of one GPU; operators without products are left out."""

    points: tuple[Point, ...]
    gpu: str
    peak_flops: float
    memory_Bps: float


def _runs(result: Result) -> np.ndarray:
    """float64[op rows]: how often each row of the segment table runs, all ranks counted."""
    graph = result.graph
    runs = np.zeros(len(graph.tasks.segment_ptr) - 1)
    for rank in graph.classes:
        mine = rank.task_of[~graph.plans[rank.plan].is_comm]
        runs += rank.multiplicity * np.bincount(graph.tasks.segment[mine], minlength=len(runs))
    return np.repeat(runs, np.diff(graph.tasks.segment_ptr))


def roofline(result: Result) -> Roofline:
    """The operators of `result`, by name and pass."""
    graph, training = result.graph, result.tree.training
    framework = graph.frameworks[result.cluster.gpu(0).name]
    precision = precisions.kept_by(framework, training.precision)
    seen: dict[int, tuple[Work, ...]] = {}

    def kernels(row: OpRow) -> tuple[Work, ...]:
        """What the row runs on the first rank."""
        instruction, program = row.instruction, row.program
        if program is None or not isinstance(instruction, Compute):
            return row.kernels
        if id(instruction) not in seen:
            sizes = op_sizes(program, instruction.op, instruction.cut, (0,) * len(program.mesh.shape))
            seen[id(instruction)] = works(instruction.op, sizes, PHASE_OF[instruction.phase], precision, framework)
        return seen[id(instruction)]

    runs, work_s = _runs(result), graph.tasks.segment_work_s
    totals: dict[tuple[str, SpanKind], np.ndarray] = {}
    for at in np.flatnonzero((graph.op_flop > 0) & (work_s > 0) & (runs > 0)).tolist():
        row = graph.op_rows[at]
        moved_bytes = row.share * sum(work.bytes for work in kernels(row))
        key = (row.name, SpanKind(row.span))
        totals[key] = totals.get(key, np.zeros(3)) + runs[at] * np.array([graph.op_flop[at], moved_bytes, work_s[at]])
    gpu = result.cluster.gpu(0)
    all_s = float((runs * work_s).sum())
    points = tuple(
        Point(name=name, kind=kind, intensity=flop / moved, flops=flop / time_s, share=time_s / all_s)
        for (name, kind), (flop, moved, time_s) in totals.items()
        if moved > 0
    )
    return Roofline(
        points=points, gpu=gpu.name, peak_flops=OpCosts(gpu).peak(training.precision), memory_Bps=gpu.memory_Bps
    )
