"""The headline: the numbers that matter, their change, and the session's buttons."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets as t

from proteus.result.headline import idle_warning
from proteus_widgets.assets import module, style
from proteus_widgets.facts import band_reasons, change, memory_verdict, metrics
from proteus_widgets.session import Session


class Headline(anywidget.AnyWidget):
    """Headline metrics; see ``docs/views/headline.md``."""

    _esm = module("headline")
    _css = style("headline")

    metrics = t.List(t.Dict()).tag(sync=True)
    can = t.Dict().tag(sync=True)
    facts = t.Unicode("", help="what was simulated, in one line").tag(sync=True)
    warning = t.Unicode("", help="warning that devices are idle; empty if none are").tag(sync=True)
    assumptions = t.List(t.Unicode(), help="what was assumed where the user set nothing").tag(sync=True)

    def __init__(self, session: Session, **traits: Any) -> None:
        super().__init__(**traits)
        self._session = session
        self.price_per_hour = 0.0
        self.on_msg(self._receive)

    def show(self) -> None:
        """Show the result of the session beside the one before."""
        session = self._session
        entries = []
        for metric in metrics(session.result, self.price_per_hour):
            now = metric.read(session.result)
            words, good = change(metric, now, metric.read(session.before) if session.before else None)
            note, tip = "", metric.tip
            if metric.label == "Step time":
                band = session.band or session.result.kernel_band
                note, tip = band.ends, band_reasons(session.result, session.band)
            if metric.label == "Peak memory":
                words = " · ".join(filter(None, [memory_verdict(session.result), words]))
                good = good if session.result.fits else False
            shown = {"label": metric.label, "value": metric.show(now), "note": note, "tip": tip}
            entries.append({**shown, "change": words, "good": good})
        with self.hold_sync():
            self.metrics = entries
            self.facts = session.result.headline
            self.warning = idle_warning(session.result)
            self.assumptions = [line for line in session.result.assumptions if line != self.warning]
            self.state()

    def state(self) -> None:
        """Show what the buttons can do now."""
        session = self._session
        self.can = {
            "undo": session.can_undo,
            "redo": session.can_redo,
            "pin": True,
            "pinned": session.pinned is not None,
            "stop": session.busy,
            "progress": round(session.progress, 3),
        }

    def _receive(self, _widget: Any, message: dict[str, Any], _buffers: list[memoryview]) -> None:
        session = self._session
        match message:
            case {"type": "action", "name": "undo"}:
                session.undo()
            case {"type": "action", "name": "redo"}:
                session.redo()
            case {"type": "action", "name": "stop"}:
                session.stop()
            case {"type": "action", "name": "pin"}:
                session.unpin() if session.pinned is session.outcome else session.pin()
