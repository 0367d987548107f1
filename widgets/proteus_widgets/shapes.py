"""What a picture of a cluster is made of."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

#: height of a box
BOX = 20.0


@dataclass(slots=True)
class Node:
    """A box. `device` is -1 unless it is a GPU."""

    name: str
    label: str
    kind: str
    x: float
    y: float
    width: float
    height: float = BOX
    device: int = -1

    def message(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("name", "label", "kind", "x", "y", "width", "height", "device")}


@dataclass(slots=True)
class Edge:
    """A drawn line: the directed links of both ways, and its SVG path."""

    ends: tuple[str, str]
    links: tuple[int, ...]
    kind: str
    capacity_Bps: float
    path: str = ""

    def message(self) -> dict[str, Any]:
        return {
            "ends": list(self.ends),
            "links": list(self.links),
            "kind": self.kind,
            "capacity": self.capacity_Bps if math.isfinite(self.capacity_Bps) else None,
            "path": self.path,
        }


@dataclass(slots=True)
class HostBox:
    """The frame of a host; `cells` are the GPUs of a collapsed one."""

    host: int
    label: str
    x: float
    y: float
    width: float
    height: float
    cells: list[dict[str, float]] = field(default_factory=list)

    def message(self) -> dict[str, Any]:
        return {n: getattr(self, n) for n in ("host", "label", "x", "y", "width", "height", "cells")}


@dataclass(slots=True)
class Picture:
    width: float
    height: float
    nodes: list[Node]
    edges: list[Edge]
    hosts: list[HostBox]
    note: str = ""

    def message(self) -> dict[str, Any]:
        return {
            "width": self.width,
            "height": self.height,
            "note": self.note,
            "nodes": [n.message() for n in self.nodes],
            "edges": [e.message() for e in self.edges],
            "hosts": [h.message() for h in self.hosts],
        }
