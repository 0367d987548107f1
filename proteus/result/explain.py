"""Why a step takes as long as it does, for people: the ladder, who talks, the critical path, the levers."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from proteus.progress import Progress
from proteus.result.ladder import Rung, ladder, to_the_bit
from proteus.result.levers import Lever, levers
from proteus.units import format_seconds

if TYPE_CHECKING:
    from proteus.result.result import Result

#: characters of the longest bar
_BAR = 24
#: rungs below this part of the step are not shown in the table; they stay in `steps`
_SHOWN = 1e-6


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
            row_s = seconds.get(label, self.step_time_s)
            begin = 0 if label not in seconds else round(_BAR * until / self.step_time_s)
            length = max(round(_BAR * (until + row_s) / self.step_time_s) - begin, 1) if label in seconds else _BAR
            until += row_s
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
            row_s = seconds.get(label, self.step_time_s)
            begin = 100.0 * until / self.step_time_s if label in seconds else 0.0
            until += row_s
            bar = (
                f'<div style="margin-left:{max(begin, 0.0):.2f}%;'
                f"width:{max(100.0 * row_s / self.step_time_s, 0.2):.2f}%;"
                'height:0.8em;background:#0072b2"></div>'
            )
            body.append(
                f"<tr><th style='text-align:left'>{html.escape(label)}</th><td>{html.escape(time)}</td><td>{share}</td>"
                f"<td style='min-width:16em;text-align:left'>{bar}</td>"
                f"<td style='text-align:left'>{html.escape(note)}</td></tr>"
            )
        table = f"<table><caption>from ideal compute to the step</caption>{''.join(body)}</table>"
        return {"text/plain": str(self), "text/html": table}


def explain(result: Result, *, sensitivities: bool = False, progress: Progress | None = None) -> Explanation:
    """The ladder of a result.

    Parameters
    ----------
    sensitivities
        Also simulate the step on better machines, one for each kind of
        resource; takes about as many simulations.
    progress
        May stop these simulations.
    """
    step_s = result.step_time_s
    return Explanation(
        step_time_s=step_s,
        steps=to_the_bit(ladder(result), step_s),
        exposed_by_node=exposed_by_node(result),
        path_by_kind=tuple(result.critical_path.seconds_by_kind().items()),
        levers=levers(result.graph, step_s, progress) if sensitivities else (),
    )


def exposed_by_node(result: Result) -> tuple[tuple[str, float], ...]:
    """Exposed communication of every node of the tree, mean over all devices, the largest first."""
    spans = result.spans
    total = sum(d.multiplicity for d in result.devices)
    path = {row.id: row.path for row in result.tree.rows()}
    per_node = np.zeros(len(path))
    for lane, low, high in zip(spans.lanes, spans.lane_ptr, spans.lane_ptr[1:], strict=False):
        of_lane = np.bincount(spans.node[low:high], result.exposed_s[low:high], len(path))
        per_node += of_lane * lane.multiplicity / total
    rows = [(path[node] or "model", float(per_node[node])) for node in np.flatnonzero(per_node > 0).tolist()]
    return tuple(sorted(rows, key=lambda item: (-item[1], item[0])))
