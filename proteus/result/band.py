"""The uncertainty of a predicted step time, from the error seen in predictions of its parts.

The step is as long as its critical path, so an error is weighted by its time
there.  A curve has two kinds of error: one that all its kernels share, because
sources of measurements differ, and one per kernel, because shapes differ.  All
collectives of a family of links share one error.  Errors of different curves
and families of links are independent::

    together   = sum over ops on the path of time x shared sigma
    by itself  = sum over ops on the path of (time x own sigma)**2, an op of all layers counting as one
    sigma**2   = sum over families of (together**2 + by itself) / step**2 + whole-step error**2

Every error is a standard deviation of a logarithm.  The whole-step error is
what the other parts do not explain in published runs: a framework or a machine
that differs from what was assumed.  This is a first-order estimate: hidden
communication is not counted, even where a slower network would expose it.

Source: the numbers are those of :mod:`proteus.costs.residuals`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import NormalDist

import numpy as np

from proteus.compiler.graph import ExecutionGraph
from proteus.costs import residuals
from proteus.costs.ops import MEASURED_SIGMA
from proteus.costs.overlap import ComputeClass, compute_class
from proteus.costs.residuals import StepKind
from proteus.hardware import Gpu
from proteus.htae.tasks import Timeline
from proteus.model.graph import Model, OpKind
from proteus.result.path import chain_of_causes
from proteus.result.switches import Switch
from proteus.result.windows import Windows
from proteus.units import format_seconds

#: share of measured steps that a band is expected to hold
SHARE = 0.8
#: half the width of the band over the standard deviation
HALF = NormalDist().inv_cdf(0.5 + SHARE / 2.0)
#: parts below this are not shown
MIN_TOLD = 0.005
#: names of the parts that are neither a curve nor a family of links
HOST, WHOLE = "host", "whole step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The range expected to hold 80 % of measured step times.

    Parameters
    ----------
    low_s, high_s
        Its ends [s].
    sigma
        Standard deviation of the logarithm of the step time.
    parts
        `sigma` by source: a class of kernels, a family of links, ``host``,
        ``whole step``.  They add up in quadrature.
    borrowed
        Classes of kernels whose curve is another chip's or dtype's.
    switches
        Switches that neither plan nor framework decides: the band covers both settings.
    """

    low_s: float
    high_s: float
    sigma: float
    parts: Mapping[str, float] = field(default_factory=dict)
    borrowed: tuple[str, ...] = ()
    switches: tuple[Switch, ...] = ()

    @property
    def ends(self) -> str:
        """Both ends for people.

        >>> Band(low_s=0.0612345, high_s=0.0812345, sigma=0.11).ends
        '61.2 ms to 81.2 ms'
        """
        return " to ".join(format_seconds(float(f"{end_s:.3g}")) for end_s in (self.low_s, self.high_s))

    @property
    def reasons(self) -> str:
        """The main uncertainties, for people, the largest first.

        >>> Band(low_s=1.0, high_s=2.0, sigma=0.1, parts={"whole step": 0.08, "gemm": 0.06, "host": 0.001}).reasons
        'whole step 8%, gemm 6%'
        """
        return ", ".join(f"{name} {part:.0%}" for name, part in self.parts.items() if part >= MIN_TOLD)

    def __str__(self) -> str:
        text = f"{self.ends} ({100 * SHARE:.0f} % range)"
        if self.borrowed:
            text = f"{text}; curves of another chip or dtype: {', '.join(self.borrowed)}"
        return f"{text}; undecided: {', '.join(switch.name for switch in self.switches)}" if self.switches else text

    def holding(self, switches: tuple[Switch, ...], step_s: float) -> Band:
        """The band that covers both settings of these switches; their errors add up in quadrature."""
        worth = [switch.worth(step_s) for switch in switches]
        up, down = (math.hypot(*(max(sign * one, 0.0) for one in worth)) for sign in (1.0, -1.0))
        low, high = math.log(step_s / self.low_s), math.log(self.high_s / step_s)
        return replace(
            self,
            low_s=step_s * math.exp(-math.hypot(low, down)),
            high_s=step_s * math.exp(math.hypot(high, up)),
            switches=switches,
        )


def step_kind(model: Model) -> StepKind:
    """What the whole-step error depends on."""
    kinds = {op.kind for block in model.blocks for op in block.ops}
    if OpKind.DISPATCH in kinds:
        return StepKind.EXPERTS
    return StepKind.TRANSFORMER if OpKind.ATTENTION in kinds else StepKind.OTHER


def step_time_band(graph: ExecutionGraph, timeline: Timeline, windows: Windows) -> Band:
    """The band of the step time of a timeline."""
    step_s = windows.step_time_s
    parts = path_parts(graph, timeline, windows) if step_s else {}
    classes = {compute_class(row.family).name.lower() for row in graph.borrowed}
    parts[WHOLE] = residuals.step_sigma(step_kind(graph.tree.model))
    if graph.calibration is not None and graph.calibration.is_from_steps:
        share = residuals.calibrated_share()
        parts = {name: part * share for name, part in parts.items()}
    sigma = math.hypot(*parts.values())
    return Band(
        low_s=step_s * math.exp(-HALF * sigma),
        high_s=step_s * math.exp(HALF * sigma),
        sigma=sigma,
        parts=dict(sorted(parts.items(), key=lambda item: -item[1])),
        borrowed=tuple(sorted(name for name in classes if any(part.split(" on ")[0] == name for part in parts))),
    )


