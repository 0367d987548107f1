"""The cluster of a published run in words that :func:`proteus.clusters.load` takes.

What a run does not say is what the machines of its GPU usually have.
"""

from __future__ import annotations

import re
from functools import cache

from proteus import hardware
from proteus.errors import TopologyError
from proteus.hardware import Gpu
from proteus.validation.runs import Run
from proteus.validation.settings import Settings

#: GPUs of a host that does not say how many
DEFAULT_GPUS_PER_NODE = 8
#: GPUs of one NVLink domain that is a whole rack (NVIDIA GB200 NVL72 reference design)
RACK_GPUS = 72
#: GPUs of one tray of it, the node that schedulers know; a job over several racks asks for equal segments of trays
#: (Slurm's topology/block plugin, sbatch --segment)
TRAY_GPUS = 4
#: words of ``intra_node_link`` and how they say that the GPUs of a host are joined; None: as usual for the GPU
LINKS: tuple[tuple[str, str | None], ...] = (
    (r"(?:nvlink2 )?hybrid cube mesh", "cube"),
    (r"nvlink\d?/nvswitch\d?|nvswitch\d?(?:/nvlink\d?)?", "nvswitch"),
    (r"nvlink\d? bridges?|nvl bridges?", "pairs"),
    (r"pcie\d?(?: gen ?\d)?(?: \(nvlink bridge not stated\))?|none|single gpu", "none"),
    (r"xgmi\d?(?: bridges?)?|infinity fabric(?: links?)?", "mesh"),
    (r"nvlink\d?", None),
    (r"nvlink\d? nvl72|nvl72", None),
    (r"2x connectx-5 roce per node", None),
)


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
    return next((gpu for candidate in candidates if candidate and (gpu := hardware.find(candidate))), None)


def gpu_of(run: Run) -> Gpu:
    """The GPU of a run.

    Raises
    ------
    TopologyError
        It is not stated or not known.
    """
    gpu = find_gpu(run.gpu)
    if gpu is None:
        raise TopologyError(f"GPU {run.gpu!r} is not known" if run.gpu else "the GPU is not stated")
    return gpu


def hosts_of(run: Run, run_settings: Settings, assumed: list[str]) -> str:
    """The hosts of a run, just enough; what was filled in is added to `assumed`.

    Raises
    ------
    TopologyError
        The GPU is not stated or not known, or how it is joined is not understood.
    """
    gpu = gpu_of(run)
    num_gpus = run.num_gpus or 1
    width = run.gpus_per_node or DEFAULT_GPUS_PER_NODE
    fields = dict(run_settings.hosts)
    links = links_of(run.link)
    if run.gpus_per_node is None:
        assumed.append(f"{width} GPUs per node")
    if "nvl72" in run.link or "nvl72" in run.gpu:
        width = gpus_of_rack(num_gpus)
    elif width == 1:
        links = None
    elif links is None and run.link and gpu.vendor == "nvidia" and "nvlink" in run.link and not gpu.has_nvswitch:
        links = "mesh" if gpu.wiring != "cube" else None
    elif links == "nvswitch" and (gpu.vendor == "amd" or not gpu.nvlink_Bps):
        links = None
    if links == "none" and not gpu.nvlink_Bps:
        links = None  # as usual
    if links is not None:
        fields.setdefault("links", links)
    if run.gpu_Gbps is not None:
        fields.setdefault("network_Gbps", f"{run.gpu_Gbps:.12g}")
    elif num_gpus > width and "network_Gbps" not in fields:
        assumed.append(f"network as usual for {gpu.name}")
    head = f"{-(-num_gpus // width)} x {width} x {gpu.name}"
    return ", ".join([head, *(f"{name}={value}" for name, value in sorted(fields.items()))])


def links_of(text: str) -> str | None:
    """How a text says that the GPUs of a host are joined; None where they are as usual.

    >>> links_of("nvswitch/nvlink3 + infiniband (multi-node)"), links_of("nvlink4 (h800)")
    ('nvswitch', None)
    """
    plain = re.sub(r"\s*\+ infiniband.*", "", text)
    if "not stated" not in plain:
        plain = re.sub(r"\s*\(.*?\)", "", plain)
    if not plain:
        return None
    for pattern, links in LINKS:
        if re.fullmatch(pattern, plain):
            return links
    raise TopologyError(f"intra_node_link {text!r} is not understood")


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
