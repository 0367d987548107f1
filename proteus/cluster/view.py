"""A cluster as a graph, for drawing and for questions to networkx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proteus.cluster.columns import leaf_link_name
from proteus.cluster.kinds import LinkKind, VertexKind

if TYPE_CHECKING:
    import networkx as nx

    from proteus.cluster.cluster import Cluster


def link_ends(cluster: Cluster, link: int) -> tuple[str, str]:
    """Names of the vertices that `link` joins; at the end of a NIC stands its leaf switch."""
    name = cluster.link_name(link)
    place, _, ends = name.partition("/")
    if place == "fabric":
        src, dst = ends.split("->")
        return src, dst
    host_number = int(place.removeprefix("host"))
    host = cluster.host_at(host_number)
    ends_of = host.links[link - cluster.link_range(host_number).start]

    def full(vertex: int, peer: int) -> str:
        if host.vertices[vertex].kind == VertexKind.NETWORK:
            return f"leaf{leaf_of_rail(cluster, host_number, host.vertices[peer].rail)}"
        return f"{place}/{host.vertices[vertex].name}"

    return full(ends_of.src, ends_of.dst), full(ends_of.dst, ends_of.src)


def leaf_of_rail(cluster: Cluster, host: int, rail: int) -> int:
    """Leaf switch that a NIC of `host` on `rail` is wired to."""
    from proteus.cluster.columns import num_rails

    unit = host // cluster.fabric.hosts_per_leaf
    if cluster.fabric.kind == "leaf":
        return unit
    return unit * num_rails([run_host for run_host, _ in cluster.runs]) + rail


def to_networkx(cluster: Cluster, max_hosts: int | None = None) -> nx.DiGraph:
    """Vertices and links of the first `max_hosts` hosts, and the fabric above them.

    Vertices have ``kind``, ``host`` (-1 in the fabric) and ``device`` (-1
    unless a GPU); edges have ``link``, ``kind`` (name of a LinkKind) and
    ``capacity_Bps``.  The lanes between a NIC and what it hangs from are the
    same link as its port.  Leaf to spine has link -1 when it never limits.
    """
    import networkx as nx

    graph = nx.DiGraph()
    hosts = range(cluster.num_hosts if max_hosts is None else min(max_hosts, cluster.num_hosts))
    capacity = cluster.link_capacity_Bps
    leaves: set[int] = set()
    for h in hosts:
        host = cluster.host_at(h)
        links = cluster.link_range(h)
        for i, vertex in enumerate(host.vertices):
            if vertex.kind != VertexKind.NETWORK:
                device = h * cluster.devices_per_host + i if vertex.kind == VertexKind.GPU else -1
                graph.add_node(f"host{h}/{vertex.name}", kind=vertex.kind.value, host=h, device=device)
        for link, ends in zip(links, host.links, strict=True):
            attributes: dict[str, Any] = {
                "link": link,
                "kind": ends.kind.name,
                "capacity_Bps": float(capacity[link]),
            }
            a, b = (host.vertices[i] for i in (ends.src, ends.dst))
            if VertexKind.NETWORK not in (a.kind, b.kind):
                graph.add_edge(f"host{h}/{a.name}", f"host{h}/{b.name}", **attributes)
                continue
            nic, outward = (a, True) if b.kind == VertexKind.NETWORK else (b, False)
            leaf = leaf_of_rail(cluster, h, nic.rail)
            leaves.add(leaf)
            chain = [f"host{h}/{host.vertices[nic.parent].name}", f"host{h}/{nic.name}", f"leaf{leaf}"]
            graph.add_node(f"leaf{leaf}", kind="leaf", host=-1, device=-1)
            nx.add_path(graph, chain if outward else chain[::-1], **attributes)
    _add_spine(cluster, graph, leaves)
    return graph


def _add_spine(cluster: Cluster, graph: nx.DiGraph, leaves: set[int]) -> None:
    if len(leaves) < 2:
        return
    graph.add_node("spine", kind="spine", host=-1, device=-1)
    first = cluster.link_range(cluster.num_hosts - 1).stop
    for leaf in sorted(leaves):
        for number in (2 * leaf, 2 * leaf + 1):
            src, dst = leaf_link_name(number).split("->")
            link = first + number if cluster.fabric.has_links else -1
            graph.add_edge(
                src,
                dst,
                link=link,
                kind=(LinkKind.SPINE if number % 2 else LinkKind.LEAF).name,
                capacity_Bps=float(cluster.link_capacity_Bps[link]) if link >= 0 else float("inf"),
            )
