"""Where everything of a topology stands: layers, always the same for the same cluster.

::

        spine                        the fabric first,
    leaf0  leaf1 ...                 hosts under it in one row, or, from five
    ┌ host 0 ───────┐                hosts on, in two rows with the fabric
    │ nic0  nic1    │                between them (the upper row upside down)
    │    cpu0       │
    │ pcie0  pcie1  │
    │ 0 1 2 3 ...   │
    │ [ NVSwitch ]  │
    └───────────────┘

Beyond :data:`COLLAPSE_BEYOND` GPUs a host is a tile (:mod:`proteus_widgets.tiles`),
unless it was opened.
"""

from __future__ import annotations

from collections.abc import Collection

import networkx as nx

from proteus.cluster import Cluster
from proteus_widgets.shapes import BOX, Edge, HostBox, Node, Picture
from proteus_widgets.tiles import fabric_bar, tile_bars, tiles

COLLAPSE_BEYOND = 64
ROW_OF_HOSTS = 4  # more full hosts than this take two rows
COLUMN, LAYER = 34.0, 44.0
PAD, GAP = 12.0, 22.0
MARGIN = 34.0  # from the frame of a host to the middle of its outermost layers; its label fits there
ARCS = 28.0  # room under the GPUs for links from GPU to GPU
#: layers of a host, counted from the fabric; memory is not drawn
LAYERS = ("nic", "cpu", "pcie", "gpu", "nvswitch")


