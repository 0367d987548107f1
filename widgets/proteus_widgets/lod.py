"""Level of detail: of millions of spans, only what the pixels can show.

Spans that are at least a pixel long are sent as they are.  Shorter ones that
fall on the same pixel of the same lane become one: the longest of the kind
that fills most of the pixel.  Ids
stay those of the whole result, so selecting works.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proteus.htae.compiled import jit
from proteus.result.spans import SpanKind, Spans

_KINDS = len(SpanKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What the browser wants to show."""

    from_s: float
    to_s: float
    first_lane: int
    last_lane: int  # exclusive
    pixels: int


@dataclass(frozen=True, slots=True)
class Detail:
    """Answers windows on one :class:`Spans`."""

    spans: Spans
    makespan_s: float

    def serve(self, window: Window) -> tuple[np.ndarray, np.ndarray]:
        """int64: rows to send, and the lane pointer over them."""
        spans = self.spans
        return thinned(
            spans.start_s,
            spans.duration_s,
            spans.kind,
            spans.lane_ptr,
            max(window.first_lane, 0),
            min(window.last_lane, len(spans.lanes)),
            max(window.from_s, 0.0),
            min(window.to_s, self.makespan_s),
            (window.to_s - window.from_s) / max(window.pixels, 1),
        )


@jit
def thinned(
    start_s: np.ndarray,
    duration_s: np.ndarray,
    kind: np.ndarray,
    lane_ptr: np.ndarray,
    first_lane: int,
    last_lane: int,
    from_s: float,
    to_s: float,
    pixel_s: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the spans between two times, and the lane pointer over them.

    Of short spans on a pixel the longest is there, of the kind that fills most of the pixel.
    """
    pointer = np.zeros(len(lane_ptr), np.int64)
    low, high = np.zeros(len(lane_ptr), np.int64), np.zeros(len(lane_ptr), np.int64)
    for lane in range(first_lane, last_lane):
        starts = start_s[lane_ptr[lane] : lane_ptr[lane + 1]]
        before = max(np.searchsorted(starts, from_s) - 1, 0)  # the one that is still running
        low[lane], high[lane] = lane_ptr[lane] + before, lane_ptr[lane] + np.searchsorted(starts, to_s, side="right")
    rows, n = np.empty(np.maximum(high - low, 0).sum(), np.int64), 0
    filled_s = np.zeros(_KINDS)  # of the pixel at hand, by kind
    longest = np.empty(_KINDS, np.int64)
    for lane in range(first_lane, last_lane):
        pixel = np.int64(-1)  # where short spans are being gathered
        for i in range(low[lane], high[lane] + 1):
            is_short = i < high[lane] and duration_s[i] < pixel_s
            at = np.int64(np.floor(max(start_s[i] - from_s, 0.0) / pixel_s)) if is_short else np.int64(-1)
            if at != pixel and pixel >= 0:
                rows[n] = longest[np.argmax(filled_s)]
                filled_s[:] = 0.0
                n += 1
            pixel = at
            if is_short:
                k = kind[i]
                if filled_s[k] == 0.0 or duration_s[i] > duration_s[longest[k]]:
                    longest[k] = i
                filled_s[k] += duration_s[i]
            elif i < high[lane]:
                rows[n] = i
                n += 1
        pointer[lane + 1] = n
    pointer[max(last_lane, 0) + 1 :] = n
    return rows[:n], pointer
