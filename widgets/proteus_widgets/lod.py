"""Level of detail: of millions of spans, only what the pixels can show.

Spans that are at least a pixel long are sent as they are.  Shorter ones that
fall on the same pixel of the same lane become one, the longest of them.  Ids
stay those of the whole result, so selecting works.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from proteus.result.spans import Spans


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
    """Answers windows on one :class:`Spans`.

    One array of keys, ``lane * stride + start``, rises over all spans, so one
    bisection finds the first span of every lane at once.
    """

    spans: Spans
    makespan_s: float
    _lane: np.ndarray = field(init=False, repr=False)
    _key: np.ndarray = field(init=False, repr=False)
    _stride: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        counts = np.diff(self.spans.lane_ptr)
        lane = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        stride = 2.0 * self.makespan_s + 1.0
        object.__setattr__(self, "_lane", lane)
        object.__setattr__(self, "_stride", stride)
        object.__setattr__(self, "_key", lane * stride + self.spans.start_s)

    def serve(self, window: Window) -> tuple[np.ndarray, np.ndarray]:
        """int64: rows to send, and the lane pointer over them."""
        spans = self.spans
        lanes = np.arange(max(window.first_lane, 0), min(window.last_lane, len(spans.lanes)))
        base = lanes * self._stride
        pointer = spans.lane_ptr
        low = np.searchsorted(self._key, base + max(window.from_s, 0.0))
        low = np.maximum(low - 1, pointer[lanes])  # the one that is still running
        high = np.searchsorted(self._key, base + min(window.to_s, self.makespan_s), side="right")
        count = np.maximum(high - low, 0)
        rows = np.repeat(low - np.cumsum(count) + count, count) + np.arange(count.sum())
        pixel_s = (window.to_s - window.from_s) / max(window.pixels, 1)
        rows = self._merge(rows, window.from_s, pixel_s)
        edges = np.searchsorted(self._lane[rows], np.arange(len(spans.lanes) + 1))
        return rows, edges

    def _merge(self, rows: np.ndarray, from_s: float, pixel_s: float) -> np.ndarray:
        duration = self.spans.duration_s[rows]
        short = duration < pixel_s
        if not short.any():
            return rows
        pixel = np.floor((self.spans.start_s[rows] - from_s) / pixel_s)
        lane = self._lane[rows]
        opens = np.ones(len(rows), bool)
        same = (pixel[1:] == pixel[:-1]) & (lane[1:] == lane[:-1]) & short[1:] & short[:-1]
        opens[1:] = ~same
        first = np.flatnonzero(opens)
        longest = np.maximum.reduceat(duration, first)
        group = np.cumsum(opens) - 1
        winners = np.flatnonzero(duration == longest[group])
        winners = winners[np.unique(group[winners], return_index=True)[1]]
        merged: np.ndarray = rows[winners]
        return merged
