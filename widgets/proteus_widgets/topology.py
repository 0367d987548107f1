"""The topology: hosts, devices and links, coloured by how much they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anywidget
import numpy as np
import traitlets as t

from proteus.cluster import Cluster
from proteus.result.spans import SpanKind, Spans
from proteus.units import format_seconds
from proteus_widgets.assets import module, style
from proteus_widgets.layout import COLLAPSE_BEYOND, Picture, picture
from proteus_widgets.palette import LOOKS
from proteus_widgets.selection import patterns_crossing

#: lines of the table under the picture that names who uses a link
MOST_FLOWS = 5


class TopologyView(anywidget.AnyWidget):
    """Topology diagram; see ``docs/views/topology.md``."""

    _esm = module("topology/topology.js")
    _css = style("topology")

    picture = t.Dict().tag(sync=True)
    use: t.List[list[float]] = t.List().tag(sync=True)
    busy = t.Dict().tag(sync=True)
    lit = t.List(t.Int()).tag(sync=True)
    selected = t.Int(-1).tag(sync=True)
    info = t.List(t.Unicode()).tag(sync=True)
    caption = t.Unicode("link use over the step").tag(sync=True)
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


def flows_on(spans: Spans, cluster: Cluster, link: int, first: int, utilisation: float) -> list[str]:
    """Who uses `link`: its name and rate, then the operations with most time on it.

    `first` is the first link that is used alike, the one that spans name.
    """
    a, b = cluster.link_ends(link)
    head = f"{a} → {b} · {cluster.link_capacity_Bps[link] / 1e9:.4g} GB/s · {utilisation:.1%} used"
    mask = patterns_crossing(spans, first)
    rows = np.flatnonzero((spans.pattern >= 0) & mask[np.maximum(spans.pattern, 0)])
    if not len(rows):
        return [head, "no operation crosses it"]
    key = spans.name_id[rows].astype(np.int64) * len(SpanKind) + spans.kind[rows]
    kinds, inverse, count = np.unique(key, return_inverse=True, return_counts=True)
    time = np.bincount(inverse, weights=spans.duration_s[rows])
    lines = [
        f"{spans.names[kinds[i] // len(SpanKind)]} ({LOOKS[SpanKind(int(kinds[i] % len(SpanKind)))].label}): "
        f"{count[i]:,} ×, {format_seconds(float(time[i]))} together"
        for i in np.argsort(-time)[:MOST_FLOWS]
    ]
    return [head, *lines]
