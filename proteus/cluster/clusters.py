"""Clusters by name: ``clusters.load("dgx-a100", nodes=4)``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

from proteus.arguments import A, Either, FilePath, Maybe, Text, Whole, takes
from proteus.cluster import described
from proteus.cluster.cluster import Cluster
from proteus.cluster.described import is_description
from proteus.cluster.fabric import Fabric
from proteus.cluster.host import Host, build
from proteus.cluster.kinds import MEMORY_BPS, SOCKET_BPS, LinkKind
from proteus.cluster.layout import Design, Layout, Slot
from proteus.cluster.refit import joined, kind_of_links, link_up
from proteus.errors import InputError, TopologyError, unknown
from proteus.hardware import Gpu, gpus
from proteus.units import GB, GBIT_PER_S


@cache
def _presets() -> dict[str, dict[str, Any]]:
    import yaml  # here, so that `import proteus` stays quick

    text = resources.files("proteus.cluster").joinpath("data/presets.yaml").read_text("utf-8")
    loaded = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return dict(loaded)


@cache
def _aliases() -> dict[str, str]:
    index = {name: name for name in _presets()}
    for name, preset in _presets().items():
        for alias in preset.get("aliases", ()):
            assert index.setdefault(alias, name) == name, f"alias {alias} is taken"
    return index


def names() -> tuple[str, ...]:
    """Names of all presets."""
    return tuple(_presets())


@takes(
    TopologyError,
    name=Text("the name of a preset"),
    nodes=Maybe(Whole(minimum=1)),
    gpu=Maybe(Either(A(Gpu), FilePath())),
)
def load(
    name: str,
    nodes: int | None = None,
    *,
    gpu: str | os.PathLike[str] | Gpu | None = None,
    fabric: Fabric | None = None,
) -> Cluster:
    """A cluster of equal hosts.

    Parameters
    ----------
    name
        A preset, or ``"preset:nodes"``; or hosts in a few words,
        ``"4 x 8 x a100-80gb, network_Gbps=200"``, as
        :mod:`proteus.cluster.described` explains them.
    nodes
        Hosts; the preset's own number (mostly 1) when None.
    gpu
        Another GPU in the same hosts, as :meth:`Cluster.with_gpu` takes it.
    fabric
        Network between the hosts; one that never limits when None.

    Raises
    ------
    TopologyError
        The name is not known, or the number of nodes is below 1.

    Examples
    --------
    >>> load("dgx-a100:4").num_devices
    32
    >>> load("gb200-nvl72")
    Cluster(gb200-nvl72: 1 host x 72 gb200)
    >>> load("2 x 4 x l40s, network_Gbps=100").num_devices
    8
    """
    if is_description(name):
        cluster = _described(name, nodes)
        cluster = replace(cluster, fabric=fabric) if fabric is not None else cluster
        return cluster.with_gpu(gpu) if gpu is not None else cluster
    key, colon, count = name.strip().lower().partition(":")
    if colon:
        if not count.isdigit():
            raise InputError(f"cluster {name!r}: {count!r} is not a number of nodes; write for example {key}:4")
        if nodes is not None and nodes != int(count):
            raise InputError(f"cluster {name!r} and nodes={nodes} disagree; give one of them")
        nodes = int(count)
    known = _aliases().get(key)
    if known is None:
        raise TopologyError(unknown("cluster", key, _aliases()))
    if nodes is None:
        nodes = int(_presets()[known].get("nodes", 1))
    cluster = Cluster(name=known, runs=((_host(known), nodes),), fabric=fabric or _fabric(known))
    return cluster.with_gpu(gpu) if gpu is not None else cluster


@cache
def _described(text: str, nodes: int | None) -> Cluster:
    """The cluster of a description, made once: what is compiled for it is found again."""
    count, preset = described.parse(text)
    if nodes is not None and count not in (None, nodes):
        raise InputError(f"cluster {text!r} and nodes={nodes} disagree; give one of them")
    plain = " ".join(text.split())
    fabric = Fabric(family=preset["network"])
    return Cluster(
        name=plain, runs=((host(plain, preset), next(n for n in (nodes, count, 1) if n is not None)),), fabric=fabric
    )


def _fabric(name: str) -> Fabric:
    return Fabric(family=_presets()[name].get("network", "ib"))


@cache
def _host(name: str) -> Host:
    return host(name, _presets()[name])


def host(name: str, preset: Mapping[str, Any]) -> Host:
    """A host from the keys that ``data/presets.yaml`` explains.

    Examples
    --------
    >>> nics = {"count": 1, "Gbps": 25}
    >>> host("mine", {"gpu": "t4", "gpus": 2, "nvlink": "none", "cpus": 1, "switches": 0, "nics": nics}).num_gpus
    2
    """
    gpu = gpus.resolve(preset["gpu"])
    count, num_cpus, num_switches = preset["gpus"], preset["cpus"], preset["switches"]
    cpus = tuple(f"cpu{i}" for i in range(num_cpus))
    switches = tuple(
        Slot(name=f"pcie{i}", parent=cpus[i * num_cpus // num_switches], up_Bps=gpu.pcie_Bps, kind=LinkKind.HOST_BRIDGE)
        for i in range(num_switches)
    )
    parents = tuple(switch.name for switch in switches) or cpus

    def dealt(i: int, of: int) -> str:
        return parents[i * len(parents) // of]

    design = Design(wiring=preset["nvlink"], lanes_Bps=gpu.pcie_Bps, has_c2c=gpu.c2c_Bps > 0, kind=kind_of_links(gpu))
    direct, switched_Bps = joined(design, gpu, count)
    up_Bps, kind = link_up(design, gpu)
    slots = tuple(Slot(name=f"gpu{i}", parent=dealt(i, count), up_Bps=up_Bps, kind=kind) for i in range(count))
    nics = preset["nics"]
    rate_Bps = nics["Gbps"] * nics.get("ports", 1) * GBIT_PER_S
    nic_slots = tuple(
        Slot(name=f"nic{i}", parent=dealt(i, nics["count"]), up_Bps=min(rate_Bps, gpu.pcie_Bps))
        for i in range(nics["count"])
    )
    layout = Layout(
        cpus=cpus,
        switches=switches,
        gpu_slots=slots,
        nics=nic_slots,
        gpus=(gpu,) * count,
        direct=direct,
        direct_kind=design.kind,
        switched_Bps=switched_Bps,
        design=design,
        socket_Bps=preset["socket_GBps"] * GB if "socket_GBps" in preset else SOCKET_BPS[gpu.pcie_gen],
        cpus_per_board=preset.get("cpus_per_board", 0),
        peer_to_peer=preset.get("peer_to_peer", True),
        memory_Bps=preset["memory_GBps"] * GB if "memory_GBps" in preset else MEMORY_BPS[gpu.pcie_gen],
    )
    return build(name, layout)
