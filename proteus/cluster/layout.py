"""How the parts of one host hang together, before any route is computed.

A layout is a forest: GPUs and NICs hang from PCIe switches, switches from
switches or CPUs, and the CPUs are joined with each other.  NVLink stands
beside it.

::

    cpu0 ------------- cpu1          SOCKET
     |  \\               |            HOST_BRIDGE
    pcie0 pcie1       pcie2
     | \\    | \\        | \\          PCIE, NIC
    gpu0 nic0 gpu1 nic1 gpu2 nic2
     |________|__________|           NVLINK, or NVSWITCH through a switch
"""

from __future__ import annotations

from dataclasses import dataclass

from proteus.cluster.kinds import LinkKind
from proteus.errors import TopologyError
from proteus.hardware import Gpu
from proteus.hardware.gpu import Wiring


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A vertex and what it hangs from.

    Parameters
    ----------
    name
        Unique within the host.
    parent
        Name of a PCIe switch or CPU.
    up_Bps
        Link to the parent, each direction [B/s].
    kind
        Kind of that link.
    rail
        Of a NIC: which rail of the network it is wired to.
    """

    name: str
    parent: str
    up_Bps: float
    kind: LinkKind = LinkKind.PCIE
    rail: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What a host offers to whatever GPU is put into it; the GPU's own links follow from both.

    Parameters
    ----------
    wiring
        How it joins GPUs with each other.
    lanes_Bps
        PCIe lanes of its slots, each direction [B/s]; a GPU of an older generation has less.
    has_c2c
        Whether GPUs hang from their CPU by a chip-to-chip link (Grace), and not by PCIe.
    kind
        Of direct links: NVLINK or XGMI.
    """

    wiring: Wiring
    lanes_Bps: float
    has_c2c: bool = False
    kind: LinkKind = LinkKind.NVLINK


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One host.

    Parameters
    ----------
    cpus
        Names of the sockets (NUMA nodes).
    switches, gpu_slots, nics
        What hangs where.  A switch stands after the one it hangs from.
    gpus
        Data sheet of every GPU, None where it is not known.
    direct
        ``(a, b, Bps)``: local GPUs a < b joined directly, each direction [B/s].
    direct_kind
        NVLINK or XGMI.
    switched_Bps
        Rate of every GPU into NVSwitch, each direction [B/s]; empty without NVSwitch.
    socket_Bps, memory_Bps
        CPU to CPU, and CPU to its memory, each direction [B/s].
    nearest
        Of every GPU the names of its nearest NICs; empty: the deepest common ancestor decides.
    cpus_per_board
        That many CPUs, counted from the first, are joined with each other; 0: all.
    peer_to_peer
        Whether GPUs reach one another over PCIe; else they pass what they send through the memory of a CPU.
    design
        What the host offers to another GPU; None where its links were measured or written down as they are.
    """

    cpus: tuple[str, ...]
    switches: tuple[Slot, ...] = ()
    gpu_slots: tuple[Slot, ...]
    nics: tuple[Slot, ...] = ()
    gpus: tuple[Gpu | None, ...]
    direct: tuple[tuple[int, int, float], ...] = ()
    direct_kind: LinkKind = LinkKind.NVLINK
    switched_Bps: tuple[float, ...] = ()
    socket_Bps: float
    memory_Bps: float
    nearest: tuple[tuple[str, ...], ...] = ()
    cpus_per_board: int = 0
    peer_to_peer: bool = True
    design: Design | None = None

    def __post_init__(self) -> None:
        assert len(self.gpus) == len(self.gpu_slots)
        assert not self.nearest or len(self.nearest) == len(self.gpus)
        if not self.gpus:
            raise TopologyError("the host has no GPU; a cluster needs at least 1 per host")
        seen = set(self.cpus)
        for slot in (*self.switches, *self.gpu_slots, *self.nics):
            if slot.parent not in seen:
                raise TopologyError(f"{slot.name} hangs from {slot.parent!r}, which is no switch or CPU before it")
            if slot.name in seen:
                raise TopologyError(f"two parts of the host are called {slot.name!r}; names must differ")
            if not slot.up_Bps > 0:
                raise TopologyError(f"the link of {slot.name} has {slot.up_Bps:g} B/s; it must be more than 0")
            seen.add(slot.name)
        for a, b, rate_Bps in self.direct:
            if not (0 <= a < b < len(self.gpus) and rate_Bps > 0):
                raise TopologyError(f"a direct link joins GPU {a} and {b} at {rate_Bps:g} B/s in {len(self.gpus)} GPUs")

    def ancestors(self, slot: Slot) -> tuple[str, ...]:
        """Names from the parent of `slot` up to its CPU."""
        parents = {switch.name: switch.parent for switch in self.switches}
        chain = [slot.parent]
        while chain[-1] in parents:
            chain.append(parents[chain[-1]])
        return tuple(chain)

    def board(self, slot: Slot) -> int:
        """Which board of joined CPUs `slot` hangs from."""
        return self.cpus.index(self.ancestors(slot)[-1]) // (self.cpus_per_board or len(self.cpus))

    def nearest_nics(self, gpu: int) -> tuple[str, ...]:
        """The NICs nearest to local device `gpu`, all ties; all of its board when none shares its CPU."""
        if self.nearest and self.nearest[gpu]:
            return self.nearest[gpu]
        slot = self.gpu_slots[gpu]
        for ancestor in self.ancestors(slot):
            below = tuple(nic.name for nic in self.nics if ancestor in self.ancestors(nic))
            if below:
                return below
        return tuple(nic.name for nic in self.nics if self.board(nic) == self.board(slot))