def path_parts(graph: ExecutionGraph, timeline: Timeline, windows: Windows) -> dict[str, float]:
    """Error of the critical path per class of kernels, family of links and host, as a logarithm."""
    tasks = graph.tasks
    chain, begin_s = chain_of_causes(timeline, windows), float(windows.begin_s[windows.longest])
    start_s = np.maximum(timeline.start_s[chain], begin_s)
    spent_s = timeline.end_s[chain] - start_s
    # one bin before the first for tasks of the other kind
    in_segment_s = np.bincount(tasks.segment[chain] + 1, spent_s, 1 + len(graph.segment_is_held))[1:]
    off_s = _curves_off_s(graph, np.where(graph.segment_is_held, 0.0, in_segment_s))

    row, sigma, links = _communications(graph)
    in_row_s = np.bincount(row[chain] + 1, spent_s, 1 + len(sigma))[1:]
    for name, one_s in zip(links, (in_row_s * sigma).tolist(), strict=True):
        off_s[name] = off_s.get(name, 0.0) + one_s

    launch_s = float(start_s[0]) - begin_s  # before the first task of the path
    is_measured = graph.calibration is not None and graph.calibration.has_host
    host_sigma = MEASURED_SIGMA if is_measured else residuals.host_sigma()
    wait_s = np.add.reduceat(graph.op_wait_s, tasks.segment_ptr[:-1])
    times = np.bincount(tasks.segment[chain] + 1, None, 1 + len(wait_s))[1:]
    held_s = np.where(graph.segment_is_held, in_segment_s, wait_s * times)
    off_s[HOST] = host_sigma * (launch_s + float(held_s.sum()))
    return {name: one_s / windows.step_time_s for name, one_s in off_s.items() if one_s > 0.0}


def _curves_off_s(graph: ExecutionGraph, in_segment_s: np.ndarray) -> dict[str, float]:
    """Error of the time in segments per class of kernels, from its curve [s]."""
    tasks = graph.tasks
    segments = np.flatnonzero(in_segment_s)
    if not len(segments):
        return {}
    first, counts = tasks.segment_ptr[segments], np.diff(tasks.segment_ptr)[segments]
    starts = np.cumsum(counts) - counts
    ops = np.repeat(first - starts, counts) + np.arange(int(counts.sum()))
    work_s = tasks.segment_work_s[ops]
    pace = in_segment_s[segments] / np.add.reduceat(work_s, starts)
    time_s = work_s * np.repeat(pace, counts)
    off_s = graph.op_sigma[ops] * time_s[:, None, None]

    of_op: dict[tuple[object, ...], int] = {}
    kinds = {graph.cluster.gpu(rank.device) for rank in graph.classes}
    gpu = _gpu_of(graph)[segments] if len(kinds) > 1 else np.zeros(len(segments), np.int64)
    rows = [graph.op_rows[op] for op in ops.tolist()]
    label = np.array([of_op.setdefault((row.node, row.span), len(of_op)) for row in rows])
    off_s_by_curve = {}
    for number in np.unique(gpu).tolist():
        mine = np.repeat(gpu == number, counts)
        suffix = f" on {graph.cluster.gpu(number).name}" if len(kinds) > 1 else ""
        for kind in ComputeClass:
            together_s = float(off_s[mine, 0, kind].sum())
            alone_s = np.bincount(label[mine], off_s[mine, 1, kind])
            off_s_by_curve[kind.name.lower() + suffix] = math.hypot(together_s, float(np.linalg.norm(alone_s)))
    return off_s_by_curve


def _gpu_of(graph: ExecutionGraph) -> np.ndarray:
    """int64[segments]: the first device with the kind of GPU that runs a segment."""
    first: dict[Gpu, int] = {}
    device_of_segment = np.zeros(len(graph.segment_is_held), np.int64)
    for rank in graph.classes:
        stop = rank.segment_base + len(graph.plans[rank.plan].segments)
        device_of_segment[rank.segment_base : stop] = first.setdefault(graph.cluster.gpu(rank.device), rank.device)
    return device_of_segment


def _communications(graph: ExecutionGraph) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """int32[tasks]: the row of each communication, -1 for computations; sigma and links of the rows, sends last."""
    row = np.full(graph.tasks.num_tasks, -1, np.int32)
    for rank in graph.classes:
        plan = graph.plans[rank.plan]
        row[rank.task_of] = np.where(plan.is_comm, plan.ref, -1)
    for number, transfer in enumerate(graph.transfers, start=len(graph.comm_rows)):
        row[transfer.tasks] = number
    sigma = np.concatenate([graph.comm_sigma, [transfer.sigma for transfer in graph.transfers]])
    return row, sigma, (*graph.comm_links, *(transfer.links for transfer in graph.transfers))
