"""The vocabulary of a topology: kinds of vertices and links, and what a hop costs.

The rates here are those that no GPU sheet or topology file states.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

from proteus.units import GB, US


class LinkKind(IntEnum):
    """What a directed link is; the numbers are those of ``Cluster.link_kind``."""

    NVLINK = 0  # GPU to GPU
    NVSWITCH = 1  # GPU to NVSwitch, or back
    XGMI = 2  # GPU to GPU, AMD
    C2C = 3  # GPU to its Grace CPU, or back
    PCIE = 4  # GPU or switch to a PCIe switch, GPU to a CPU, or back
    HOST_BRIDGE = 5  # PCIe switch to a CPU, or back: shared by all below the switch
    SOCKET = 6  # CPU to CPU
    NIC = 7  # NIC to the network, or back; its PCIe lanes and its port together
    LEAF = 8  # leaf switch up to the spine
    SPINE = 9  # spine down to a leaf switch
    HOST_MEMORY = 10  # CPU to its memory, or back


class VertexKind(StrEnum):
    """What a vertex of a host is."""

    GPU = "gpu"
    NVSWITCH = "nvswitch"
    PCIE_SWITCH = "pcie"
    CPU = "cpu"
    NIC = "nic"
    MEMORY = "memory"
    NETWORK = "network"


#: What peer-to-peer traffic gets across the link between two sockets, by PCIe generation of the
#: host [B/s].  No sheet states it; NCCL's src/graph/topo.h does: Broadwell QPI 6, Skylake UPI 10,
#: AMD 16, Sapphire Rapids 22, Emerald Rapids 40 GB/s.
SOCKET_BPS = {1: 6.0 * GB, 2: 6.0 * GB, 3: 10.0 * GB, 4: 16.0 * GB, 5: 22.0 * GB, 6: 40.0 * GB}

#: Memory of one socket, one direction at a time, by PCIe generation of the host [B/s]: channels x
#: transfer rate x 8 B of its usual CPU (4 x DDR4-2400, 8 x DDR4-3200, 8 x DDR5-4800, 8 x DDR5-6400).
MEMORY_BPS = {1: 51.2 * GB, 2: 51.2 * GB, 3: 76.8 * GB, 4: 204.8 * GB, 5: 307.2 * GB, 6: 409.6 * GB}

#: NIC port that is usual beside GPUs of a PCIe generation [Gb/s]; assumed (and said so in the
#: warnings) where a file states no speed: EDR, HDR, NDR, XDR fill 16 lanes of PCIe 3, 4, 5, 6.
DEFAULT_NIC_GBPS = {1: 40.0, 2: 40.0, 3: 100.0, 4: 200.0, 5: 400.0, 6: 800.0}

#: Latency of one hop [s].  Chosen so that a whole path has the ring latency of NCCL's tuner
#: (src/graph/tuning.cc, hwLat: NVLink 0.6, PCIe 1.0, network 2.7 us): GPU-GPU over NVSwitch is
#: two hops, over PCIe two hops, and over the network PCIe + NIC + NIC + PCIe.
HOP_LATENCY_S = {
    LinkKind.NVLINK: 0.6 * US,
    LinkKind.NVSWITCH: 0.3 * US,
    LinkKind.XGMI: 0.6 * US,
    LinkKind.C2C: 0.5 * US,
    LinkKind.PCIE: 0.5 * US,
    LinkKind.HOST_BRIDGE: 0.5 * US,
    LinkKind.SOCKET: 0.5 * US,
    LinkKind.NIC: 0.85 * US,
    LinkKind.LEAF: 0.3 * US,
    LinkKind.SPINE: 0.3 * US,
    LinkKind.HOST_MEMORY: 0.1 * US,
}
