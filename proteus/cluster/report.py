"""What one host is made of, as plain values for ``proteus cluster FILE --json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proteus.cluster.host import Host
from proteus.cluster.kinds import LinkKind
from proteus.cluster.routing import host_routes

if TYPE_CHECKING:
    from proteus.cluster.cluster import Cluster
    from proteus.cluster.survey import Survey


def report(cluster: Cluster) -> dict[str, Any]:
    """GPUs, links between them, NICs and NUMA nodes of one host.

    Returns
    -------
    dict
        ``n_gpus``; ``gpu`` (name or None); ``pairs`` ``{"0-1": "NV12"}`` in the
        words of the file; ``nics``; ``nearest_nic`` ``{"0": ["mlx5_0"]}``, all
        ties, empty when none is near, no entry when the file does not tell;
        ``numa`` ``{"0": 0}``; ``warnings``.  Where a file maps NIC columns to
        devices, ``nic_devices`` has them.

    Examples
    --------
    >>> from proteus.cluster import clusters
    >>> report(clusters.load("hc1"))["pairs"]["0-1"]
    'PIX'
    """
    if cluster.survey is not None:
        rows = _from_survey(cluster.survey)
    else:
        rows = _from_host(cluster.host)
    kinds = [gpu.name if gpu is not None else None for gpu in cluster.gpu_kinds]
    names = [name for name in kinds if name is not None]
    return {
        "name": cluster.name,
        "n_gpus": cluster.devices_per_host,
        "gpu": " + ".join(names) if names and len(names) == len(kinds) else None,
        **rows,
        "warnings": list(cluster.warnings),
    }


def _from_survey(survey: Survey) -> dict[str, Any]:
    labels = [gpu.label for gpu in survey.gpus]
    rows: dict[str, Any] = {
        "pairs": {f"{labels[a]}-{labels[b]}": keyword for a, b, keyword in survey.pairs},
        "nics": [nic.name for nic in survey.nics],
        "nearest_nic": {gpu.label: list(gpu.nearest) for gpu in survey.gpus if gpu.nearest is not None},
        "numa": {gpu.label: gpu.numa for gpu in survey.gpus if gpu.numa is not None},
    }
    devices = {nic.name: nic.device for nic in survey.nics if nic.device is not None}
    return rows | ({"nic_devices": devices} if devices else {})


def _from_host(host: Host) -> dict[str, Any]:
    layout = host.layout
    gpus = range(host.num_gpus)
    cpu_of = [layout.cpus.index(layout.ancestors(slot)[-1]) for slot in layout.gpu_slots]
    return {
        "pairs": {f"{a}-{b}": _keyword(host, a, b) for a in gpus for b in gpus if a < b},
        "nics": list(host.nics),
        "nearest_nic": {str(g): list(layout.nearest_nics(g)) for g in gpus},
        "numa": {str(g): cpu for g, cpu in enumerate(cpu_of)},
    }


def _keyword(host: Host, a: int, b: int) -> str:
    """How GPU a reaches GPU b, in terms of ``nvidia-smi topo -m``."""
    path = [host.links[i] for i in host_routes(host).between[a, b] if i >= 0]
    kinds = [link.kind for link in path]
    gpu = host.gpus[a]
    port_Bps = gpu.nvlink_port_Bps if gpu is not None else 0.0
    if kinds[0] in (LinkKind.NVSWITCH, LinkKind.NVLINK) and (len(path) == 1 or kinds[0] == LinkKind.NVSWITCH):
        return f"NV{max(1, round(path[0].capacity_Bps / port_Bps))}" if port_Bps else "NV1"
    if kinds == [LinkKind.XGMI]:
        return "XGMI"
    chains = [host.layout.ancestors(host.layout.gpu_slots[g]) for g in (a, b)]
    if chains[0][-1] != chains[1][-1]:
        return "SYS"
    shared = [vertex for vertex in chains[0] if vertex in chains[1]]
    if shared[0] in host.layout.cpus:
        return "PHB" if chains[0][0] in host.layout.cpus else "NODE"
    return "PIX" if chains[0][0] == chains[1][0] else "PXB"
