"""The explanation of a result as the panel shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from proteus.units import format_seconds
from proteus_widgets.facts import band_reasons

if TYPE_CHECKING:
    from proteus.result.band import Band
    from proteus.result.levers import Lever
    from proteus.result.result import Result

MAX_NODES = 6
#: levers that gain less than this share of the step are noise
MIN_LEVER = 0.001


def why(result: Result, levers: Sequence[Lever] = (), band: Band | None = None) -> dict[str, Any]:
    """Ladder, exposed communication by node and levers, for the browser."""
    explained = result.explain()
    ids = {row.path: row.id for row in result.tree.rows()}
    until = 0.0
    steps: list[dict[str, Any]] = []
    for rung in explained.steps:
        until += rung.seconds
        steps.append(
            {"label": rung.label, "seconds": rung.seconds, "until_s": until, "ideal": not steps, "note": rung.note}
        )
    return {
        "ladder": steps,
        "band": band_reasons(result, band),
        "exposed": [
            {"label": path, "seconds": seconds, "node": ids.get(path, -1)}
            for path, seconds in explained.exposed_by_node[:MAX_NODES]
        ],
        "levers": [
            {
                "label": lever.label,
                "gain": f"−{format_seconds(lever.gain_s)}  ({lever.gain_s / result.step_time_s:.1%})",
            }
            for lever in levers
            if lever.gain_s > MIN_LEVER * result.step_time_s
        ],
    }
