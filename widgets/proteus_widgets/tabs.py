"""Tabs of our own: those of ipywidgets let single keys through to the notebook, where D D deletes the cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import anywidget
import ipywidgets as w
import traitlets as t

from proteus_widgets.assets import module, style

if TYPE_CHECKING:
    from proteus_widgets.charts import Charts
    from proteus_widgets.code import Code
    from proteus_widgets.compare import Compare
    from proteus_widgets.why import Why

    Panel: TypeAlias = Why | Charts | Compare | Code


class TabBar(anywidget.AnyWidget):
    """The titles; see :class:`Tabs`.  The browser picks the first one when it draws the bar."""

    _esm = module("tabs")
    _css = style("tabs")

    titles = t.List(t.Unicode()).tag(sync=True)
    selected = t.Int(-1).tag(sync=True)


class Tabs(w.VBox):
    """Panels of which one is seen.

    Parameters
    ----------
    panels
        Each by its title.
    """

    selected_index = t.Int(-1, help="the visible panel, or -1")

    def __init__(self, panels: Mapping[str, Panel]) -> None:
        self.panels = tuple(panels.values())
        self.bar = TabBar(titles=list(panels))
        super().__init__([self.bar, *self.panels])
        for box in (self, *self.panels):  # as high as what they hold: the page scrolls, not a box in it
            box.layout.overflow, box.layout.flex = "visible", "0 0 auto"
        t.link((self.bar, "selected"), (self, "selected_index"))
        self.observe(self._turn, "selected_index")
        self._turn()

    @property
    def seen(self) -> Panel | None:
        at = self.selected_index
        return self.panels[at] if 0 <= at < len(self.panels) else None

    def _turn(self, _change: Any = None) -> None:
        for panel in self.panels:
            panel.layout.display = None if panel is self.seen else "none"
