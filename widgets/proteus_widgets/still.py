"""A still picture of a result: a small SVG for places that run no views, such as previews of saved notebooks."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from proteus.result.spans import SpanKind, Spans
from proteus.units import format_seconds
from proteus_widgets.palette import LOOKS

if TYPE_CHECKING:
    from proteus.result.result import Result

#: picture [px]: names, spans, heights of rows, room between devices
NAMES, WIDTH, COMPUTE, SLIM, GAP = 110, 760, 14, 5, 6
HEAD, LEGEND = 26, 24
MAX_DEVICES = 8
#: characters of paths: beyond it no further device is drawn, so that the picture in base64 stays below 60 kB
MAX_PATH = 36_000
#: least share of a pixel that a span must fill to be seen
FILLED = 0.15


def coverage(spans: Spans, lane: int, makespan_s: float, pixels: int) -> tuple[np.ndarray, np.ndarray]:
    """What fills each pixel of a lane.

    Returns
    -------
    kind, share
        int64[pixels], the kind that fills most of it, and float64[pixels], how much of it all kinds fill.
    """
    first, last = int(spans.lane_ptr[lane]), int(spans.lane_ptr[lane + 1])
    edges = np.linspace(0.0, makespan_s, pixels + 1)
    start, duration, kind = spans.start_s[first:last], spans.duration_s[first:last], spans.kind[first:last]
    filled = np.zeros((len(SpanKind), pixels))
    for one in np.unique(kind).tolist():
        is_kind = kind == one
        begin, length = start[is_kind], duration[is_kind].astype(float)
        before = np.concatenate([[0.0], np.cumsum(length)])
        at = np.searchsorted(begin, edges, side="right")
        running = np.clip(edges - begin[at - 1], 0.0, length[at - 1])
        until = np.where(at > 0, before[at - 1] + running, 0.0)
        filled[one] = np.diff(until) * pixels / makespan_s
    return filled.argmax(axis=0), filled.sum(axis=0)


def lane_paths(spans: Spans, lane: int, makespan_s: float, y: float) -> dict[int, str]:
    """SVG paths of a lane by kind: a stroke for each run of pixels of one kind."""
    kind, share = coverage(spans, lane, makespan_s, WIDTH)
    seen = np.where(share >= FILLED, kind, -1)
    cuts = np.flatnonzero(np.diff(seen)) + 1
    paths: dict[int, list[str]] = {}
    pen: dict[int, int] = {}
    for begin, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(seen)]):
        one = int(seen[begin])
        if one < 0:
            continue
        move = f"m{begin - pen[one]} 0" if one in pen else f"M{NAMES + begin} {y:g}"
        paths.setdefault(one, []).append(f"{move}h{end - begin}")
        pen[one] = end
    return {one: "".join(parts) for one, parts in paths.items()}


def svg(result: Result) -> str:
    """The first devices of the timeline over the step, with a legend."""
    spans, makespan_s = result.spans, result.timeline.makespan_s
    parts: list[str] = []
    shown: set[int] = set()
    y, drawn, length, device = float(HEAD), 0, 0, -1
    devices = list(dict.fromkeys(lane.device for lane in spans.lanes))
    for number, lane in enumerate(spans.lanes):
        if lane.device != device:
            if drawn == MAX_DEVICES or length > MAX_PATH:
                break
            device, drawn = lane.device, drawn + 1
            y += GAP if drawn > 1 else 0
            copies = f" ×{lane.multiplicity}" if lane.multiplicity > 1 else ""
            parts.append(f'<text x="8" y="{y + 11:g}" font-weight="600">GPU {lane.device}{copies}</text>')
        height = COMPUTE if lane.stream == "compute" else SLIM
        if lane.stream == "compute":
            parts.append(f'<rect x="{NAMES}" y="{y:g}" width="{WIDTH}" height="{height}" fill="#eceff1"/>')
        for kind, path in lane_paths(spans, number, makespan_s, y + height / 2).items():
            shown.add(kind)
            length += len(path)
            parts.append(
                f'<path fill="none" stroke="{LOOKS[SpanKind(kind)].colour}" stroke-width="{height}" d="{path}"/>'
            )
        y += height + 1
    if drawn < len(devices):
        y += 14
        parts.append(f'<text x="{NAMES}" y="{y:g}" fill="#59636e">and {len(devices) - drawn} more</text>')
    return _page(result, y, "".join(parts), sorted(shown))


def _page(result: Result, bottom: float, rows: str, kinds: list[int]) -> str:
    legend, x = [], 8
    for kind in kinds:
        look = LOOKS[SpanKind(kind)]
        legend.append(f'<rect x="{x}" y="{bottom + 9:g}" width="11" height="11" fill="{look.colour}"/>')
        legend.append(f'<text x="{x + 15}" y="{bottom + 18:g}">{look.label}</text>')
        x += 30 + 6 * len(look.label)
    width, height = NAMES + WIDTH + 8, bottom + LEGEND + 4
    title = escape(f"{result.model.name}: {format_seconds(result.step_time_s)} per step on {result.num_devices} GPUs")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" width="{width}" height="{height:g}"'
        f' font-family="sans-serif" font-size="11" fill="#1f2328">'
        f'<rect width="{width}" height="{height:g}" rx="6" fill="#fff" stroke="none"/>'
        f'<text x="8" y="17" font-size="12" font-weight="600">{title}</text>'
        f"{rows}{''.join(legend)}</svg>"
    )


def html(result: Result) -> str:
    """Table and picture without style or script, which previews drop; the picture is data, never markup."""
    table = result._repr_mimebundle_()["text/html"]
    picture = base64.b64encode(svg(result).encode()).decode()
    alt = escape(f"Timeline of {result.model.name} on {result.num_devices} GPUs", quote=True)
    return f'{table}<img alt="{alt}" src="data:image/svg+xml;base64,{picture}"/>'
