"""Devices, links, switches and routes; presets; readers of topology files."""

from __future__ import annotations

from proteus.cluster import clusters
from proteus.cluster.cluster import Cluster
from proteus.cluster.fabric import Fabric
from proteus.cluster.faults import Faults
from proteus.cluster.host import Host, Link, Vertex
from proteus.cluster.kinds import LinkKind, VertexKind

__all__ = [
    "Cluster",
    "Fabric",
    "Faults",
    "Host",
    "Link",
    "LinkKind",
    "Vertex",
    "VertexKind",
    "clusters",
]
