"""Predicted against measured, as SVG: plain text, no drawing library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from proteus.validation.score import Score

#: drawing area and margins [px]
SIZE, LEFT, BOTTOM, TOP = 420, 58, 44, 28
#: one colour per source, distinguished also by people who see few colours (Okabe and Ito 2008)
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
#: shaded: predictions within this share of the measurement
BAND = 0.1


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis, `low` and `high` powers of ten [s]."""

    low: int
    high: int

    def at(self, value: float) -> float:
        """0 at the low end, 1 at the high one."""
        return (math.log10(value) - self.low) / (self.high - self.low)


def scatter(title: str, groups: Sequence[tuple[str, Iterable[Score]]]) -> str:
    """An SVG of the step times of `groups` (name, scores), both axes logarithmic."""
    points = [
        (number, name, score)
        for number, (name, scores) in enumerate(groups)
        for score in scores
        if score.time_error is not None
    ]
    times = [t for _, _, s in points for t in (s.step_time_s or 1.0, s.measured_step_time_s or 1.0)] or [1.0]
    axis = Axis(
        math.floor(math.log10(min(times))),
        max(math.ceil(math.log10(max(times))), math.floor(math.log10(min(times))) + 1),
    )
    side = SIZE - LEFT - 20
    legend = 18 * (1 + len(groups))
    height = TOP + side + BOTTOM + legend

    def x(value: float) -> float:
        return LEFT + axis.at(value) * side

    def y(value: float) -> float:
        return TOP + (1.0 - axis.at(value)) * side

    low, high = 10.0**axis.low, 10.0**axis.high
    corners = [(low, low * (1 + BAND)), (high, high * (1 + BAND)), (high, high * (1 - BAND)), (low, low * (1 - BAND))]
    band = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in corners)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {height}" role="img" '
        'font-family="sans-serif" font-size="11">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{SIZE}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="17" font-size="13">{escape(title)}</text>',
        f'<clipPath id="area"><rect x="{LEFT}" y="{TOP}" width="{side}" height="{side}"/></clipPath>',
        f'<polygon points="{band}" fill="#dddddd" clip-path="url(#area)"/>',
        f'<path d="M{x(low):.1f} {y(low):.1f}L{x(high):.1f} {y(high):.1f}" stroke="#888888"/>',
    ]
    for power in range(axis.low, axis.high + 1):
        value = 10.0**power
        label = f"{value:g} s"
        parts.append(
            f'<path d="M{x(value):.1f} {TOP}V{TOP + side}M{LEFT} {y(value):.1f}H{LEFT + side}" stroke="#eeeeee"/>'
        )
        parts.append(f'<text x="{x(value):.1f}" y="{TOP + side + 15}" text-anchor="middle">{label}</text>')
        parts.append(f'<text x="{LEFT - 5}" y="{y(value) + 4:.1f}" text-anchor="end">{label}</text>')
    parts.append(f'<rect x="{LEFT}" y="{TOP}" width="{side}" height="{side}" fill="none" stroke="#444444"/>')
    parts.append(f'<text x="{LEFT + side / 2}" y="{TOP + side + 32}" text-anchor="middle">measured</text>')
    middle = TOP + side / 2
    parts.append(f'<text x="12" y="{middle}" text-anchor="middle" transform="rotate(-90 12 {middle})">predicted</text>')
    for number, _, score in points:
        at = f'cx="{x(score.measured_step_time_s or 1.0):.1f}" cy="{y(score.step_time_s or 1.0):.1f}"'
        parts.append(f'<circle {at} r="2.2" fill="{COLOURS[number % len(COLOURS)]}" fill-opacity="0.6"/>')
    for number, (name, _) in enumerate(groups):
        top = TOP + side + BOTTOM + 18 * number + 6
        parts.append(f'<circle cx="{LEFT + 6}" cy="{top}" r="4" fill="{COLOURS[number % len(COLOURS)]}"/>')
        parts.append(f'<text x="{LEFT + 16}" y="{top + 4}">{escape(name)}</text>')
    top = TOP + side + BOTTOM + 18 * len(groups) + 10
    parts.append(f'<text x="{LEFT}" y="{top}" fill="#666666">grey: within {100 * BAND:.0f} % of the measurement</text>')
    return "\n".join([*parts, "</svg>", ""])
