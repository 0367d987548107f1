"""Small clusters built by hand, so that a change of the presets changes no expectation."""

from __future__ import annotations

from proteus.cluster.cluster import Cluster
from proteus.cluster.host import build
from proteus.cluster.kinds import LinkKind
from proteus.cluster.layout import Layout, Slot
from proteus.hardware import gpus
from proteus.units import GB

#: NVLinks between the GPUs of a DGX-1 (V100): pairs with two, and pairs with one
_DOUBLE = ((0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7))
_SINGLE = ((0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7))


def switched(
    nodes: int = 1, *, gpu: str = "a100-80gb", gpus_per_host: int = 8, nics: int = 8, nvlink: float = 300 * GB,
    nic_Bps: float = 25 * GB,
) -> Cluster:  # fmt: skip
    """NVSwitch hosts: two PCIe switches per pair of GPUs, each NIC beside its GPUs."""
    layout = Layout(
        cpus=("cpu0",),
        switches=tuple(Slot(name=f"sw{i}", parent="cpu0", up_Bps=32 * GB) for i in range(max(nics, 1))),
        gpu_slots=tuple(
            Slot(name=f"gpu{i}", parent=f"sw{i * max(nics, 1) // gpus_per_host}", up_Bps=32 * GB)
            for i in range(gpus_per_host)
        ),
        nics=tuple(
            Slot(name=f"nic{i}", parent=f"sw{i}", up_Bps=nic_Bps, kind=LinkKind.NIC, rail=i) for i in range(nics)
        ),
        gpus=(gpus.load(gpu),) * gpus_per_host,
        switched_Bps=(nvlink,) * gpus_per_host,
        socket_Bps=16 * GB,
        memory_Bps=100 * GB,
    )
    return Cluster(name="switched", runs=((build("switched", layout), nodes),))


def cube_mesh(nodes: int = 1) -> Cluster:
    """DGX-1: eight V100 wired to one another, 25 GB/s per NVLink, four NICs."""
    direct = sorted([(a, b, 50 * GB) for a, b in _DOUBLE] + [(a, b, 25 * GB) for a, b in _SINGLE])
    layout = Layout(
        cpus=("cpu0", "cpu1"),
        switches=tuple(Slot(name=f"sw{i}", parent=f"cpu{i // 2}", up_Bps=16 * GB) for i in range(4)),
        gpu_slots=tuple(Slot(name=f"gpu{i}", parent=f"sw{i // 2}", up_Bps=16 * GB) for i in range(8)),
        nics=tuple(
            Slot(name=f"nic{i}", parent=f"sw{i}", up_Bps=12.5 * GB, kind=LinkKind.NIC, rail=i) for i in range(4)
        ),
        gpus=(gpus.load("v100-sxm2-32gb"),) * 8,
        direct=tuple(direct),
        socket_Bps=9 * GB,
        memory_Bps=70 * GB,
    )
    return Cluster(name="cube mesh", runs=((build("cube mesh", layout), nodes),))


def pcie_box(nodes: int = 1) -> Cluster:
    """Eight GPUs, two per PCIe switch, two switches per socket, one NIC on the first switch."""
    layout = Layout(
        cpus=("cpu0", "cpu1"),
        switches=tuple(Slot(name=f"sw{i}", parent=f"cpu{i // 2}", up_Bps=12 * GB) for i in range(4)),
        gpu_slots=tuple(Slot(name=f"gpu{i}", parent=f"sw{i // 2}", up_Bps=12 * GB) for i in range(8)),
        nics=(Slot(name="nic0", parent="sw0", up_Bps=12.5 * GB, kind=LinkKind.NIC, rail=0),),
        gpus=(gpus.load("titan-xp"),) * 8,
        socket_Bps=6 * GB,
        memory_Bps=70 * GB,
    )
    return Cluster(name="pcie box", runs=((build("pcie box", layout), nodes),))


def full_mesh() -> Cluster:
    """Eight MI300X, each joined to all others at 64 GB/s."""
    layout = Layout(
        cpus=("cpu0",),
        gpu_slots=tuple(Slot(name=f"gpu{i}", parent="cpu0", up_Bps=63 * GB) for i in range(8)),
        gpus=(gpus.load("mi300x"),) * 8,
        direct=tuple((a, b, 64 * GB) for a in range(8) for b in range(a + 1, 8)),
        direct_kind=LinkKind.XGMI,
        socket_Bps=16 * GB,
        memory_Bps=100 * GB,
    )
    return Cluster(name="full mesh", runs=((build("full mesh", layout), 1),))
