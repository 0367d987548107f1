"""One host: its vertices and directed links, and which NIC serves which GPU."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from proteus.cluster import refit
from proteus.cluster.kinds import HOP_LATENCY_S, LinkKind, VertexKind
from proteus.cluster.layout import Layout, Slot
from proteus.errors import TopologyError, unknown
from proteus.hardware import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertex:
    """A part of a host; `parent` is the index of what it hangs from, or -1."""

    name: str
    kind: VertexKind
    parent: int = -1
    rail: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A directed link between two vertices of a host [B/s]."""

    src: int
    dst: int
    kind: LinkKind
    capacity_Bps: float

    @property
    def latency_s(self) -> float:
        """Time that one hop over it takes [s]."""
        return HOP_LATENCY_S[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host.  Build it with :func:`build`.

    Parameters
    ----------
    name
        Of the template, such as ``"dgx-a100"``.
    layout
        What it was built from, with NICs that always work together merged.
    vertices
        The GPUs first, so that vertex ``i`` is local device ``i``.
    links
        Directed links; both directions of a cable follow each other.
    nic_of_gpu
        Of every local device the vertex of its NIC, or -1 when the host has none.
    notes
        What was assumed about it.
    network_notes
        What was assumed about its way into the network; matters with two hosts or more.
    """

    name: str
    layout: Layout = field(repr=False)
    vertices: tuple[Vertex, ...] = field(repr=False)
    links: tuple[Link, ...] = field(repr=False)
    nic_of_gpu: tuple[int, ...] = field(repr=False)
    notes: tuple[str, ...] = ()
    network_notes: tuple[str, ...] = ()

    def __hash__(self) -> int:
        # Equal hosts have equal names and sizes; hashing every link would cost more than comparing.
        return hash((self.name, len(self.vertices), len(self.links)))

    @property
    def gpus(self) -> tuple[Gpu | None, ...]:
        """Data sheets by local device."""
        return self.layout.gpus

    @property
    def num_gpus(self) -> int:
        return len(self.layout.gpus)

    @property
    def nics(self) -> tuple[str, ...]:
        """Names of the NICs."""
        return tuple(nic.name for nic in self.layout.nics)

    @property
    def has_nvswitch(self) -> bool:
        return bool(self.layout.switched_Bps)

    def link_name(self, link: int) -> str:
        """Such as ``"gpu0->nvswitch"``."""
        ends = self.links[link]
        return f"{self.vertices[ends.src].name}->{self.vertices[ends.dst].name}"

    def without_nic(self, nic: str) -> Host:
        """The same host with one NIC missing; its GPUs use the next nearest."""
        if nic not in self.nics:
            raise TopologyError(unknown(f"NIC of {self.name}", nic, self.nics))
        left = tuple(slot for slot in self.layout.nics if slot.name != nic)
        nearest = tuple(tuple(n for n in names if n != nic) for names in self.layout.nearest)
        layout = replace(self.layout, nics=left, nearest=nearest)
        return build(self.name, layout, notes=self.notes, network_notes=self.network_notes)

    def with_gpu(self, gpu: Gpu) -> Host:
        """The same host with other GPUs in it, and the links that go with them (:mod:`proteus.cluster.refit`)."""
        layout = refit.refitted(self.name, self.layout, gpu)
        notes = self.notes if layout.design is None else refit.notes(layout)
        return build(self.name, layout, notes=notes, network_notes=self.network_notes)


def build(name: str, layout: Layout, *, notes: tuple[str, ...] = (), network_notes: tuple[str, ...] = ()) -> Host:
    """Vertices, links and NIC choice of a layout.

    The NIC of a GPU is one of its nearest; GPUs with the same nearest NICs
    take turns.  A GPU that has several NICs to itself uses them as one with
    their rates added, as NCCL spreads its channels over them.
    """
    layout = _merge_nics(layout)
    gpus = tuple(slot.name for slot in layout.gpu_slots)
    names = [*gpus, *layout.cpus, *(s.name for s in layout.switches), *(s.name for s in layout.nics)]
    index = {vertex: i for i, vertex in enumerate(names)}
    vertices = [
        *(_vertex(slot, VertexKind.GPU, index) for slot in layout.gpu_slots),
        *(Vertex(name=cpu, kind=VertexKind.CPU) for cpu in layout.cpus),
        *(_vertex(slot, VertexKind.PCIE_SWITCH, index) for slot in layout.switches),
        *(_vertex(slot, VertexKind.NIC, index) for slot in layout.nics),
    ]
    links: list[Link] = []

    def join(src: int, dst: int, kind: LinkKind, rate_Bps: float) -> None:
        links.append(Link(src=src, dst=dst, kind=kind, capacity_Bps=rate_Bps))
        links.append(Link(src=dst, dst=src, kind=kind, capacity_Bps=rate_Bps))

    if layout.switched_Bps:
        vertices.append(Vertex(name="nvswitch", kind=VertexKind.NVSWITCH))
        for gpu, rate_Bps in enumerate(layout.switched_Bps):
            join(gpu, len(vertices) - 1, LinkKind.NVSWITCH, rate_Bps)
    for a, b, rate_Bps in layout.direct:
        join(a, b, layout.direct_kind, rate_Bps)
    for slot in (*layout.gpu_slots, *layout.switches):
        join(index[slot.name], index[slot.parent], slot.kind, slot.up_Bps)
    for i, cpu in enumerate(layout.cpus):
        board = layout.cpus_per_board or len(layout.cpus)
        for peer_cpu in layout.cpus[i + 1 : (i // board + 1) * board]:
            join(index[cpu], index[peer_cpu], LinkKind.SOCKET, layout.socket_Bps)
    for cpu in layout.cpus:
        vertices.append(Vertex(name=f"{cpu}-memory", kind=VertexKind.MEMORY, parent=index[cpu]))
        join(index[cpu], len(vertices) - 1, LinkKind.HOST_MEMORY, layout.memory_Bps)
    if layout.nics:
        vertices.append(Vertex(name="net", kind=VertexKind.NETWORK))
        for slot in layout.nics:
            join(index[slot.name], len(vertices) - 1, LinkKind.NIC, slot.up_Bps)
    chosen = tuple(index[nic] if nic else -1 for nic in _choose_nics(layout))
    return Host(
        name=name,
        layout=layout,
        vertices=tuple(vertices),
        links=tuple(links),
        nic_of_gpu=chosen,
        notes=notes,
        network_notes=network_notes,
    )


def _vertex(slot: Slot, kind: VertexKind, index: dict[str, int]) -> Vertex:
    return Vertex(name=slot.name, kind=kind, parent=index[slot.parent], rail=slot.rail)


def _ties(layout: Layout) -> dict[tuple[str, ...], list[int]]:
    """GPUs by their nearest NICs; of unequally fast ones only the fastest count."""
    rate_Bps = {nic.name: nic.up_Bps for nic in layout.nics}
    groups: dict[tuple[str, ...], list[int]] = {}
    for gpu in range(len(layout.gpus)):
        near = layout.nearest_nics(gpu)
        best = max((rate_Bps[nic] for nic in near), default=0.0)
        groups.setdefault(tuple(nic for nic in near if rate_Bps[nic] == best), []).append(gpu)
    return groups


def _merge_nics(layout: Layout) -> Layout:
    """Merge the NICs that one GPU has to itself; number the rails."""
    groups = _ties(layout)
    merged: dict[str, tuple[str, ...]] = {}
    for near, gpus in groups.items():
        others = {nic for names in groups if names != near for nic in names}
        if len(near) % len(gpus) == 0 and len(near) > len(gpus) and not others.intersection(near):
            for k in range(len(gpus)):
                merged[near[k]] = near[k :: len(gpus)]
    gone = {nic for names in merged.values() for nic in names[1:]}
    renamed = {old: "+".join(names) for old, names in merged.items()}
    rate_Bps = {nic.name: nic.up_Bps for nic in layout.nics}
    nics = [
        replace(
            nic,
            name=renamed.get(nic.name, nic.name),
            up_Bps=sum(rate_Bps[name] for name in merged.get(nic.name, (nic.name,))),
        )
        for nic in layout.nics
        if nic.name not in gone
    ]
    nics = [replace(nic, rail=i) if nic.rail < 0 else nic for i, nic in enumerate(nics)]
    nearest = tuple(tuple(renamed.get(nic, nic) for nic in near if nic not in gone) for near in layout.nearest)
    return replace(layout, nics=tuple(nics), nearest=nearest)


def _choose_nics(layout: Layout) -> list[str]:
    """The NIC of every GPU; the k-th of g GPUs with the same m nearest NICs takes NIC ``k * m // g``."""
    chosen = [""] * len(layout.gpus)
    for near, gpus in _ties(layout).items():
        for k, gpu in enumerate(gpus):
            if near:
                chosen[gpu] = near[k * len(near) // len(gpus)]
    return chosen
