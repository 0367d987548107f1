"""The topology: hosts, devices and links, coloured by how much they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anywidget
import numpy as np
import traitlets as t

from proteus.cluster import Cluster
from proteus.units import format_seconds
from proteus_widgets.assets import module, style
from proteus_widgets.layout import COLLAPSE_BEYOND, picture
from proteus_widgets.shapes import Picture

OVER_THE_STEP = "link utilisation over the step"


class TopologyView(anywidget.AnyWidget):
    """Topology diagram; see ``docs/views/topology.md``."""

    _esm = module("topology")
    _css = style("topology")

    picture = t.Dict().tag(sync=True)
    use: t.List[list[float]] = t.List().tag(sync=True)
    busy = t.Dict().tag(sync=True)
    lit = t.List(t.Int()).tag(sync=True)
    selected = t.Int(-1).tag(sync=True)
    info = t.List(t.Unicode()).tag(sync=True)
    caption = t.Unicode(OVER_THE_STEP).tag(sync=True)
    closable = t.Bool(False).tag(sync=True)

    def __init__(self, on_select: Callable[[int], None] | None = None, **traits: Any) -> None:
        super().__init__(**traits)
        self._select = on_select
        self._cluster: Cluster | None = None
        self._layout: Picture | None = None
        self._opened: frozenset[int] = frozenset()
        self._utilisation = np.empty(0)
        self._first = np.empty(0, np.int64)
        self.on_msg(self._receive)

    def show(
        self,
        cluster: Cluster,
        utilisation: np.ndarray,
        busy: dict[int, float],
        first_link: np.ndarray | None = None,
    ) -> None:
        """Show `cluster`.

        Parameters
        ----------
        utilisation
            float64[links]: share of its capacity that each link carries over the step.
        busy
            Share of the step that devices compute; devices that are not in it stay pale.
        first_link
            int[links]: of links that are used alike, the first; by default each is its own.
        """
        self._first = np.arange(cluster.num_links) if first_link is None else first_link
        self._utilisation = utilisation
        if cluster != self._cluster:
            self._cluster, self._opened = cluster, frozenset()
            self._layout = None
        with self.hold_sync():
            self._draw()
            self.busy = {str(device): round(share, 4) for device, share in busy.items()}

    def light(self, links: tuple[int, ...], selected: int, info: list[str]) -> None:
        """Mark `links` and those used alike; `selected` is the one that was picked, or -1."""
        with self.hold_sync():
            assert self._layout is not None
            wanted = set(links)
            drawn = {link for edge in self._layout.edges for link in edge.links}
            self.lit = sorted(link for link in drawn if int(self._first[link]) in wanted)
            self.selected, self.info = selected, info

    def show_moment(self, time_s: float | None, utilisation: np.ndarray) -> None:
        """Colour the links by their use at a moment, or (None) over the step."""
        self._utilisation = utilisation
        with self.hold_sync():
            self.caption = OVER_THE_STEP if time_s is None else f"link utilisation at {format_seconds(time_s)}"
            self._draw()

    def _draw(self) -> None:
        assert self._cluster is not None
        if self._layout is None:
            self._layout = picture(self._cluster, self._opened)
            self.closable = self._cluster.num_devices > COLLAPSE_BEYOND
            self.picture = self._layout.message()
        self.use = [[round(float(self._utilisation[link]), 4) for link in e.links] for e in self._layout.edges]

    def _receive(self, _widget: Any, message: dict[str, Any], _buffers: list[memoryview]) -> None:
        match message:
            case {"type": "select", "what": "link", "id": int(link)} if self._select:
                self._select(link)
            case {"type": "open", "host": int(host)} if self._cluster:
                self._opened = self._opened ^ {host}
                self._layout = None
                with self.hold_sync():
                    self._draw()
