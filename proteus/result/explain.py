"""Why a step takes as long as it does: a ladder from ideal compute to the step time.

Every rung is a mean over all devices (each counted as often as it stands for
others), because what the model asks of the machine is a sum over devices.
Idle time is the exception that makes the ladder tell stages from schedule::

    uneven stages     what the mean device idles more than the busiest one
    pipeline bubble   what the busiest device idles for the pipeline

so a pipeline of equal stages has only a bubble, which is the schedule's.  The
rungs add up to the step time.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from proteus.compiler.kinds import SpanKind
from proteus.costs.ops import OpCosts
from proteus.costs.overlap import ComputeClass
from proteus.result.levers import Lever, levers
from proteus.units import format_seconds

if TYPE_CHECKING:
    from proteus.result.result import Result

#: kinds of spans that training cannot do without
_USEFUL = (SpanKind.FORWARD, SpanKind.BACKWARD, SpanKind.WEIGHT_GRAD)
#: characters of the longest bar
_BAR = 24
#: rungs below this part of the step are not shown in the table; they stay in `steps`
_SHOWN = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One step of the ladder: what it is, and the seconds that it adds."""

    label: str
    seconds: float
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Where the step went.

    Parameters
    ----------
    steps
        Rungs from ideal compute upward; ``math.fsum`` of their seconds is
        `step_time_s` to the bit.
    exposed_by_node
        (path in the strategy tree, seconds) of communication that nothing
        hides, mean over all devices, the largest first.
    path_by_kind
        Seconds of the critical path by kind of span.
    levers
        What a change of the machine would gain; empty unless asked for.
    """

    step_time_s: float
    steps: tuple[Rung, ...]
    exposed_by_node: tuple[tuple[str, float], ...]
    path_by_kind: tuple[tuple[str, float], ...]
    levers: tuple[Lever, ...] = field(default_factory=tuple)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "step_time_s": self.step_time_s,
            "ladder": [{"label": r.label, "seconds": r.seconds, "note": r.note} for r in self.steps],
            "exposed_by_node": dict(self.exposed_by_node),
            "critical_path_s": dict(self.path_by_kind),
            "levers": [
                {"label": v.label, "step_time_s": v.step_time_s, "gain_s": v.gain_s, "note": v.note}
                for v in self.levers
            ],
        }

    def table(self) -> list[tuple[str, str, str, str]]:
        """(label, seconds, share, what it is) of every rung that shows, and of the whole."""
        shown = [r for r in self.steps if abs(r.seconds) > _SHOWN * self.step_time_s]
        rows = [(r.label, format_seconds(r.seconds), f"{r.seconds / self.step_time_s:.1%}", r.note) for r in shown]
        return [*rows, ("step time", format_seconds(self.step_time_s), "100.0%", "")] if self.step_time_s else []

    def __str__(self) -> str:
        rows = self.table()
        if not rows:
            return "nothing ran"
        width = [max(len(row[column]) for row in rows) for column in range(3)]
        lines, until = [], 0.0
        seconds = {r.label: r.seconds for r in self.steps}
        for label, time, share, note in rows:
            own = seconds.get(label, self.step_time_s)
            begin = 0 if label not in seconds else round(_BAR * until / self.step_time_s)
            length = max(round(_BAR * (until + own) / self.step_time_s) - begin, 1) if label in seconds else _BAR
            until += own
            bar = (" " * max(begin, 0) + "█" * length)[:_BAR]
            lines.append(
                f"{label:<{width[0]}}  {time:>{width[1]}}  {share:>{width[2]}}  {bar:<{_BAR}}  {note}".rstrip()
            )
        if self.exposed_by_node:
            lines += ["", "exposed communication by node"]
            lines += [f"  {format_seconds(s):>10}  {path}" for path, s in self.exposed_by_node[:5]]
        lines += ["", "critical path"]
        lines += [f"  {format_seconds(s):>10}  {kind.replace('_', ' ')}" for kind, s in self.path_by_kind if s > 0]
        if self.levers:
            lines += ["", "if the machine were better"]
            lines += [f"  {lever.gain_s / self.step_time_s:>10.1%}  {lever.label}" for lever in self.levers]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        del include, exclude
        until, body = 0.0, []
        seconds = {r.label: r.seconds for r in self.steps}
        for label, time, share, note in self.table():
            own = seconds.get(label, self.step_time_s)
            begin = 100.0 * until / self.step_time_s if label in seconds else 0.0
            until += own
            bar = (
                f'<div style="margin-left:{max(begin, 0.0):.2f}%;width:{max(100.0 * own / self.step_time_s, 0.2):.2f}%;'
                'height:0.8em;background:#0072b2"></div>'
            )
            body.append(
                f"<tr><th style='text-align:left'>{html.escape(label)}</th><td>{html.escape(time)}</td><td>{share}</td>"
                f"<td style='min-width:16em;text-align:left'>{bar}</td>"
                f"<td style='text-align:left'>{html.escape(note)}</td></tr>"
            )
        table = f"<table><caption>from ideal compute to the step</caption>{''.join(body)}</table>"
        return {"text/plain": str(self), "text/html": table}


def explain(result: Result, *, sensitivities: bool = False) -> Explanation:
    """The ladder of a result.

    Parameters
    ----------
    sensitivities
        Also simulate the step on better machines, one for each kind of
        resource; takes about as many simulations.
    """
    step_s = result.step_time_s
    return Explanation(
        step_time_s=step_s,
        steps=to_the_bit(ladder(result), step_s),
        exposed_by_node=exposed_by_node(result),
        path_by_kind=tuple(result.critical_path.seconds_by_kind().items()),
        levers=levers(result.graph, step_s) if sensitivities else (),
    )


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
            label="beyond the model",
            seconds=done_s - ideal_s,
            note="FLOP repeated on several ranks, less what causal attention skips",
        ),
        Rung(
            label="kernels below peak",
            seconds=parts["products"] - done_s,
            note="products and attention: shapes, waves, clock",
        ),
        Rung(label="memory-bound ops", seconds=parts["memory"], note="norms, activations, embeddings, loss"),
        Rung(label="recomputation", seconds=parts["recompute"], note="activations computed again in the backward"),
        Rung(label="optimizer", seconds=parts["optimizer"], note="the update"),
        Rung(label="slow devices", seconds=parts["slow"], note="compute on devices that are slower than healthy ones"),
        Rung(label="overlap slow-down", seconds=parts["overlap"], note="compute while communication runs beside it"),
        *(
            Rung(
                label=f"exposed {kind}",
                seconds=mean([d.exposed_s.get(kind, 0.0) for d in times]),
                note=f"{kind} communication that nothing hides",
            )
            for kind in exposed
        ),
        Rung(label="host", seconds=mean([d.host_s for d in times]), note="waiting for launches"),
        Rung(
            label="waiting for ranks",
            seconds=mean([d.waiting_s for d in times]),
            note="collectives whose last rank comes later: stragglers, uneven shards",
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
    """Mean compute time by what it is for [s], at full speed; `flop` is the mean executed FLOP per device."""
    graph, line = result.graph, result.timeline
    tasks = graph.tasks
    span = np.array([row.span for row in graph.op_rows])
    is_useful = np.isin(span, _USEFUL)
    is_memory = tasks.segment_class == ComputeClass.MEMORY
    masks = {
        "products": is_useful & ~is_memory,
        "memory": is_useful & is_memory,
        "recompute": span == SpanKind.RECOMPUTE,
        "optimizer": span == SpanKind.OPTIMIZER,
    }
    found = dict.fromkeys([*masks, "slow", "overlap", "flop"], 0.0)
    total = sum(rank.multiplicity for rank in graph.classes)
    for rank in graph.classes:
        plan = graph.plans[rank.plan]
        mine = rank.task_of[~plan.is_comm]
        times = np.bincount(tasks.segment[mine], minlength=len(tasks.segment_ptr) - 1)
        per_op = np.repeat(times, np.diff(tasks.segment_ptr))
        work_s = per_op * tasks.segment_work_s
        slow = float(graph.cluster.device_slowdown[rank.device])
        share = rank.multiplicity / total
        for name, mask in masks.items():
            found[name] += share * float(work_s[mask].sum()) / slow
        found["slow"] += share * float(work_s.sum()) * (1.0 - 1.0 / slow)
        found["overlap"] += share * float((line.end_s[mine] - line.start_s[mine]).sum() - work_s.sum())
        found["flop"] += share * float((per_op * graph.op_flop)[masks["products"]].sum())
    if abs(found["overlap"]) < 1e-9 * result.step_time_s:  # differences of sums leave dust
        found["products"] += found["overlap"]
        found["overlap"] = 0.0
    return found


def exposed_by_node(result: Result) -> tuple[tuple[str, float], ...]:
    """Exposed communication of every node of the tree, mean over all devices, the largest first."""
    spans = result.spans
    weight = np.array([lane.multiplicity for lane in spans.lanes], float)[spans.lane]
    total = sum(d.multiplicity for d in result.devices)
    per_node = np.bincount(spans.node, result.exposed_s * weight / total)
    path = {row.id: row.path for row in result.tree.rows()}
    found = [(path[node] or "model", float(per_node[node])) for node in np.flatnonzero(per_node > 0).tolist()]
    return tuple(sorted(found, key=lambda item: (-item[1], item[0])))


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
