"""The timeline: every device and stream over the step, on a canvas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import anywidget
import numpy as np
import traitlets as t

from proteus.result.spans import Spans, SpanKind
from proteus_widgets.assets import module, style
from proteus_widgets.columns import WHOLE_LIMIT, buffer, frame, lanes
from proteus_widgets.lod import Detail, Window
from proteus_widgets.palette import looks
from proteus_widgets.selection import Lit, describe_span

#: pixels and lanes of the first level of detail, before the browser has told its own
FIRST_PIXELS, FIRST_LANES = 2400, 96


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTrack:
    """Live bytes of one device over time: `live_bytes[i]` holds from `time_s[i]` on."""

    device: int
    time_s: np.ndarray
    live_bytes: np.ndarray
    capacity_bytes: float

    def message(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "time": buffer(self.time_s, "f8"),
            "live": buffer(self.live_bytes, "f8"),
            "capacity": self.capacity_bytes,
            "peak": float(self.live_bytes.max(initial=0.0)),
        }


class Timeline(anywidget.AnyWidget):
    """Canvas timeline; see ``docs/views/timeline.md``.

    It shows what :meth:`show` is given and reports picks through `on_select`;
    it never changes its own selection, so two views cannot chase each other.
    """

    _esm = module("timeline/timeline.js")
    _css = style("timeline")

    data = t.Dict().tag(sync=True)
    lit = t.Dict().tag(sync=True)
    span = t.Dict().tag(sync=True)
    kinds = t.List(looks()).tag(sync=True)
    view = t.List(t.Float()).tag(sync=True)
    height = t.Int(460).tag(sync=True)
    extent_s = t.Float(0.0).tag(sync=True)
    probe = t.Unicode("timeline").tag(sync=True)

    def __init__(self, on_select: Callable[[int], None] | None = None, **traits: Any) -> None:
        super().__init__(**traits)
        self._select = on_select
        self._detail: Detail | None = None
        self._frame: dict[str, Any] = {}
        self._critical: np.ndarray | None = None
        self._rev = 0
        self.on_msg(self._receive)

    def show(
        self,
        spans: Spans,
        makespan_s: float,
        *,
        memory: Sequence[MemoryTrack] = (),
        critical: np.ndarray | None = None,
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
            bool[spans]: whether a span is on the critical path.
        """
        self._spans = spans
        self._critical = critical
        self._frame = {
            "lanes": lanes(spans),
            "names": list(spans.names),
            "makespan_s": makespan_s,
            "total": len(spans),
            "kinds_present": np.unique(spans.kind).tolist(),
            "memory": [track.message() for track in memory],
        }
        self._detail = Detail(spans, makespan_s) if len(spans) > WHOLE_LIMIT else None
        if self._detail is None:
            self._post(slice(None), spans.lane_ptr)
        else:
            self._serve(
                Window(from_s=0.0, to_s=makespan_s, first_lane=0, last_lane=FIRST_LANES, pixels=FIRST_PIXELS),
            )

    def light(self, lit: Lit) -> None:
        """Show a selection: lit spans stand out, the selected one has a frame."""
        with self.hold_sync():
            self.lit = {
                name: buffer(mask, "u1")
                for name, mask in (("nodes", lit.nodes), ("patterns", lit.patterns))
                if mask is not None
            }
            self.span = describe_span(self._spans, lit.span)

    def _serve(self, window: Window) -> None:
        assert self._detail is not None
        rows, durations, pointer = self._detail.serve(window)
        self._post(rows, pointer, durations=durations)

    def _post(self, rows: np.ndarray | slice, pointer: np.ndarray, durations: np.ndarray | None = None) -> None:
        self._rev += 1
        columns = frame(self._spans, rows, durations=durations)
        if self._critical is not None:
            columns["critical"] = buffer(self._critical[rows], "u1")
        if isinstance(rows, np.ndarray):
            columns["id"] = buffer(rows, "i4")
        whole = isinstance(rows, slice)
        self.data = {**self._frame, **columns, "lane_ptr": buffer(pointer, "u4"), "rev": self._rev, "lod": not whole}

    def _receive(self, _widget: Any, message: dict[str, Any], _buffers: list[memoryview]) -> None:
        match message:
            case {"type": "select", "what": "span", "id": int(span)} if self._select:
                self._select(span)
            case {"type": "need"} if self._detail:
                self._serve(
                    Window(
                        from_s=float(message["from_s"]),
                        to_s=float(message["to_s"]),
                        first_lane=int(message["first_lane"]),
                        last_lane=int(message["last_lane"]),
                        pixels=min(int(message["pixels"]), 20_000),
                    ),
                )


assert len(looks()) == len(SpanKind)
