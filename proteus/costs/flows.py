"""Which links a collective loads, and how often.

Every algorithm is drawn as *edges*: columns (group, from rank, to rank, count)
of flows that all carry the same bytes.  Their routes over the cluster, with
equal links of a group summed, are the answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from proteus.cluster.cluster import Cluster
from proteus.cluster.kinds import LinkKind
from proteus.costs.collectives import Algorithm, Collective
from proteus.costs.patterns import HostPlan, Pattern, is_networked, local_plan, networked_plan, patterns
from proteus.costs.trees import double_tree
from proteus.errors import StrategyError

#: ordered pairs of ranks that are drawn one by one before all_to_all gives up (64M routes)
_MOST_PAIRS = 2**26


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


class Part(Enum):
    """Which links of a route count."""

    WHOLE = auto()
    FIRST = auto()
    LAST = auto()
    TO_NETWORK = auto()  # up to and with the first network card
    FROM_NETWORK = auto()  # from the last network card on


@dataclass(frozen=True, slots=True)
class Edges:
    """Columns of flows before they are routed.

    Parameters
    ----------
    group, source, target, count
        int[edges].
    part
        Which links of the routes count.
    """

    group: np.ndarray
    source: np.ndarray
    target: np.ndarray
    count: np.ndarray
    part: Part = Part.WHOLE


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
        yield _rooted(kind, groups)
    else:
        for pattern in patterns(groups, cluster):
            for edges in _pattern_edges(kind, algorithm, pattern, cluster):
                yield _without_root(edges, groups) if kind is Collective.BROADCAST else edges


def _pattern_edges(kind: Collective, algorithm: Algorithm, pattern: Pattern, cluster: Cluster) -> Iterable[Edges]:
    if algorithm is Algorithm.PAIRS:
        return _pairs(pattern, cluster)
    if not is_networked(pattern, cluster):
        if algorithm is Algorithm.NVLS:
            return _switched(pattern, *_nvls_counts(kind, pattern.members.shape[1]))
        plan = local_plan(pattern.members[0], cluster)
        return _local_rings(pattern, plan) if algorithm is Algorithm.RING else _local_tree(pattern, plan)
    if not pattern.is_regular:
        return _plain_ring(pattern) if algorithm is Algorithm.RING else _plain_tree(pattern)
    if algorithm is Algorithm.HIERARCHICAL:
        return _hierarchical(kind, pattern, local_plan(pattern.by_host()[0, 0], cluster))
    plan = networked_plan(pattern, cluster)
    if algorithm is Algorithm.RING:
        return _rings(pattern, plan)
    return _trees(pattern, plan) if algorithm is Algorithm.TREE else _nvls_trees(pattern)


# --- drawing edges -----------------------------------------------------------


def _columns(
    rows: np.ndarray, source: np.ndarray, target: np.ndarray, count: int | np.ndarray, part: Part = Part.WHOLE
) -> Edges:
    """Edges from int[k, ...] ranks of the k groups `rows`; `count` fits the trailing axes."""
    group = np.broadcast_to(rows.reshape(-1, *(1,) * (source.ndim - 1)), source.shape)
    counts = np.broadcast_to(count, source.shape)
    return Edges(group.ravel(), source.ravel(), target.ravel(), counts.ravel(), part)


def _local_rings(pattern: Pattern, plan: HostPlan) -> Iterable[Edges]:
    a, b, count = plan.edges(closed=True)
    yield _columns(pattern.rows, pattern.members[:, a], pattern.members[:, b], count)


def _local_tree(pattern: Pattern, plan: HostPlan) -> Iterable[Edges]:
    """On one host both trees are the chain along the first ring."""
    order = np.array(plan.paths[0])
    up, down = pattern.members[:, order[1:]], pattern.members[:, order[:-1]]
    yield _columns(pattern.rows, up, down, 2)
    yield _columns(pattern.rows, down, up, 2)


def _rings(pattern: Pattern, plan: HostPlan) -> Iterable[Edges]:
    """Inside every host along the paths, between hosts from exit to entry."""
    at = pattern.by_host()
    a, b, count = plan.edges(closed=False)
    odd = np.arange(pattern.num_hosts) % 2 == 1 if plan.alternates else np.zeros(pattern.num_hosts, bool)
    source, target = at[:, :, a], at[:, :, b]
    flipped = odd[None, :, None]
    yield _columns(pattern.rows, np.where(flipped, target, source), np.where(flipped, source, target), count)
    first, last = at[:, :, plan.entries], at[:, :, plan.exits]
    leave, enter = np.where(flipped, first, last), np.where(flipped, last, first)
    yield _columns(pattern.rows, leave, np.roll(enter, -1, axis=1), 1)


def _plain_ring(pattern: Pattern) -> Iterable[Edges]:
    """One ring, host by host in rank order: right for any group."""
    yield _columns(pattern.rows, pattern.members, np.roll(pattern.members, -1, axis=1), 1)


def _tree_edges(rows: np.ndarray, leaders: np.ndarray) -> Iterable[Edges]:
    """Both trees, up and down, over int[k, hosts, ...] leaders."""
    for parent in double_tree(leaders.shape[1]):
        child = np.flatnonzero(parent >= 0)
        below, above = leaders[:, child], leaders[:, parent[child]]
        yield _columns(rows, below, above, 1)
        yield _columns(rows, above, below, 1)


def _trees(pattern: Pattern, plan: HostPlan) -> Iterable[Edges]:
    """Per rail a chain in every host and two trees over the hosts."""
    at = pattern.by_host()
    a, b, count = plan.edges(closed=False)
    for source, target in ((a, b), (b, a)):
        yield _columns(pattern.rows, at[:, :, source], at[:, :, target], 2 * count)
    yield from _tree_edges(pattern.rows, at[:, :, plan.entries])


def _plain_tree(pattern: Pattern) -> Iterable[Edges]:
    """Chains in rank order, and two trees over the first member of every host."""
    inner = np.setdiff1d(np.arange(pattern.members.shape[1]), pattern.starts)
    below, above = pattern.members[:, inner], pattern.members[:, inner - 1]
    yield _columns(pattern.rows, below, above, 2)
    yield _columns(pattern.rows, above, below, 2)
    yield from _tree_edges(pattern.rows, pattern.members[:, pattern.starts])


def _switched(pattern: Pattern, up: int, down: int) -> Iterable[Edges]:
    """`up` flows from every member to its switch, `down` flows back."""
    following = np.roll(pattern.members, -1, axis=1)
    yield _columns(pattern.rows, pattern.members, following, up, part=Part.FIRST)
    yield _columns(pattern.rows, pattern.members, following, down, part=Part.LAST)


def _nvls_counts(kind: Collective, num_ranks: int) -> tuple[int, int]:
    """Shares of S/n that a GPU sends to and gets from the reducing switch.

    To reduce, the switch reads every GPU's whole buffer and gives each owner
    its share; to gather, each owner's share is sent once and all arrive.
    """
    if kind is Collective.ALL_REDUCE:
        return num_ranks + 1, num_ranks + 1
    return (1, num_ranks) if kind is Collective.ALL_GATHER else (num_ranks, 1)


def _nvls_trees(pattern: Pattern) -> Iterable[Edges]:
    """Reduce in the switch, two trees per member over the hosts, multicast."""
    at = pattern.by_host()
    g = at.shape[2]
    following = np.roll(at, -1, axis=2)
    yield _columns(pattern.rows, at, following, 2 * (g + 1), part=Part.FIRST)
    yield _columns(pattern.rows, at, following, 2 * (g + 1), part=Part.LAST)
    yield from _tree_edges(pattern.rows, at)


def _hierarchical(kind: Collective, pattern: Pattern, plan: HostPlan) -> Iterable[Edges]:
    """Rings inside every host and one ring per member over the hosts, pipelined."""
    at = pattern.by_host()
    _, hosts, g = at.shape
    passes = 2 if kind is Collective.ALL_REDUCE else 1
    a, b, count = plan.edges(closed=True)
    yield _columns(pattern.rows, at[:, :, a], at[:, :, b], count * (passes * (g - 1) * hosts))
    yield _columns(pattern.rows, at, np.roll(at, -1, axis=1), passes * (hosts - 1) * len(plan.paths))


def _pairs(pattern: Pattern, cluster: Cluster) -> Iterable[Edges]:
    """Every ordered pair, by neighbours where a route is its sender's way out and its receiver's way in."""
    sample = pattern.sample(spread=True)
    drawn = _routed(_all_pairs(sample), cluster)
    short = _routed(_neighbour_pairs(sample), cluster)
    if np.array_equal(drawn.link, short.link) and np.array_equal(drawn.count, short.count):
        return _neighbour_pairs(pattern)
    return _all_pairs(pattern)


def _neighbour_pairs(pattern: Pattern) -> Iterable[Edges]:
    """As many flows to one neighbour as there are peers, inside the host and beyond it.

    Exact when the links of a route depend on the sender or on the receiver
    alone: a switched host, a fabric that does not block.
    """
    members = pattern.members
    n = members.shape[1]
    counts = pattern.counts
    start, own = np.repeat(pattern.starts, counts), np.repeat(counts, counts)
    position = np.arange(n)
    if (own > 1).any():
        inside = start + (position - start + 1) % own
        here = own > 1
        yield _columns(pattern.rows, members[:, here], members[:, inside[here]], (own - 1)[here])
    if pattern.num_hosts > 1:
        # Hosts may differ in members, so the ways out and the ways in are drawn apart.
        other = members[:, (start + own) % n]
        yield _columns(pattern.rows, members, other, n - own, Part.TO_NETWORK)
        yield _columns(pattern.rows, other, members, n - own, Part.FROM_NETWORK)


def _all_pairs(pattern: Pattern) -> Iterable[Edges]:
    k, n = pattern.members.shape
    if k * n * n > _MOST_PAIRS:
        raise StrategyError(
            f"all_to_all over {k} groups of {n} ranks has {k * n * n:,} pairs on a fabric where each takes its own "
            f"route; at most {_MOST_PAIRS:,} are drawn; use smaller groups or a fabric without oversubscription"
        )
    source, target = np.nonzero(~np.eye(n, dtype=bool))
    chunk = max(1, 2**20 // len(source))
    for i in range(0, k, chunk):
        members = pattern.members[i : i + chunk]
        yield _columns(pattern.rows[i : i + chunk], members[:, source], members[:, target], 1)


def _rooted(kind: Collective, groups: np.ndarray) -> Edges:
    others = groups[:, 1:]
    root = np.broadcast_to(groups[:, :1], others.shape)
    source, target = (others, root) if kind is Collective.GATHER else (root, others)
    return _columns(np.arange(len(groups)), source, target, 1)


def _without_root(edges: Edges, groups: np.ndarray) -> Edges:
    """A broadcast sends nothing back into its root."""
    keep = edges.target != groups[edges.group, 0]
    return Edges(edges.group[keep], edges.source[keep], edges.target[keep], edges.count[keep], edges.part)


# --- routing them ------------------------------------------------------------


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
