"""Which links a collective loads, and how often.

Every algorithm is drawn as *edges*: columns (group, from rank, to rank, count)
of flows that all carry the same bytes.  Their routes over the cluster, with
equal links of a group summed, are the answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from proteus.cluster.cluster import Cluster
from proteus.cluster.kinds import LinkKind
from proteus.costs import draw
from proteus.costs.collective_types import Algorithm, Collective
from proteus.costs.draw import Edges, Part
from proteus.costs.patterns import Pattern, local_plan, networked_plan, patterns


@dataclass(frozen=True, slots=True)
class Flows:
    """How many flows of each group cross each directed link.

    Sorted by (group, link); a pair stands once.

    Parameters
    ----------
    group, link, count
        int32[m].
    """

    group: np.ndarray
    link: np.ndarray
    count: np.ndarray

    def rates_Bps(self, num_groups: int, capacity_Bps: np.ndarray) -> np.ndarray:
        """float64[groups]: the most one flow of each group gets alone [B/s]."""
        rates = np.full(num_groups, np.inf)
        if len(self.group):
            first = np.flatnonzero(np.diff(self.group, prepend=-1))
            rates[self.group[first]] = np.minimum.reduceat(capacity_Bps[self.link] / self.count, first)
        return rates

    def narrowest(self, group: int, capacity_Bps: np.ndarray) -> int:
        """The link with the least capacity per flow of one group."""
        first, end = np.searchsorted(self.group, [group, group + 1])
        links = self.link[first:end]
        return int(links[(capacity_Bps[links] / self.count[first:end]).argmin()])


def flows(kind: Collective, algorithm: Algorithm, groups: np.ndarray, cluster: Cluster) -> Flows:
    """Flows of one collective on each group at once.

    Parameters
    ----------
    groups
        int[groups, n]: ranks; the first of a row is the root of a broadcast,
        gather or scatter, and the sender of a send.

    Examples
    --------
    >>> from proteus.cluster import clusters
    >>> cluster = clusters.load("dgx-a100")
    >>> found = flows(Collective.ALL_REDUCE, Algorithm.RING, np.arange(8)[None], cluster)
    >>> len(found.link), set(found.count.tolist())  # 8 GPUs, up to the switch and down again
    (16, {1})
    """
    groups = np.atleast_2d(np.asarray(groups))
    if groups.shape[1] < 2:
        return Flows(*(np.empty(0, np.int32) for _ in range(3)))
    return _routed(_edges(kind, algorithm, groups, cluster), cluster)


def _edges(kind: Collective, algorithm: Algorithm, groups: np.ndarray, cluster: Cluster) -> Iterable[Edges]:
    if algorithm is Algorithm.P2P:
        rows = np.arange(len(groups))
        yield Edges(rows, groups[:, 0], groups[:, 1], np.ones_like(rows))
    elif algorithm is Algorithm.ROOTED:
        yield draw.rooted(kind, groups)
    else:
        for pattern in patterns(groups, cluster):
            for edges in _pattern_edges(kind, algorithm, pattern, cluster):
                yield draw.without_root(edges, groups) if kind is Collective.BROADCAST else edges


def _pattern_edges(kind: Collective, algorithm: Algorithm, pattern: Pattern, cluster: Cluster) -> Iterable[Edges]:
    if algorithm is Algorithm.PAIRS:
        return _pairs(pattern, cluster)
    if pattern.num_hosts == 1:
        if algorithm is Algorithm.NVLS:
            return draw.switched(pattern, *draw.nvls_counts(kind, pattern.members.shape[1]))
        plan = local_plan(pattern.members[0], cluster)
        return draw.local_rings(pattern, plan) if algorithm is Algorithm.RING else draw.local_tree(pattern, plan)
    if not pattern.is_regular:
        return draw.plain_ring(pattern) if algorithm is Algorithm.RING else draw.plain_tree(pattern)
    if algorithm is Algorithm.HIERARCHICAL:
        return draw.hierarchical(kind, pattern, local_plan(pattern.by_host()[0, 0], cluster))
    plan = networked_plan(pattern, cluster)
    if algorithm is Algorithm.RING:
        return draw.rings(pattern, plan)
    return draw.trees(pattern, plan) if algorithm is Algorithm.TREE else draw.nvls_trees(pattern)


def _pairs(pattern: Pattern, cluster: Cluster) -> Iterable[Edges]:
    """Every ordered pair, by neighbours where a route is its sender's way out and its receiver's way in."""
    sample = pattern.sample(spread=True)
    drawn = _routed(draw.all_pairs(sample), cluster)
    short = _routed(draw.neighbour_pairs(sample), cluster)
    if np.array_equal(drawn.link, short.link) and np.array_equal(drawn.count, short.count):
        return draw.neighbour_pairs(pattern)
    return draw.all_pairs(pattern)


def _routed(columns: Iterable[Edges], cluster: Cluster) -> Flows:
    """Routes of all edges, summed per group and link."""
    num_links = cluster.num_links
    keys: list[np.ndarray] = []
    counts: list[np.ndarray] = []
    for edges in columns:
        routes = cluster.routes(edges.source, edges.target)
        # Hop by hop: the first hops of all edges are nearly in order, and so on; sorting likes that.
        used = _kept(routes, edges.part, cluster).T
        key = edges.group.astype(np.int64) * num_links + routes.T
        count = np.broadcast_to(edges.count, key.shape)
        summed = _summed(key[used], count[used])
        keys.append(summed[0])
        counts.append(summed[1])
    key, count = _summed(np.concatenate(keys), np.concatenate(counts)) if len(keys) > 1 else (keys[0], counts[0])
    group, link = np.divmod(key, num_links)
    return Flows(group.astype(np.int32), link.astype(np.int32), count.astype(np.int32))


def _kept(routes: np.ndarray, part: Part, cluster: Cluster) -> np.ndarray:
    """bool[edges, hops]: the links of each route that its part keeps."""
    used: np.ndarray = routes >= 0
    if part is Part.WHOLE:
        return used
    position = np.arange(routes.shape[1])
    if part is Part.FIRST:
        return _both(used, position == 0)
    if part is Part.LAST:
        return _both(used, position == used.sum(axis=1, keepdims=True) - 1)
    is_nic = used & (cluster.link_kind[np.where(used, routes, 0)] == LinkKind.NIC)
    if part is Part.TO_NETWORK:
        return _both(used, position <= is_nic.argmax(axis=1)[:, None])
    return _both(used, position >= (len(position) - 1 - is_nic[:, ::-1].argmax(axis=1))[:, None])


def _both(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    both: np.ndarray = one & other
    return both


def _summed(key: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted distinct keys and the sum of their counts."""
    if not len(key):
        return key, count.astype(np.int64)
    order = np.argsort(key, kind="stable")  # merges the runs that are already in order
    key, count = key[order], count[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    return key[first], np.add.reduceat(count, first, dtype=np.int64)
