"""Why is it slow: the ladder, the exposed communication, and the most useful changes."""

from __future__ import annotations

import asyncio
from typing import Any

import anywidget
import traitlets as t

from proteus_widgets.assets import module, style
from proteus_widgets.explain import why
from proteus_widgets.session import Session

#: suggestions are sought when nothing was changed for so long [s]: they must not slow the next change
CALM_S = 0.6


class Why(anywidget.AnyWidget):
    """Explain panel; see ``docs/views/why.md``.  Suggestions are only sought while it is shown."""

    _esm = module("why")
    _css = style("why")

    why = t.Dict().tag(sync=True)

    def __init__(self, session: Session, **traits: Any) -> None:
        super().__init__(**traits)
        self._session = session
        self.searching = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._later: asyncio.TimerHandle | None = None
        session.observe(self._found, "suggestions")
        session.observe(self._calm, "busy")
        self.on_msg(self._receive)

    def show(self) -> None:
        """Show the ladder at once and look for useful changes meanwhile."""
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:  # outside Jupyter nobody looks; Session.suggest() is there for scripts
            self.draw()
            return
        self.searching = True
        self.draw()
        self._seek()

    def _seek(self) -> None:
        assert self._loop is not None
        if self._later:
            self._later.cancel()
        self._later = self._loop.call_later(CALM_S, self._session.request_suggestions)

    def _calm(self, change: Any) -> None:
        """A change that ended the search was refused or stopped: what is shown still wants its suggestions."""
        if self.searching and not change.new:
            self._seek()

    def _found(self, change: Any) -> None:
        if self.searching and self._session.outcome is not None:
            self.searching = False
            self.draw()

    def draw(self) -> None:
        """Show what is known now."""
        changes = [
            {"label": s.label, "gain": f"{s.gain:.1%} faster" if s.gain > 0 else "fits"}
            for s in self._session.suggestions
        ]
        self.why = {
            **why(self._session.result, self._session.levers, self._session.band),
            "changes": changes,
            "searching": self.searching,
        }

    def _receive(self, _widget: Any, message: dict[str, Any], _buffers: list[memoryview]) -> None:
        match message:
            case {"type": "apply", "index": int(index)} if 0 <= index < len(self._session.suggestions):
                self._session.request(**self._session.suggestions[index].changes)
            case {"type": "select", "what": "node", "id": int(row)}:
                self._session.select("node", row)
