"""The explain ladder of a result as the panel shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proteus.units import format_seconds

if TYPE_CHECKING:
    from proteus.result.result import Result


def why(result: Result) -> dict[str, Any]:
    """Ladder, levers and exposed communication, largest first."""
    explained = result.explain()
    until = 0.0
    ladder = []
    for step in explained.steps:
        until += step.seconds
        ladder.append(
            {"label": step.label, "seconds": step.seconds, "until_s": until, "ideal": not ladder, "note": step.note}
        )
    exposed = sorted(result.exposed_comm_s.items(), key=lambda item: -item[1])
    return {
        "ladder": ladder,
        "exposed": [{"label": kind, "seconds": seconds} for kind, seconds in exposed if seconds > 0],
        "levers": [
            {"label": lever.label, "gain": f"−{format_seconds(lever.gain_s)}"}
            for lever in sorted(explained.levers, key=lambda lever: -lever.gain_s)
            if lever.gain_s > 0
        ],
    }
