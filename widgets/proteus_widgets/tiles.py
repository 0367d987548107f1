"""Hosts of a large cluster as tiles: a cell per GPU, and bars that represent many links.

::

    ───── network ─────
    ┌ ━━━━ ┐  ┌ ━━━━ ┐     on top: the network adapters of a host
    │ 0    │  │ 1    │
    │ ▪▪▪▪ │  │ ▪▪▪▪ │
    └ ━━━━ ┘  └ ━━━━ ┘     at the foot: what joins its GPUs
"""

from __future__ import annotations

import math

import numpy as np

from proteus.cluster import Cluster, LinkKind
from proteus_widgets.shapes import BOX, Edge, HostBox, Node

MAX_TILES = 128
TILES_ASPECT = 2.2  # width by height of the field of tiles
CELL, TILE_GAP = 9.0, 10.0
INSET = 9.0  # from the corner of a tile, which is round, to a bar
#: what joins the GPUs of a host: the first of these kinds that it has
INSIDE = (
    (LinkKind.NVLINK, LinkKind.NVSWITCH, LinkKind.XGMI, LinkKind.C2C),
    (LinkKind.PCIE,),
)


def tiles(cluster: Cluster, hosts: list[int], top: float, minimum: float) -> tuple[list[HostBox], str]:
    """The tiles of `hosts` from `top` on in rows at least `least` wide, and a note on those that are too many."""
    per = cluster.devices_per_host
    columns = 4 if per <= 16 else 9
    rows = -(-per // columns)
    width, height = columns * CELL + 12, rows * CELL + 26
    shown = hosts[:MAX_TILES]
    in_row = math.ceil(math.sqrt(TILES_ASPECT * len(shown) * (height + TILE_GAP) / (width + TILE_GAP))) if shown else 1
    in_row = max(in_row, int((minimum + TILE_GAP) // (width + TILE_GAP)), 1)
    placed = []
    for i, host in enumerate(shown):
        x = (i % in_row) * (width + TILE_GAP)
        y = top + (i // in_row) * (height + TILE_GAP)
        cells = [
            {"device": host * per + k, "x": x + 7 + (k % columns) * CELL, "y": y + 20 + (k // columns) * CELL}
            for k in range(per)
        ]
        placed.append(HostBox(host, str(host), x, y, width, height, cells))
    rest = len(hosts) - len(shown)
    return placed, f"and {rest:,} more hosts" if rest else ""


def tile_bars(cluster: Cluster, shown: list[HostBox]) -> list[Edge]:
    """Two bars for every tile: its network adapters on top, the links between its GPUs at the foot."""
    bars = []
    for tile in shown:
        links = np.asarray(cluster.link_range(tile.host))
        kind = cluster.link_kind[links]
        inside = next((tile_links for kinds in INSIDE if len(tile_links := links[np.isin(kind, kinds)])), links[:0])
        for y, tile_links, name in (
            (tile.y, links[kind == LinkKind.NIC], "network"),
            (tile.y + tile.height, inside, "GPU to GPU"),
        ):
            if len(tile_links):
                bars.append(_bar(cluster, tile_links, (f"host {tile.host}", name), tile.x, tile.width, y))
    return bars


def fabric_bar(cluster: Cluster, width: float) -> tuple[list[Node], list[Edge]]:
    """The network over the tiles as one box, and a bar for its links where they can limit anything."""
    if cluster.num_hosts == 1:
        return [], []
    middle, wide = width / 2, width * 0.5
    box = Node("network", "leaf and spine switches", "spine", middle, BOX / 2, wide)
    links = np.arange(cluster.link_range(cluster.num_hosts - 1).stop, cluster.num_links)
    if not len(links):
        return [box], []
    return [box], [_bar(cluster, links, ("leaf", "spine"), middle - wide / 2, wide, BOX)]


def _bar(cluster: Cluster, links: np.ndarray, ends: tuple[str, str], x: float, width: float, y: float) -> Edge:
    return Edge(
        ends=ends,
        links=tuple(links.tolist()),
        kind=LinkKind(int(cluster.link_kind[links[0]])).name,
        capacity_Bps=float(cluster.link_capacity_Bps[links].min()),
        path=f"M{x + INSET:g},{y:g} L{x + width - INSET:g},{y:g}",
    )
