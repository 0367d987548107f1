"""Clusters made from other clusters; the methods of ``Cluster`` say what each means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from proteus.cluster.columns import matching_links
from proteus.cluster.fabric import Fabric
from proteus.cluster.faults import Faults
from proteus.cluster.host import Host
from proteus.cluster.survey import host_of_survey
from proteus.errors import TopologyError
from proteus.hardware import Gpu

if TYPE_CHECKING:
    from proteus.cluster.cluster import Cluster

Runs = tuple[tuple[Host, int], ...]


def with_nodes(cluster: Cluster, nodes: int) -> Cluster:
    """As many hosts, further ones like the first; faults of hosts that are gone go too."""
    if nodes < 1:
        raise TopologyError(f"{cluster.name}: nodes={nodes}; a cluster needs at least 1")
    if len(cluster.runs) == 1:
        runs: Runs = ((cluster.host, nodes),)
    else:
        hosts = _hosts(cluster)[:nodes]
        runs = _runs(hosts + [cluster.host] * (nodes - len(hosts)))
    healthy = replace(cluster, runs=runs, faults=Faults())
    faults = Faults(
        slow_devices=tuple(slow for slow in cluster.faults.slow_devices if slow[0] < healthy.num_devices),
        slow_links=tuple(slow for slow in cluster.faults.slow_links if len(matching_links(healthy.columns, slow[0]))),
    )
    return replace(healthy, faults=faults)


def with_gpu(cluster: Cluster, gpu: Gpu) -> Cluster:
    """The same hosts with another GPU."""
    if cluster.survey is None:
        return replace(cluster, runs=tuple((host.with_gpu(gpu), count) for host, count in cluster.runs))
    whole = host_of_survey(cluster.survey, gpu)
    return replace(cluster, runs=tuple((_like(whole, host), count) for host, count in cluster.runs))


def without_nic(cluster: Cluster, host: int, nic: int | str) -> Cluster:
    """One NIC of one host is gone."""
    whole = cluster.host_at(host)
    names = whole.nics
    if isinstance(nic, int) and not 0 <= nic < len(names):
        raise TopologyError(f"{cluster.name}: host {host} has no NIC {nic}; it has {len(names)}: {', '.join(names)}")
    hosts = _hosts(cluster)
    hosts[host] = whole.without_nic(names[nic] if isinstance(nic, int) else nic)
    return replace(cluster, runs=_runs(hosts))


def joined(parts: Sequence[Cluster]) -> tuple[Runs, Fabric, Faults]:
    """The hosts of several clusters one after another, on the fabric of the first."""
    if not parts:
        raise TopologyError("mixed: no clusters given; it needs at least 1")
    slow: list[tuple[int, float]] = []
    first = 0
    for part in parts:
        if part.faults.slow_links:
            raise TopologyError(f"mixed: {part.name} has slow links; set them on the mixed cluster instead")
        slow += [(first + device, factor) for device, factor in part.faults.slow_devices]
        first += part.num_devices
    runs = tuple(run for part in parts for run in part.runs)
    return runs, parts[0].fabric, Faults(slow_devices=tuple(slow))


def _hosts(cluster: Cluster) -> list[Host]:
    return [host for host, count in cluster.runs for _ in range(count)]


def _like(whole: Host, broken: Host) -> Host:
    """`whole` without the NICs that `broken` lacks."""
    for nic in set(whole.nics) - set(broken.nics):
        whole = whole.without_nic(nic)
    return whole


def _runs(hosts: Sequence[Host]) -> Runs:
    runs: list[tuple[Host, int]] = []
    for host in hosts:
        if runs and (runs[-1][0] is host or runs[-1][0] == host):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((host, 1))
    return tuple(runs)
