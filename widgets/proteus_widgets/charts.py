"""Bokeh charts in the workbench."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import anywidget
import traitlets as t

from proteus_widgets.assets import module, style
from proteus_widgets.session import Session


class Charts(anywidget.AnyWidget):
    """Memory, time, link and roofline charts; see ``docs/views/charts.md``.

    Bokeh is only imported, and its JavaScript only sent, once the charts are shown.
    """

    _esm = module("chart")
    _css = style("chart")

    items = t.List(t.Dict()).tag(sync=True)
    dark = t.Bool(False).tag(sync=True)
    version = t.Unicode(version("bokeh")).tag(sync=True)

    def __init__(self, session: Session, **traits: Any) -> None:
        super().__init__(**traits)
        self._session = session
        self.observe(self._theme, "dark")
        self.on_msg(self._receive)

    def show(self) -> None:
        """Draw the charts of the present result."""
        self.items = chart_items(self._session.result, dark=self.dark)

    def _theme(self, _change: Any) -> None:
        if self.items:
            self.show()

    def _receive(self, _widget: Any, message: dict[str, Any], _buffers: list[memoryview]) -> None:
        if message.get("type") == "library":
            self.send({"type": "library"}, [library()])


def library() -> bytes:
    """BokehJS of the installed package."""
    from bokeh.settings import settings

    return (settings.bokehjs_path() / "js" / "bokeh.min.js").read_bytes()


def chart_items(result: Any, *, dark: bool) -> list[dict[str, Any]]:
    """The figures as bokeh's JSON, each with a text for those who cannot see it."""
    from bokeh.embed import json_item

    from proteus_widgets import figures

    look = figures.theme(dark=dark)
    charts = (
        (figures.memory, "Memory per owner over the step"),
        (figures.breakdown, "Time per device and activity"),
        (figures.links, "Link utilisation per kind of link"),
        (figures.roofline, "Roofline: operator speed and the limits of the GPU"),
    )
    return [{"figure": json_item(draw(result), theme=look), "alt": alt} for draw, alt in charts]
