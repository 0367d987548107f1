"""The ladder from ideal compute to the step time.

Every rung is a mean over all devices (each counted as often as it stands for
others), because what the model asks of the machine is a sum over devices.
Idle time is the exception that makes the ladder tell stages from schedule::

    uneven stages     what the mean device idles more than the busiest one
    pipeline bubble   what the busiest device idles for the pipeline

so a pipeline of equal stages has only a bubble, which is the schedule's.  The
rungs add up to the step time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from proteus.compiler.kinds import SpanKind
from proteus.costs.ops import OpCosts
from proteus.costs.overlap import ComputeClass

if TYPE_CHECKING:
    from proteus.result.result import Result

#: kinds of spans that training cannot do without
_USEFUL = (SpanKind.FORWARD, SpanKind.BACKWARD, SpanKind.WEIGHT_GRAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One step of the ladder: what it is, and the seconds that it adds."""

    label: str
    seconds: float
    note: str


def ladder(result: Result) -> list[Rung]:
    """The rungs; they sum to the step but for rounding."""
    peak_flops = OpCosts(result.cluster.gpu()).peak(result.tree.training.precision)
    ideal_s = result.model_flop / (result.num_devices * peak_flops)
    parts = _compute_parts(result)
    times = result.devices
    weight = np.array([d.multiplicity for d in times], float)
    weight /= weight.sum()

    def mean(values: Sequence[float]) -> float:
        return float(np.dot(weight, np.array(values, float)))

    bubble = [d.bubble_s for d in times]
    exposed = sorted({kind for d in times for kind in d.exposed_s})
    done_s = parts["flop"] / peak_flops
    rungs = [
        Rung(label="ideal compute", seconds=ideal_s, note="model FLOP at the peak rate of the devices"),
        Rung(
            label="extra or skipped FLOP",
            seconds=done_s - ideal_s,
            note="FLOP repeated on several ranks, minus FLOP that causal attention skips",
        ),
        Rung(
            label="kernels below peak",
            seconds=parts["products"] - done_s,
            note="GEMMs and attention: shapes, waves, clock",
        ),
        Rung(label="memory-bound ops", seconds=parts["memory"], note="norms, activations, embeddings, loss"),
        Rung(label="recomputation", seconds=parts["recompute"], note="activations computed again in the backward pass"),
        Rung(label="optimizer", seconds=parts["optimizer"], note="the parameter update"),
        Rung(label="slow devices", seconds=parts["slow"], note="extra compute time on devices with a fault"),
        Rung(
            label="overlap slow-down",
            seconds=parts["overlap"],
            note="compute is slower while communication overlaps it",
        ),
        *(
            Rung(
                label=f"exposed {kind}",
                seconds=mean([d.exposed_s.get(kind, 0.0) for d in times]),
                note=f"{kind} communication that no compute hides",
            )
            for kind in exposed
        ),
        Rung(
            label="host",
            seconds=mean([d.host_s for d in times]),
            note="waiting for kernel launches, for the host in transfers, or for its update",
        ),
        Rung(
            label="waiting for ranks",
            seconds=mean([d.waiting_s for d in times]),
            note="collectives wait for their last rank: stragglers, uneven shards",
        ),
        Rung(
            label="uneven stages", seconds=mean(bubble) - min(bubble), note="stages with less work wait for the busiest"
        ),
        Rung(
            label="pipeline bubble",
            seconds=min(bubble),
            note="the busiest stage waits for the pipeline to fill and drain",
        ),
    ]
    return [r for r in rungs if r.seconds != 0.0]


def _compute_parts(result: Result) -> dict[str, float]:
    """Mean compute time per purpose [s], at full speed; `flop` is the mean executed FLOP per device."""
    graph, line = result.graph, result.timeline
    tasks = graph.tasks
    span = np.array([row.span for row in graph.op_rows])
    is_wait = graph.op_wait_s > 0
    is_useful = np.isin(span, _USEFUL)
    is_memory = tasks.segment_class == ComputeClass.MEMORY
    masks = {
        "products": is_useful & ~is_memory,
        "memory": is_useful & is_memory,
        "recompute": span == SpanKind.RECOMPUTE,
        "optimizer": span == SpanKind.OPTIMIZER,
    }
    parts = dict.fromkeys([*masks, "slow", "overlap", "flop"], 0.0)
    total = sum(rank.multiplicity for rank in graph.classes)
    for rank in graph.classes:
        plan = graph.plans[rank.plan]
        mine = rank.task_of[~plan.is_comm]
        times = np.bincount(tasks.segment[mine], minlength=len(tasks.segment_ptr) - 1)
        per_op = np.repeat(times, np.diff(tasks.segment_ptr))
        work_s = per_op * tasks.segment_work_s
        slow = float(graph.cluster.device_slowdown[rank.device])
        device_s = work_s[~is_wait].sum()
        share = rank.multiplicity / total
        for name, mask in masks.items():
            parts[name] += share * float(work_s[mask].sum()) / slow
        parts["slow"] += share * float(device_s) * (1.0 - 1.0 / slow)
        parts["overlap"] += share * float((line.end_s[mine] - line.start_s[mine]).sum() - work_s.sum())
        parts["flop"] += share * float((per_op * graph.op_flop)[masks["products"]].sum())
    if abs(parts["overlap"]) < 1e-9 * result.step_time_s:  # differences of sums leave dust
        parts["products"] += parts["overlap"]
        parts["overlap"] = 0.0
    return parts


def to_the_bit(rungs: Sequence[Rung], total_s: float) -> tuple[Rung, ...]:
    """The rungs with the rounding of sums put on the largest, so that ``math.fsum`` is `total_s` exactly.

    >>> thirds = [Rung(label=str(i), seconds=1 / 3, note="") for i in range(3)]
    >>> math.fsum(r.seconds for r in to_the_bit(thirds, 1.0)) == 1.0
    True
    """
    if not rungs:
        return ()
    seconds = [r.seconds for r in rungs]
    largest = max(range(len(seconds)), key=lambda i: abs(seconds[i]))
    rest = math.fsum([total_s, *(-s for i, s in enumerate(seconds) if i != largest)])
    assert math.isclose(rest, seconds[largest], rel_tol=1e-6, abs_tol=1e-6 * total_s), (rest, seconds[largest], total_s)
    for moved in (rest, np.nextafter(rest, np.inf), np.nextafter(rest, -np.inf)):
        seconds[largest] = float(moved)
        if math.fsum(seconds) == total_s:
            break
    return tuple(Rung(label=r.label, seconds=s, note=r.note) for r, s in zip(rungs, seconds, strict=True))
