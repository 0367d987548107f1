"""How groups of ranks lie on the hosts of a cluster.

Groups that look the same (same members of the hosts, same kinds of device)
share one *pattern*: what depends on the pattern alone is found once, and what
remains is numpy over all groups of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from proteus.cluster.cluster import Cluster
from proteus.cluster.kinds import LinkKind
from proteus.costs.rings import HostTable, best_paths, best_rings, edge_counts


@dataclass(frozen=True, slots=True)
class Pattern:
    """Groups that lie alike.

    Parameters
    ----------
    rows
        int[k]: their rows in the table of groups.
    members
        int[k, n]: their ranks, host by host.
    starts
        int[hosts]: where each host's members start.
    is_regular
        Every host has as many members.
    """

    rows: np.ndarray
    members: np.ndarray
    starts: np.ndarray
    is_regular: bool

    @property
    def num_hosts(self) -> int:
        return len(self.starts)

    @property
    def counts(self) -> np.ndarray:
        """int[hosts]: members on each host."""
        return np.diff(self.starts, append=self.members.shape[1])

    def by_host(self) -> np.ndarray:
        """int[k, hosts, members of a host]; only where every host has as many."""
        return self.members.reshape(len(self.members), self.num_hosts, -1)

    def sample(self, *, groups: int = 1, hosts: int = 4, spread: bool = False) -> Pattern:
        """The first groups, cut to some of their hosts: the first ones, or ones far apart."""
        rows = np.arange(min(groups, len(self.rows)))
        if self.num_hosts <= hosts:
            return Pattern(rows, self.members[: len(rows)], self.starts, self.is_regular)
        kept = np.linspace(0, self.num_hosts - 1, hosts).astype(int) if spread else np.arange(hosts)
        counts = self.counts[kept]
        columns = np.concatenate([self.starts[h] + np.arange(c) for h, c in zip(kept, counts, strict=True)])
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        return Pattern(rows, self.members[: len(rows), columns], starts, self.is_regular)


def patterns(groups: np.ndarray, cluster: Cluster) -> Iterator[Pattern]:
    """Cut the rows of `groups` (int[groups, n]) into patterns."""
    members = np.sort(np.asarray(groups), axis=1)
    hosts = cluster.host_of(members)
    if (hosts[:, 1:] < hosts[:, :-1]).any():  # devices that are not numbered host by host
        order = np.argsort(hosts, axis=1, kind="stable")
        members, hosts = np.take_along_axis(members, order, 1), np.take_along_axis(hosts, order, 1)
    is_start = np.ones(members.shape, bool)
    is_start[:, 1:] = hosts[:, 1:] != hosts[:, :-1]
    # One integer per row; rows that collide are distinguished by the check below.
    word = (cluster.local_of(members).astype(np.int64) * 2 + is_start) * len(cluster.runs) + _run_of(hosts, cluster)
    weights = np.random.default_rng(0).integers(1, 2**62, word.shape[1], np.int64)
    with np.errstate(over="ignore"):
        key = (word * weights).sum(axis=1)
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    assert (word == word[first[inverse]]).all(), "two patterns of groups share a key"
    if len(first) == 1:
        yield _pattern(np.arange(len(members)), members, is_start[0])
        return
    order = np.argsort(inverse, kind="stable")
    for rows in np.split(order, np.cumsum(np.bincount(inverse))[:-1]):
        yield _pattern(rows, members[rows], is_start[rows[0]])


def _pattern(rows: np.ndarray, members: np.ndarray, is_start: np.ndarray) -> Pattern:
    starts = np.flatnonzero(is_start)
    counts = np.diff(starts, append=len(is_start))
    regular = bool((counts == counts[0]).all())
    return Pattern(rows, members, starts, regular)


@dataclass(frozen=True, slots=True)
class HostPlan:
    """The path of every ring through one host.

    Parameters
    ----------
    paths
        Members in ring order, one path per ring.
    alternates
        On every other host the paths run backwards, so that a ring leaves by
        the network card through which it enters the next host (NCCL does the
        same to stay on one rail).
    """

    paths: tuple[tuple[int, ...], ...]
    alternates: bool

    @property
    def entries(self) -> np.ndarray:
        return np.array([path[0] for path in self.paths])

    @property
    def exits(self) -> np.ndarray:
        return np.array([path[-1] for path in self.paths])

    def edges(self, *, closed: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """From member, to member, how many rings take the step."""
        size = max(map(len, self.paths))
        counts = edge_counts(self.paths, size, closed=closed)
        source, target = np.nonzero(counts)
        return source, target, counts[source, target]


def host_table(members: np.ndarray, cluster: Cluster) -> HostTable:
    """Routes among `members` (int[g]) of one host, as a value that searches can be cached by.

    Capacities are those of a healthy host: what chooses the rings does not
    know which links are slow.
    """
    g = len(members)
    source, target = np.repeat(members, g), np.tile(members, g)
    routes = cluster.routes(source, target)
    host = int(cluster.host_of(members[:1])[0])
    local = np.where(routes < 0, -1, routes - cluster.link_range(host).start)
    capacity_Bps = np.array([link.capacity_Bps for link in cluster.host_at(host).links])
    return HostTable.of(local.reshape(g, g, -1), capacity_Bps)


def local_plan(members: np.ndarray, cluster: Cluster) -> HostPlan:
    """Rings that stay among `members`."""
    return HostPlan(best_rings(host_table(members, cluster)), alternates=False)


def networked_plan(pattern: Pattern, cluster: Cluster) -> HostPlan:
    """Rings that enter and leave each host of a regular pattern.

    Where hosts differ, the one with the fewest ways in decides for all.
    """
    at = pattern.by_host()[0]
    _, first = np.unique(_run_of(cluster.host_of(at[:, 0]), cluster), return_index=True)
    plans = [_plan_of(at[host], at[(host + 1) % len(at), 0], pattern.num_hosts, cluster) for host in first]
    return min(plans, key=lambda plan: len(plan.paths))


def _run_of(hosts: np.ndarray, cluster: Cluster) -> np.ndarray:
    """The run of equal hosts that each host belongs to."""
    ends = np.cumsum([count for _, count in cluster.runs])
    return np.searchsorted(ends, hosts, side="right")


def _plan_of(here: np.ndarray, elsewhere: int, num_hosts: int, cluster: Cluster) -> HostPlan:
    routes = cluster.routes(here, np.full_like(here, elsewhere))
    is_nic = (routes >= 0) & (cluster.link_kind[np.where(routes < 0, 0, routes)] == LinkKind.NIC)
    distance = is_nic.argmax(axis=1)  # links before the network card
    card = np.take_along_axis(routes, distance[:, None], 1)[:, 0]
    ends, crosses = _ring_ends(card, distance)
    paths = best_paths(host_table(here, cluster), ends)
    return HostPlan(paths, alternates=crosses and num_hosts % 2 == 0)


def _ring_ends(card: np.ndarray, distance: np.ndarray) -> tuple[tuple[tuple[int, int], ...], bool]:
    """Entry and exit of every ring, and whether some ring leaves by another card.

    A ring enters at a member that is nearest to its card.  It leaves by
    another member of the same card, or else by one of the card half way round:
    so the paths of a full mesh can share out its links (see :func:`best_paths`).
    """
    if len(card) == 1:
        return ((0, 0),), False
    by_card: dict[int, list[int]] = {}
    for member in np.lexsort((np.arange(len(card)), distance)):
        by_card.setdefault(int(card[member]), []).append(int(member))
    cards = sorted(by_card)
    near = {c: [m for m in by_card[c] if distance[m] == distance[by_card[c][0]]] for c in cards}
    ends, crosses = [], False
    for i, c in enumerate(cards):
        for j, entry in enumerate(near[c]):
            if len(near[c]) > 1:
                leave = near[c][j - 1]
            elif len(cards) > 1:
                leave, crosses = near[cards[(i + len(cards) // 2) % len(cards)]][0], True
            else:
                leave = by_card[c][1]
            ends.append((entry, leave))
    return tuple(ends), crosses
