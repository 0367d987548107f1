"""Equal hosts in a line of text: ``4 x 8 x a100-80gb, network_Gbps=200``, where no preset is meant.

::

    8 x a100-80gb                          one host of eight GPUs, with the links that its GPU is built with
    4 x 8 x a100-80gb                      four such hosts
    2 x 72 x gb200                         two racks of one NVLink domain each
    4 x 8 x v100-32gb, links=none          without NVLink
    4 x 8 x a100-80gb, network_Gbps=50     a network of 50 Gb/s per GPU

What is not said is as usual for the GPU.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, get_args

from proteus.cluster.fabric import NetworkFamily
from proteus.errors import InputError, unknown
from proteus.hardware import Gpu, gpus
from proteus.units import GBIT_PER_S

#: slowest NIC that a host of GPUs is built with [Gb/s]: slower shares per GPU mean fewer NICs
NIC_GBPS = 100.0
#: xGMI ports of modules on a common board, each of which reaches all others (AMD Instinct MI250, MI300X and later);
#: cards for PCIe slots have fewer, for bridges that not every host has
BOARD_PORTS = 7
#: GPUs of the largest host with a board of its own (NVIDIA DGX-2); more of them are a rack of trays
BOARD_GPUS = 16
#: CPUs of one tray of such a rack, each with two GPUs (NVIDIA GB200 NVL72 reference design)
TRAY_CPUS, GPUS_BY_CPU = 2, 2
LINKS = ("none", "pairs", "mesh", "cube", "nvswitch")
_LINE = re.compile(r"(?:(\d+)\s+x\s+)?(\d+)\s+x\s+(\S.*)")


def is_description(text: str) -> bool:
    """Whether a text describes hosts and does not name a preset.

    >>> is_description("4 x 8 x a100-80gb"), is_description("dgx-a100:4")
    (True, False)
    """
    return _LINE.fullmatch(text.partition(",")[0].strip()) is not None


def parse(text: str) -> tuple[int | None, Mapping[str, Any]]:
    """(hosts, or None where the text says none; a preset as ``data/presets.yaml`` explains it).

    Raises
    ------
    InputError, TopologyError
        An unknown GPU, field or word, with the nearest.
    """
    head, *parts = (part.strip() for part in text.split(","))
    line = _LINE.fullmatch(head)
    if line is None:
        raise InputError(f"{head!r} describes no hosts; write HOSTS x GPUS x GPU, such as 4 x 8 x a100-80gb")
    gpu, width = gpus.resolve(line[3].strip()), int(line[2])
    fields: dict[str, Any] = {}
    for part in parts:
        key, equals, value = (word.strip() for word in part.partition("="))
        if key not in FIELDS:
            raise InputError(f"{text!r}: {unknown('field of hosts', key, FIELDS)}")
        if not equals or key in fields:
            raise InputError(f"{text!r}: write {key}=VALUE once")
        try:
            fields[key] = FIELDS[key](value)
        except ValueError as error:
            raise InputError(f"{text!r}: {key}={value}; it must be {error}") from None
    if width < 1:
        raise InputError(f"{text!r}: a host has at least 1 GPU")
    return int(line[1]) if line[1] else None, _preset(gpu, width, **fields)


def _preset(
    gpu: Gpu,
    width: int,
    *,
    network_Gbps: float | None = None,
    network: str = "ib",
    links: str | None = None,
    peer_to_peer: bool = True,
) -> dict[str, Any]:
    rate = gpu.chip.network_Bps / GBIT_PER_S if network_Gbps is None else network_Gbps
    preset: dict[str, Any] = {"gpu": gpu, "gpus": width, "network": network, "peer_to_peer": peer_to_peer}
    if not peer_to_peer:
        links = "none"
    if width > BOARD_GPUS:
        cpus = max(1, width // GPUS_BY_CPU)
        rack = {"cpus": cpus, "cpus_per_board": TRAY_CPUS, "switches": 0, "nics": {"count": width, "Gbps": rate}}
        return {**preset, **rack, "nvlink": links or usual_links(gpu, width)}
    total = rate * width
    num_nics = max(1, min(width, round(total / max(rate, min(NIC_GBPS, total)))))
    return {
        **preset,
        "nvlink": links or usual_links(gpu, width),
        "cpus": 2 if width > 4 else 1,
        "switches": max(1, width // 2),
        "nics": {"count": num_nics, "Gbps": total / num_nics},
    }


def usual_links(gpu: Gpu, width: int) -> str:
    """How so many GPUs of a host are joined, a word of the presets.

    >>> [usual_links(gpus.load(name), 8) for name in ("a100-80gb", "v100-32gb", "mi300x", "l40s")]
    ['nvswitch', 'cube', 'mesh', 'none']
    """
    if width == 1 or not gpu.nvlink_Bps:
        return "none"
    if gpu.vendor == "amd":
        return "mesh" if gpu.nvlink_links >= BOARD_PORTS else "none"
    if gpu.has_nvswitch:
        return "nvswitch"
    if gpu.wiring == "cube":
        return "cube" if width == 8 else "nvswitch" if width > 8 else "mesh"
    return "none"


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not (math.isfinite(rate) and rate > 0.0):
        raise ValueError("a rate above 0 [Gb/s]")
    return rate


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _one_of(words: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return text

    return read


FIELDS: Mapping[str, Callable[[str], Any]] = {
    "network_Gbps": _rate,
    "network": _one_of(get_args(NetworkFamily)),
    "links": _one_of(LINKS),
    "peer_to_peer": _truth,
}
