"""The cluster of a published run: GPU, hosts, links and NICs.

What a run does not say is what the machines of its GPU usually have.
"""

from __future__ import annotations

import re
from functools import cache

from proteus.cluster import Cluster, clusters
from proteus.cluster.cluster import Cluster as _Cluster
from proteus.errors import TopologyError
from proteus.hardware import Gpu, gpus
from proteus.units import GBIT_PER_S
from proteus.validation.runs import Run

#: slowest NIC that a host of GPUs is built with [Gb/s]: slower shares per GPU mean fewer NICs
NIC_GBPS = 100.0
#: GPUs of a host that does not say how many
USUAL_GPUS_PER_NODE = 8
#: xGMI ports of modules on a common board, each of which reaches all others (AMD Instinct MI250, MI300X and later);
#: cards for PCIe slots have fewer, for bridges that not every host has
BOARD_PORTS = 7
#: GPUs of one NVLink domain that is a whole rack (NVIDIA GB200 NVL72 reference design)
RACK_GPUS = 72
#: GPUs of one tray of it, the node that schedulers know; a job over several racks asks for equal segments of trays
#: (Slurm's topology/block plugin, sbatch --segment)
TRAY_GPUS = 4


@cache
def find_gpu(text: str) -> Gpu | None:
    """The GPU that a free text names; brackets and remarks are dropped one after another.

    >>> find_gpu("gb200 (nvl72)").name, find_gpu("8x h100 80gb sxm5").name
    ('gb200', 'h100-sxm')
    """
    candidates = [text, re.sub(r"\(.*?\)", "", text), re.sub(r"\(.*", "", text)]
    words = text.replace("(", " ").replace(")", " ").split()
    candidates += [" ".join(words[first:last]) for first in range(len(words)) for last in range(len(words), first, -1)]
    candidates += [re.sub(r"^\d+x", "", candidate) for candidate in candidates]
    return next((gpu for candidate in candidates if candidate and (gpu := gpus.find(candidate))), None)


def cluster_of(run: Run, assumed: list[str], gpu_Gbps: float | None = None, *, peer_to_peer: bool = True) -> Cluster:
    """The cluster of a run, just large enough; what was filled in is added to `assumed`.

    Parameters
    ----------
    gpu_Gbps
        Network of one GPU where the run does not say [Gb/s]; None is what is
        usual for its chip.
    peer_to_peer
        Else the GPUs of a host reach one another through its memory, whatever joins them.

    Raises
    ------
    TopologyError
        The GPU is not stated or not known.
    """
    gpu = find_gpu(run.gpu)
    if gpu is None:
        raise TopologyError(f"GPU {run.gpu!r} is not known" if run.gpu else "the GPU is not stated")
    num_gpus = run.num_gpus or 1
    width = run.gpus_per_node or USUAL_GPUS_PER_NODE
    if run.gpus_per_node is None:
        assumed.append(f"{width} GPUs by node")
    rate = run.gpu_Gbps
    if rate is None:
        rate = gpu_Gbps if gpu_Gbps is not None else gpu.chip.network_Bps / GBIT_PER_S
        if num_gpus > width:
            assumed.append(f"network {rate:g} Gb/s by GPU")
    if "nvl72" in run.link or "nvl72" in run.gpu:
        in_rack = gpus_of_rack(num_gpus)
        return _racks(gpu, in_rack, -(-num_gpus // in_rack), rate)
    nvlink = _wiring(gpu, width, run.link) if peer_to_peer else "none"
    return _hosts(gpu, width, -(-num_gpus // width), rate, nvlink, peer_to_peer)


def _wiring(gpu: Gpu, width: int, link: str) -> str:
    """How the GPUs of a host are joined, a word of the presets."""
    if width == 1 or ("pcie" in link and "nvlink" not in link) or not gpu.nvlink_Bps:
        return "none"
    if "cube" in link:
        return "cube"
    if gpu.vendor == "amd":
        return "mesh" if gpu.nvlink_links >= BOARD_PORTS or "xgmi" in link or "infinity" in link else "none"
    if gpu.has_nvswitch or "switch" in link:
        return "nvswitch"
    if gpu.wiring == "cube":
        return "cube" if width == 8 else "nvswitch" if width > 8 else "mesh"
    return "pairs" if "bridge" in link else "mesh" if "nvlink" in link else "none"


@cache
def _hosts(gpu: Gpu, width: int, nodes: int, gpu_Gbps: float, nvlink: str, peer_to_peer: bool) -> _Cluster:
    total = gpu_Gbps * width
    num_nics = max(1, min(width, round(total / max(gpu_Gbps, min(NIC_GBPS, total)))))
    preset = {
        "gpu": gpu,
        "gpus": width,
        "nvlink": nvlink,
        "cpus": 2 if width > 4 else 1,
        "switches": max(1, width // 2),
        "peer_to_peer": peer_to_peer,
        "nics": {"count": num_nics, "Gbps": total / num_nics},
    }
    name = f"{nodes} x {width} x {gpu.name}" + ("" if peer_to_peer else " without peer-to-peer")
    return Cluster(name=name, runs=((clusters.host(name, preset), nodes),))


def gpus_of_rack(num_gpus: int) -> int:
    """GPUs that a job of so many takes in each rack: the most that make all racks equal.

    A job that needs several racks asks for equal blocks of them, 64 of the 72
    GPUs where its degrees are powers of two.

    >>> [gpus_of_rack(num_gpus) for num_gpus in (8, 64, 128, 144, 256, 1024, 76)]
    [72, 72, 64, 72, 64, 64, 72]
    """
    if num_gpus <= RACK_GPUS:
        return RACK_GPUS
    equal = [width for width in range(RACK_GPUS, RACK_GPUS // 2, -TRAY_GPUS) if num_gpus % width == 0]
    return equal[0] if equal else RACK_GPUS


@cache
def _racks(gpu: Gpu, in_rack: int, racks: int, gpu_Gbps: float) -> _Cluster:
    preset = {
        "gpu": gpu,
        "gpus": in_rack,
        "nvlink": "nvswitch",
        "cpus": in_rack // 2,
        "cpus_per_board": 2,
        "switches": 0,
        "nics": {"count": in_rack, "Gbps": gpu_Gbps},
    }
    name = f"{racks} x {gpu.name} rack" + (f" ({in_rack} GPUs each)" if in_rack != RACK_GPUS else "")
    return Cluster(name=name, runs=((clusters.host(name, preset), racks),))