def picture(cluster: Cluster, opened: Collection[int] = ()) -> Picture:
    """Lay `cluster` out; `opened` are hosts to show in full although they would collapse."""
    collapse = cluster.num_devices > COLLAPSE_BEYOND or cluster.num_hosts > 4 * ROW_OF_HOSTS
    full = (
        sorted(h for h in opened if h < cluster.num_hosts)[:ROW_OF_HOSTS]
        if collapse
        else list(range(cluster.num_hosts))
    )
    graph = _graph(cluster, full)
    rows = [full] if len(full) <= ROW_OF_HOSTS else [full[: -(-len(full) // 2)], full[-(-len(full) // 2) :]]
    placed = [[_host(cluster, graph, host) for host in row] for row in rows]
    for row in placed:
        _spread(row)
    width = max([box.x + box.width for row in placed for box, _ in row], default=0.0)
    width = max(width, 4 * COLUMN)
    fabric = [name for name, data in graph.nodes(data=True) if data["host"] < 0]
    fabric_height = (2 if "spine" in fabric else 1) * LAYER if fabric else 0.0
    tallest = [max((box.height for box, _ in row), default=0.0) for row in placed]
    top = tallest[0] + GAP if len(placed) == 2 else 0.0  # of the fabric
    nodes = _fabric(fabric, width, top, between=len(placed) == 2)
    boxes = []
    for number, row in enumerate(placed):
        flip = len(placed) == 2 and number == 0
        y = 0.0 if flip else top + fabric_height + (GAP if fabric else 0.0)
        for box, inner in row:
            _move(box, inner, y, flip)
            boxes.append(box)
            nodes += inner
    bottom = max([box.y + box.height for box in boxes], default=top + fabric_height)
    note, bars = "", []
    if collapse:
        closed = [h for h in range(cluster.num_hosts) if h not in full]
        over = bottom if full else BOX if cluster.num_hosts > 1 else -GAP
        small, note = tiles(cluster, closed, over + GAP, width if full else 0.0)
        boxes += small
        width = max([width, *(t.x + t.width for t in small)])
        bottom = max([bottom, *(t.y + t.height for t in small)])
        bars = tile_bars(cluster, small)
        if not full:
            network, bar = fabric_bar(cluster, width)
            nodes += network
            bars += bar
    edges = _edges(graph, {node.name: node for node in nodes}, {box.host: box for box in boxes}, width) + bars
    return Picture(width, bottom, nodes, edges, boxes, note)


def _graph(cluster: Cluster, hosts: list[int]) -> nx.DiGraph:
    graph = cluster.to_networkx(max(hosts) + 1 if hosts else 0)
    keep = [
        name
        for name, data in graph.nodes(data=True)
        if data["kind"] != "memory" and (data["host"] in hosts or (data["host"] < 0 and cluster.num_hosts > 1))
    ]
    drawn = nx.DiGraph()  # a subgraph view would not keep the order
    drawn.add_nodes_from((name, graph.nodes[name]) for name in keep)
    drawn.add_edges_from((a, b, data) for a, b, data in graph.edges(data=True) if a in drawn and b in drawn)
    return drawn


def _host(cluster: Cluster, graph: nx.DiGraph, host: int) -> tuple[HostBox, list[Node]]:
    """The inside of one host with the origin at its own corner, fabric side up."""
    members = [(name, data) for name, data in graph.nodes(data=True) if data["host"] == host]
    by_kind = {kind: [name for name, data in members if data["kind"] == kind] for kind in LAYERS}
    x: dict[str, float] = {name: (i + 0.5) * COLUMN for i, name in enumerate(by_kind["gpu"])}
    span = max(len(by_kind["gpu"]), 2) * COLUMN
    for kind in ("pcie", "cpu", "nic"):
        for i, name in enumerate(by_kind[kind]):
            near = [x[n] for n in graph.successors(name) if n in x and graph.nodes[n]["kind"] != "nic"]
            x[name] = sum(near) / len(near) if near else (i + 0.5) * span / len(by_kind[kind])
        _separate(by_kind[kind], x, _width(kind, span) + 4.0, span)
    used = [kind for kind in LAYERS if by_kind[kind]]
    data_of = dict(members)
    nodes = [
        Node(
            name=name,
            label=_label(name, kind, data_of[name]["device"]),
            kind=kind,
            x=span / 2 if kind == "nvswitch" else x[name],
            y=MARGIN + layer * LAYER,
            width=_width(kind, span),
            device=data_of[name]["device"],
        )
        for layer, kind in enumerate(used)
        for name in by_kind[kind]
    ]
    arcs = ARCS if any(_is_arc(graph, a, b) for a, b in graph.edges if a in data_of) else 0.0
    height = 2 * MARGIN + (len(used) - 1) * LAYER + arcs
    return HostBox(host, f"host {host}", 0.0, 0.0, span + 2 * PAD, height), nodes


def _is_arc(graph: nx.DiGraph, a: str, b: str) -> bool:
    return graph.nodes[a]["kind"] == graph.nodes[b]["kind"] == "gpu"


def _width(kind: str, span: float) -> float:
    return {"nvswitch": span - 4, "cpu": 44.0}.get(kind, 30.0)


def _label(name: str, kind: str, device: int) -> str:
    if kind == "gpu":
        return str(device)
    if kind == "nvswitch":
        return "NVSwitch"
    short = name.rpartition("/")[2]
    if kind == "pcie":
        return f"sw{short.removeprefix('pcie')}"
    maximum = 4 if kind == "nic" else 7
    return short if len(short) <= maximum else f"…{short[1 - maximum :]}"


def _separate(names: list[str], x: dict[str, float], minimum: float, span: float) -> None:
    """Push neighbours apart to at least `least`, keeping their order and, where it fits, their middle."""
    if not names:
        return
    order = sorted(names, key=lambda name: (x[name], names.index(name)))
    minimum = min(minimum, span / len(order))
    wanted = [x[name] for name in order]
    for i in range(1, len(order)):
        x[order[i]] = max(x[order[i]], x[order[i - 1]] + minimum)
    shift = sum(x[name] - w for name, w in zip(order, wanted, strict=True)) / len(order)
    low, high = x[order[0]] - shift - minimum / 2, x[order[-1]] - shift + minimum / 2
    shift += min(low, 0.0) + max(high - span, 0.0)
    for name in order:
        x[name] -= shift


def _spread(row: list[tuple[HostBox, list[Node]]]) -> None:
    at = 0.0
    for box, inner in row:
        box.x = at
        for node in inner:
            node.x += at + PAD
        at += box.width + GAP


def _move(box: HostBox, inner: list[Node], y: float, flip: bool) -> None:
    box.y = y
    for node in inner:
        node.y = y + (box.height - node.y if flip else node.y)


def _fabric(names: list[str], width: float, top: float, *, between: bool) -> list[Node]:
    leaves = sorted((n for n in names if n != "spine"), key=lambda n: (len(n), n))
    has_spine = "spine" in names
    # between two rows of hosts the spine would be in the way of half the lines: it stands beside them as a thin bar
    spine_y, leaf_y = top + BOX / 2 + 2, top + BOX / 2 + (LAYER if has_spine else 2)
    each = width / max(len(leaves), 1)
    nodes = [
        Node(name, name, "leaf", (i + 0.5) * each, leaf_y, min(each - 8, 5 * COLUMN) if len(leaves) > 1 else width - 8)
        for i, name in enumerate(leaves)
    ]
    if has_spine:
        nodes.append(Node("spine", "spine", "spine", width / 2, spine_y, width * (0.3 if between else 0.5)))
    return nodes


def _edges(graph: nx.DiGraph, nodes: dict[str, Node], boxes: dict[int, HostBox], width: float) -> list[Edge]:
    edges = []
    for a, b, data in graph.edges(data=True):
        if a not in nodes or b not in nodes:
            continue
        back = graph.get_edge_data(b, a)
        if back is not None and (b, a) < (a, b):
            continue
        links = tuple(link for link in (data["link"], back["link"] if back else -1) if link >= 0)
        edge = Edge((a, b), links, data["kind"], data["capacity_Bps"])
        hosts = [graph.nodes[end]["host"] for end in (a, b)]
        if _is_arc(graph, a, b):
            edge.path = _arc(nodes[a], nodes[b])
        elif min(hosts) < 0 <= max(hosts):
            leaf, nic = (nodes[a], nodes[b]) if hosts[0] < 0 else (nodes[b], nodes[a])
            edge.path = _uplink(leaf, nic, boxes[max(hosts)], width)
        else:
            edge.path = _straight(nodes[a], nodes[b])
        edges.append(edge)
    return edges


def _arc(a: Node, b: Node) -> str:
    low = a.y + BOX / 2
    bend = 12.0 + 24.0 * min(1.0, abs(a.x - b.x) / (8 * COLUMN))
    return f"M{a.x:g},{low:g} C{a.x:g},{low + bend:g} {b.x:g},{low + bend:g} {b.x:g},{low:g}"


def _straight(a: Node, b: Node) -> str:
    if a.y == b.y:
        return f"M{a.x:g},{a.y:g} L{b.x:g},{b.y:g}"
    upper, lower = (a, b) if a.y < b.y else (b, a)
    x0, x1 = _onto(upper, lower.x), _onto(lower, upper.x)
    return f"M{x0:g},{upper.y + BOX / 2:g} L{x1:g},{lower.y - BOX / 2:g}"


def _onto(node: Node, x: float) -> float:
    """Where a line towards `x` meets a box: wide ones anywhere, others in their middle."""
    if node.kind not in ("nvswitch", "leaf", "spine"):
        return node.x
    half = node.width / 2 - 8
    return min(max(x, node.x - half), node.x + half)


def _uplink(leaf: Node, nic: Node, box: HostBox, width: float) -> str:
    """Straight from the NIC to the frame of its host, then in a curve to the leaf switch."""
    up = leaf.y < nic.y
    edge = box.y if up else box.y + box.height
    end = leaf.y + (BOX / 2 if up else -BOX / 2)
    start = nic.y - (BOX / 2 if up else -BOX / 2)
    x = leaf.x + (nic.x / width - 0.5) * (leaf.width - 16)
    middle = (edge + end) / 2
    return f"M{nic.x:g},{start:g} L{nic.x:g},{edge:g} C{nic.x:g},{middle:g} {x:g},{middle:g} {x:g},{end:g}"
