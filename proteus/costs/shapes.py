"""The shapes of groups: all that the cost of a collective depends on."""

from __future__ import annotations

import numpy as np

from proteus.cluster.cluster import Cluster
from proteus.cluster.kinds import LinkKind
from proteus.costs.collective_types import Algorithm, Collective, GroupShape, Limit
from proteus.costs.flows import flows
from proteus.costs.patterns import Pattern, local_plan, networked_plan, patterns

#: groups of one pattern that are looked at for the rate of a healthy one
_SAMPLED_GROUPS = 16
#: hosts that stand for all when a group spans more
_SAMPLED_HOSTS = 64
#: oldest and newest PCIe generation with fitted numbers
_PCIE_FITTED = (3, 5)
_BETWEEN_GPUS = (LinkKind.NVLINK, LinkKind.NVSWITCH, LinkKind.XGMI)
#: families of networks without published measurements, and the fitted one that is nearest to them
_FITTED_AS = {"ethernet": "roce"}
#: what describes direct links of a GPU whose chip names no family of NVLink
_DEFAULT_NVLINK = "nvlink4"


def group_shapes(groups: np.ndarray, cluster: Cluster) -> tuple[tuple[GroupShape, ...], np.ndarray]:
    """The distinct shapes among `groups`, and the one of each group.

    Parameters
    ----------
    groups
        int[groups, n]: ranks.

    Returns
    -------
    shapes, index
        ``index`` is int32[groups] into ``shapes``.
    """
    groups = np.atleast_2d(np.asarray(groups))
    shapes: dict[GroupShape, int] = {}
    index = np.empty(len(groups), np.int32)
    for pattern in patterns(groups, cluster):
        shape = _shape(pattern, cluster)
        index[pattern.rows] = shapes.setdefault(shape, len(shapes))
    return tuple(shapes), index


def _shape(pattern: Pattern, cluster: Cluster) -> GroupShape:
    n = pattern.members.shape[1]
    if n == 1:
        return GroupShape(
            num_ranks=1, num_hosts=1, ranks_per_host=1, intra="pcie3", inter="ib", rings=1, local_rings=1, rails=1,
            is_regular=True, nvls=False, limits=(),
        )  # fmt: skip
    rings = rails = local_rings = 1
    if pattern.num_hosts == 1:
        rings = len(local_plan(pattern.members[0], cluster).paths)
    elif pattern.is_regular:
        rings = rails = len(networked_plan(pattern, cluster).paths)
        local_rings = len(local_plan(pattern.by_host()[0, 0], cluster).paths)
    intra = _intra_family(pattern, cluster)
    shape = GroupShape(
        num_ranks=n,
        num_hosts=pattern.num_hosts,
        ranks_per_host=int(pattern.counts.max()),
        intra=intra,
        inter=_FITTED_AS.get(cluster.fabric.family, cluster.fabric.family),
        rings=rings,
        local_rings=local_rings,
        rails=rails,
        is_regular=pattern.is_regular,
        nvls=cluster.nvls and intra.startswith("nvlink"),
        limits=(),
    )
    return shape.with_limits(_limits(pattern, shape, cluster))


_DRAWN = (
    (Algorithm.RING, Collective.ALL_REDUCE),
    (Algorithm.TREE, Collective.ALL_REDUCE),
    (Algorithm.NVLS, Collective.ALL_REDUCE),
    (Algorithm.NVLS_TREE, Collective.ALL_REDUCE),
    (Algorithm.HIERARCHICAL, Collective.ALL_REDUCE),
    (Algorithm.PAIRS, Collective.ALL_TO_ALL),
    (Algorithm.ROOTED, Collective.GATHER),
    (Algorithm.P2P, Collective.SEND),
)


def _limits(pattern: Pattern, shape: GroupShape, cluster: Cluster) -> tuple[Limit, ...]:
    """Of every algorithm: the rate of one flow in the healthiest of some groups of the pattern."""
    sample = pattern.sample(groups=_SAMPLED_GROUPS if cluster.faults else 1, hosts=_SAMPLED_HOSTS)
    limits = []
    for algorithm, kind in _DRAWN:
        if not shape.can_run(algorithm):
            continue
        sample_flows = flows(kind, algorithm, sample.members, cluster)
        rates = sample_flows.rates_Bps(len(sample.members), cluster.link_capacity_Bps)
        healthiest = int(rates.argmax())
        rate_Bps = float(rates[healthiest])
        # Flows that a larger group would add on the links of one rank.
        if algorithm is Algorithm.PAIRS:
            rate_Bps *= _peers(sample) / _peers(pattern)
        elif algorithm is Algorithm.ROOTED:
            rate_Bps *= (sample.members.shape[1] - 1) / (shape.num_ranks - 1)
        elif algorithm is Algorithm.HIERARCHICAL:
            rate_Bps *= sample.num_hosts / pattern.num_hosts
        kind_of_link = cluster.link_kind[sample_flows.narrowest(healthiest, cluster.link_capacity_Bps)]
        limits.append(Limit(algorithm, rate_Bps, shape.num_hosts > 1 and kind_of_link not in _BETWEEN_GPUS))
    return tuple(limits)


def _peers(pattern: Pattern) -> int:
    n, ranks_on_node = pattern.members.shape[1], int(pattern.counts.max())
    return int(n - ranks_on_node or n - 1)


def _intra_family(pattern: Pattern, cluster: Cluster) -> str:
    """The family of the narrowest link that a ring on the fullest host crosses."""
    first = pattern.members[0]
    gpu = cluster.gpu(int(first[0]))
    fullest = int(pattern.counts.argmax())
    here = first[pattern.starts[fullest] :][: pattern.counts[fullest]]
    if len(here) == 1:  # its steps inside a host are none; what the host has tells its generation
        start = int(here[0]) - int(here[0]) % cluster.devices_per_host
        here = np.arange(start, start + min(2, cluster.devices_per_host))
    if len(here) > 1:
        routes = cluster.routes(here, np.roll(here, -1))
        used = routes[routes >= 0]
        narrowest = cluster.link_kind[used[cluster.link_capacity_Bps[used].argmin()]]
        if narrowest in (LinkKind.NVLINK, LinkKind.NVSWITCH):
            return gpu.chip.nvlink or _DEFAULT_NVLINK
        if narrowest == LinkKind.XGMI:
            return "xgmi"
        if narrowest == LinkKind.SOCKET:
            return "socket"
    oldest, newest = _PCIE_FITTED
    return f"pcie{min(max(gpu.pcie_gen, oldest), newest)}"
