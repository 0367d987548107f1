"""Every algorithm drawn as edges: columns (group, from rank, to rank, count) of equal flows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from proteus.costs.collective_types import Collective
from proteus.costs.patterns import HostPlan, Pattern
from proteus.costs.trees import double_tree
from proteus.errors import StrategyError

#: ordered pairs of ranks that are drawn one by one before all_to_all gives up (64M routes)
_MAX_PAIRS = 2**26


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


def _columns(
    rows: np.ndarray, source: np.ndarray, target: np.ndarray, count: int | np.ndarray, part: Part = Part.WHOLE
) -> Edges:
    """Edges from int[k, ...] ranks of the k groups `rows`; `count` fits the trailing axes."""
    group = np.broadcast_to(rows.reshape(-1, *(1,) * (source.ndim - 1)), source.shape)
    counts = np.broadcast_to(count, source.shape)
    return Edges(group.ravel(), source.ravel(), target.ravel(), counts.ravel(), part)


def local_rings(pattern: Pattern, plan: HostPlan) -> Iterable[Edges]:
    a, b, count = plan.edges(closed=True)
    yield _columns(pattern.rows, pattern.members[:, a], pattern.members[:, b], count)


def local_tree(pattern: Pattern, plan: HostPlan) -> Iterable[Edges]:
    """On one host both trees are the chain along the first ring."""
    order = np.array(plan.paths[0])
    up, down = pattern.members[:, order[1:]], pattern.members[:, order[:-1]]
    yield _columns(pattern.rows, up, down, 2)
    yield _columns(pattern.rows, down, up, 2)


def rings(pattern: Pattern, plan: HostPlan) -> Iterable[Edges]:
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


def plain_ring(pattern: Pattern) -> Iterable[Edges]:
    """One ring, host by host in rank order: right for any group."""
    yield _columns(pattern.rows, pattern.members, np.roll(pattern.members, -1, axis=1), 1)


def _tree_edges(rows: np.ndarray, leaders: np.ndarray) -> Iterable[Edges]:
    """Both trees, up and down, over int[k, hosts, ...] leaders."""
    for parent in double_tree(leaders.shape[1]):
        child = np.flatnonzero(parent >= 0)
        below, above = leaders[:, child], leaders[:, parent[child]]
        yield _columns(rows, below, above, 1)
        yield _columns(rows, above, below, 1)


def trees(pattern: Pattern, plan: HostPlan) -> Iterable[Edges]:
    """Per rail a chain in every host and two trees over the hosts."""
    at = pattern.by_host()
    a, b, count = plan.edges(closed=False)
    for source, target in ((a, b), (b, a)):
        yield _columns(pattern.rows, at[:, :, source], at[:, :, target], 2 * count)
    yield from _tree_edges(pattern.rows, at[:, :, plan.entries])


def plain_tree(pattern: Pattern) -> Iterable[Edges]:
    """Chains in rank order, and two trees over the first member of every host."""
    inner = np.setdiff1d(np.arange(pattern.members.shape[1]), pattern.starts)
    below, above = pattern.members[:, inner], pattern.members[:, inner - 1]
    yield _columns(pattern.rows, below, above, 2)
    yield _columns(pattern.rows, above, below, 2)
    yield from _tree_edges(pattern.rows, pattern.members[:, pattern.starts])


def switched(pattern: Pattern, up: int, down: int) -> Iterable[Edges]:
    """`up` flows from every member to its switch, `down` flows back."""
    following = np.roll(pattern.members, -1, axis=1)
    yield _columns(pattern.rows, pattern.members, following, up, part=Part.FIRST)
    yield _columns(pattern.rows, pattern.members, following, down, part=Part.LAST)


def nvls_counts(kind: Collective, num_ranks: int) -> tuple[int, int]:
    """Shares of S/n that a GPU sends to and gets from the reducing switch.

    To reduce, the switch reads every GPU's whole buffer and gives each owner
    its share; to gather, each owner's share is sent once and all arrive.
    """
    if kind is Collective.ALL_REDUCE:
        return num_ranks + 1, num_ranks + 1
    return (1, num_ranks) if kind is Collective.ALL_GATHER else (num_ranks, 1)


def nvls_trees(pattern: Pattern) -> Iterable[Edges]:
    """Reduce in the switch, two trees per member over the hosts, multicast."""
    at = pattern.by_host()
    g = at.shape[2]
    following = np.roll(at, -1, axis=2)
    yield _columns(pattern.rows, at, following, 2 * (g + 1), part=Part.FIRST)
    yield _columns(pattern.rows, at, following, 2 * (g + 1), part=Part.LAST)
    yield from _tree_edges(pattern.rows, at)


def hierarchical(kind: Collective, pattern: Pattern, plan: HostPlan) -> Iterable[Edges]:
    """Rings inside every host and one ring per member over the hosts, pipelined."""
    at = pattern.by_host()
    _, hosts, g = at.shape
    passes = 2 if kind is Collective.ALL_REDUCE else 1
    a, b, count = plan.edges(closed=True)
    yield _columns(pattern.rows, at[:, :, a], at[:, :, b], count * (passes * (g - 1) * hosts))
    yield _columns(pattern.rows, at, np.roll(at, -1, axis=1), passes * (hosts - 1) * len(plan.paths))


def neighbour_pairs(pattern: Pattern) -> Iterable[Edges]:
    """As many flows to one neighbour as there are peers, inside the host and beyond it.

    Exact when the links of a route depend on the sender or on the receiver
    alone: a switched host, a fabric that does not block.
    """
    members = pattern.members
    n = members.shape[1]
    counts = pattern.counts
    start, own_count = np.repeat(pattern.starts, counts), np.repeat(counts, counts)
    position = np.arange(n)
    if (own_count > 1).any():
        inside = start + (position - start + 1) % own_count
        here = own_count > 1
        yield _columns(pattern.rows, members[:, here], members[:, inside[here]], (own_count - 1)[here])
    if pattern.num_hosts > 1:
        # Hosts may differ in members, so the ways out and the ways in are drawn apart.
        neighbours = members[:, (start + own_count) % n]
        yield _columns(pattern.rows, members, neighbours, n - own_count, Part.TO_NETWORK)
        yield _columns(pattern.rows, neighbours, members, n - own_count, Part.FROM_NETWORK)


def all_pairs(pattern: Pattern) -> Iterable[Edges]:
    k, n = pattern.members.shape
    if k * n * n > _MAX_PAIRS:
        raise StrategyError(
            f"all_to_all over {k} groups of {n} ranks has {k * n * n:,} pairs on a fabric where each takes its own "
            f"route; at most {_MAX_PAIRS:,} are drawn; use smaller groups or a fabric without oversubscription"
        )
    source, target = np.nonzero(~np.eye(n, dtype=bool))
    chunk = max(1, 2**20 // len(source))
    for i in range(0, k, chunk):
        members = pattern.members[i : i + chunk]
        yield _columns(pattern.rows[i : i + chunk], members[:, source], members[:, target], 1)


def rooted(kind: Collective, groups: np.ndarray) -> Edges:
    others = groups[:, 1:]
    root = np.broadcast_to(groups[:, :1], others.shape)
    source, target = (others, root) if kind is Collective.GATHER else (root, others)
    return _columns(np.arange(len(groups)), source, target, 1)


def without_root(edges: Edges, groups: np.ndarray) -> Edges:
    """A broadcast sends nothing back into its root."""
    keep = edges.target != groups[edges.group, 0]
    return Edges(edges.group[keep], edges.source[keep], edges.target[keep], edges.count[keep], edges.part)
