"""The timeline: every device and stream over the step, on a canvas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import anywidget
import numpy as np
import traitlets as t

from proteus.result.spans import Spans
from proteus_widgets.assets import module, style
from proteus_widgets.columns import WHOLE_LIMIT, buffer, frame, lanes
from proteus_widgets.lod import Detail, Window
from proteus_widgets.palette import looks
from proteus_widgets.selection import Lit, describe_span
from proteus_widgets.tracks import MemoryTrack

#: pixels and lanes of the first level of detail, before the browser has told its own
FIRST_PIXELS, FIRST_LANES = 1200, 32
MAX_PIXELS = 20_000
ZOOMED = 0.99  # a view of less than this share of the step is a chosen place


class Timeline(anywidget.AnyWidget):
    """Canvas timeline; see ``docs/views/timeline.md``.

    It shows what :meth:`show` is given, reports picks through `on_select` and
    the time under the pointer through `on_cursor` (None when it has left); it
    never changes its own selection, so two views cannot chase each other.
    """

    _esm = module("timeline")
    _css = style("timeline")

    data = t.Dict().tag(sync=True)
    lit = t.Dict().tag(sync=True)
    span = t.Dict().tag(sync=True)
    kinds = t.List(looks()).tag(sync=True)
    view = t.List(t.Float()).tag(sync=True)
    height = t.Int(460).tag(sync=True)
    extent_s = t.Float(0.0).tag(sync=True)
    probe = t.Unicode("timeline").tag(sync=True)

    def __init__(
        self,
        on_select: Callable[[int], None] | None = None,
        on_cursor: Callable[[float | None], None] | None = None,
        **traits: Any,
    ) -> None:
        super().__init__(**traits)
        self._select, self._cursor = on_select, on_cursor
        self._detail: Detail | None = None
        self._frame: dict[str, Any] = {}
        self._critical: np.ndarray | None = None
        self._wants_critical = False
        self._makespan_s = 0.0
        self._window = Window(from_s=0.0, to_s=0.0, first_lane=0, last_lane=FIRST_LANES, pixels=FIRST_PIXELS)
        self._rev = self._shows = 0
        self.on_msg(self._receive)

    def show(
        self,
        spans: Spans,
        makespan_s: float,
        *,
        memory: Sequence[MemoryTrack] = (),
        critical: Callable[[], np.ndarray] | None = None,
        arrows: Callable[[int], list[dict[str, float]]] | None = None,
        members: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """Show a result.

        Parameters
        ----------
        spans
            What ran when.
        makespan_s
            Length of the step [s].
        memory
            Tracks to show under their devices.
        critical
            Gives bool[spans], whether a span is on the critical path; only
            asked for when the user wants to see it.
        arrows
            Gives the arrows of a selected span.
        members
            All devices that a shown device stands for, itself included.
        """
        self._shows += 1
        self._spans = spans
        self._ask_critical, self._critical = critical, None
        self._arrows = arrows
        self._frame = {
            "lanes": lanes(spans),
            "names": list(spans.names),
            "makespan_s": makespan_s,
            "total": len(spans),
            "show": self._shows,
            "has_critical": critical is not None,
            "kinds_present": np.flatnonzero(np.bincount(spans.kind)).tolist(),
            "memory": [track.message() for track in memory],
            "members": {str(device): list(ranks) for device, ranks in (members or {}).items() if len(ranks) > 1},
        }
        self._detail = Detail(spans, makespan_s) if len(spans) > WHOLE_LIMIT else None
        if self._detail is not None:
            self._window = self._next_window(makespan_s)
        self._post()

    def _next_window(self, makespan_s: float) -> Window:
        """As the browser does: who saw the whole step sees the whole new one, who zoomed in keeps the place."""
        before = self._window
        is_zoomed = before.to_s - before.from_s < ZOOMED * self._makespan_s and before.to_s <= makespan_s
        self._makespan_s = makespan_s
        return before if is_zoomed else replace(before, from_s=0.0, to_s=makespan_s)

    def show_whole(
        self,
        spans: Spans,
        makespan_s: float,
        *,
        memory: Sequence[MemoryTrack],
        critical: np.ndarray,
        members: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """Show a result without a kernel to ask later: all spans, and the critical path with them."""
        self.show(spans, makespan_s, memory=memory, critical=lambda: critical, members=members)
        self._detail, self._wants_critical = None, True
        self._post()

    def light(self, lit: Lit) -> None:
        """Show a selection: lit spans stand out, the selected one has a frame."""
        with self.hold_sync():
            self.lit = {
                name: buffer(mask, "u1")
                for name, mask in (("nodes", lit.nodes), ("patterns", lit.patterns))
                if mask is not None
            }
            shown = describe_span(self._spans, lit.span)
            if lit.span >= 0 and self._arrows:
                shown["arrows"] = self._arrows(lit.span)
            self.span = shown

    def _post(self) -> None:
        """Send the columns: all of them, or the detail of the window."""
        self._rev += 1
        spans = self._spans
        if self._detail is None:
            rows: np.ndarray | slice = slice(None)
            columns, pointer = frame(spans), spans.lane_ptr
        else:
            rows, pointer = self._detail.serve(self._window)
            columns = {**frame(spans, rows), "id": buffer(rows, "i4")}
        if self._wants_critical and self._ask_critical:
            self._critical = self._ask_critical() if self._critical is None else self._critical
            columns["critical"] = buffer(self._critical[rows], "u1")
        lod = self._detail is not None
        self.data = {**self._frame, **columns, "lane_ptr": buffer(pointer, "u4"), "rev": self._rev, "lod": lod}

    def _receive(self, _widget: Any, message: dict[str, Any], _buffers: list[memoryview]) -> None:
        match message:
            case {"type": "select", "what": "span", "id": int(span)} if self._select:
                self._select(span)
            case {"type": "cursor", "at_s": (float() | int() | None) as at_s} if self._cursor:
                self._cursor(at_s)
            case {"type": "critical", "on": bool(on)}:
                self._wants_critical = on
                self._post()
            case {"type": "need"} if self._detail:
                self._window = Window(
                    from_s=float(message["from_s"]),
                    to_s=float(message["to_s"]),
                    first_lane=int(message["first_lane"]),
                    last_lane=int(message["last_lane"]),
                    pixels=min(int(message["pixels"]), MAX_PIXELS),
                )
                self._post()
