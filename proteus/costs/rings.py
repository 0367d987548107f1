"""Ring orders inside one host, found once and reused for every host like it.

On a host with a switch any order is as good as another.  Where GPUs are wired
to one another (a hybrid cube mesh) or share PCIe switches, the order decides
which link fills first, so a small search looks for the set of rings with the
best total rate.  Everything here is a pure function of a table of routes.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

#: most members for which every order is tried (7! = 5040 directed rings)
_MAX_SEARCHED = 8
#: rings side by side; NCCL's most channels per GPU pair on wired hosts is of this order
_MAX_RINGS = 12
#: partial sets kept in the search; enough for the 6 disjoint rings of a cube mesh and of a full mesh
_BEAM = 24
#: times that every path is chosen again with the others in view
_ROUNDS = 4
#: another ring must raise the total rate by this much to be worth it
_GAIN = 1.01


@dataclass(frozen=True, slots=True)
class HostTable:
    """Routes among the members of one host, hashable so that searches are cached.

    Parameters
    ----------
    num_members
        g, the members on the host.
    shape, routes
        int32[g, g, hops] link ids, renumbered from 0, as bytes; -1 pads.
    capacity_Bps
        Of the renumbered links.
    """

    num_members: int
    shape: tuple[int, int, int]
    routes: bytes
    capacity_Bps: tuple[float, ...]

    @classmethod
    def of(cls, routes: np.ndarray, capacity_Bps: np.ndarray) -> HostTable:
        """From int[g, g, hops] link ids of the cluster and its capacities."""
        used, compact = np.unique(routes, return_inverse=True)
        compact = compact.reshape(routes.shape).astype(np.int32)
        if used[0] < 0:
            compact -= 1
            used = used[1:]
        g, _, hops = routes.shape
        return cls(g, (g, g, hops), compact.tobytes(), tuple(capacity_Bps[used].tolist()))

    def link_counts(self) -> np.ndarray:
        """int32[g, g, links]: 1 where the route from i to j crosses the link."""
        routes = np.frombuffer(self.routes, np.int32).reshape(self.shape)
        counts = np.zeros((*self.shape[:2], len(self.capacity_Bps) + 1), np.int32)
        i, j = np.indices(self.shape[:2])
        for hop in range(self.shape[2]):
            np.add.at(counts, (i, j, routes[:, :, hop]), 1)
        return counts[:, :, :-1]  # the pad -1 lands in the last column


def _rates(use: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """Rate of one flow for rows of link counts: min over links of capacity / count."""
    with np.errstate(divide="ignore"):
        rates: np.ndarray = np.where(use > 0, capacity / use, np.inf).min(axis=-1)
    return rates


def edge_counts(orders: tuple[tuple[int, ...], ...], num_members: int, *, closed: bool) -> np.ndarray:
    """int32[g, g]: how often the orders step from member i to member j.

    >>> edge_counts(((0, 1, 2),), 3, closed=True).tolist()
    [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    """
    counts = np.zeros((num_members, num_members), np.int32)
    for order in orders:
        following = (*order[1:], order[0]) if closed else order[1:]
        for a, b in zip(order, following, strict=False):
            counts[a, b] += 1
    if num_members == 1:
        counts[:] = 0
    return counts


def _widest_order(counts: np.ndarray, capacity: np.ndarray) -> tuple[int, ...]:
    """From member 0 always on to the neighbour with the widest, then the shortest route."""
    width, length = _rates(counts, capacity), counts.sum(axis=-1)
    order, left = [0], set(range(1, len(counts)))
    while left:
        here = order[-1]
        order.append(min(left, key=lambda j: (-width[here, j], length[here, j], j)))
        left.remove(order[-1])
    return tuple(order)


@lru_cache(maxsize=256)
def best_rings(table: HostTable) -> tuple[tuple[int, ...], ...]:
    """Directed rings through all members with the best total rate.

    Returns
    -------
    Orders of the members; all rings run at the same rate side by side, and a
    ring that adds less than 1% is left out.
    """
    g = table.num_members
    device_order = tuple(range(g))
    if g <= 2:
        return (device_order,)
    counts, capacity = table.link_counts(), np.array(table.capacity_Bps)

    def use_of(order: tuple[int, ...]) -> np.ndarray:
        use: np.ndarray = counts[np.array(order), np.roll(np.array(order), -1)].sum(axis=0)
        return use

    first_link = np.frombuffer(table.routes, np.int32).reshape(table.shape)[:, :, 0]
    # What a member can send: all the links that leave it together.
    most = min(float(capacity[np.unique(np.delete(first_link[i], i))].sum()) for i in range(g))
    singles = sorted({device_order, _widest_order(counts, capacity)}, key=lambda o: -float(_rates(use_of(o), capacity)))
    best, best_rate = (singles[0],), float(_rates(use_of(singles[0]), capacity))
    if best_rate * _GAIN >= most or g > _MAX_SEARCHED:
        return best
    return _search(counts, capacity, best, best_rate, most)


def _search(
    counts: np.ndarray, capacity: np.ndarray, best: tuple[tuple[int, ...], ...], best_rate: float, most: float
) -> tuple[tuple[int, ...], ...]:
    """Beam search over sets of rings, each with its reverse."""
    g = len(counts)
    orders = [(0, *rest) for rest in itertools.permutations(range(1, g)) if rest[0] < rest[-1]]
    table = np.array(orders)
    forward = counts[table, np.roll(table, -1, axis=1)].sum(axis=1)
    backward = counts[np.roll(table, -1, axis=1), table].sum(axis=1)
    single = _rates(forward, capacity)
    top = int(single.argmax())
    if single[top] > best_rate * _GAIN:
        best, best_rate = (orders[top],), float(single[top])
    both = forward + backward
    beam: list[tuple[tuple[int, ...], np.ndarray]] = [((), np.zeros(len(capacity), np.int64))]
    for size in range(1, _MAX_RINGS // 2 + 1):
        beam = _extended(beam, both, capacity)
        chosen, use = beam[0]
        total = 2 * size * float(_rates(use, capacity))
        if total > best_rate * _GAIN:
            best_rate = total
            best = tuple(ring for c in chosen for ring in (orders[c], (0, *orders[c][:0:-1])))
        if best_rate * _GAIN >= most:
            break
    return best


def _extended(
    beam: list[tuple[tuple[int, ...], np.ndarray]], both: np.ndarray, capacity: np.ndarray
) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """The best sets with one order more: first by rate, then by how evenly links are used."""
    candidates: dict[tuple[int, ...], tuple[float, float, np.ndarray]] = {}
    for chosen, use in beam:
        sums = use + both
        rate, unevenness = _rates(sums, capacity), ((sums / capacity) ** 2).sum(axis=-1)
        for c in np.lexsort((unevenness, -rate))[:_BEAM]:
            candidates.setdefault(tuple(sorted((*chosen, int(c)))), (-float(rate[c]), float(unevenness[c]), sums[c]))
    ranked = sorted(candidates.items(), key=lambda item: item[1][:2])
    return [(chosen, use) for chosen, (_, _, use) in ranked[:_BEAM]]


@lru_cache(maxsize=1024)
def best_paths(table: HostTable, ends: tuple[tuple[int, int], ...]) -> tuple[tuple[int, ...], ...]:
    """One path through all members for each (entry, exit), together as fast as can be.

    Parameters
    ----------
    ends
        First and last member of each path; equal only when g is 1.
    """
    g = table.num_members
    if g == 1:
        return tuple((entry,) for entry, _ in ends)
    counts, capacity = table.link_counts(), np.array(table.capacity_Bps)
    use = np.zeros(len(capacity), np.int64)
    choices, added = zip(*(_paths_between(g, entry, leave, counts) for entry, leave in ends), strict=True)
    picks = [_zigzag_row(paths) for paths in choices]
    use = sum((links[pick] for links, pick in zip(added, picks, strict=True) if pick is not None), use)
    for _ in range(_ROUNDS if g <= _MAX_SEARCHED else 1):
        before = list(picks)
        for i, links in enumerate(added):
            old = picks[i]
            if old is not None:
                use = use - links[old]
            sums = use + links
            unevenness = ((sums / capacity) ** 2).sum(axis=-1)
            pick = int(np.lexsort((unevenness, -_rates(sums, capacity)))[0])
            picks[i], use = pick, use + links[pick]
        if picks == before:
            break
    return tuple(tuple(table_[pick].tolist()) for table_, pick in zip(choices, picks, strict=True))


def _zigzag_row(paths: np.ndarray) -> int | None:
    """The row i, i+1, i-1, i+2, ... if it is among the paths.

    These paths from every member together use each direction of each pair of a
    full mesh once (Walecki's construction), which a greedy search misses.
    """
    g = paths.shape[1]
    steps = np.array([(j + 1) // 2 * (1 if j % 2 else -1) for j in range(g)])
    rows = np.flatnonzero((paths == (paths[0, 0] + steps) % g).all(axis=1))
    return int(rows[0]) if len(rows) else None


def _paths_between(g: int, entry: int, leave: int, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Paths from entry to exit through all members, int[paths, g], and the links of each, int[paths, links]."""
    between = [m for m in range(g) if m not in (entry, leave)]
    middles = itertools.permutations(between) if g <= _MAX_SEARCHED else iter([tuple(between)])
    paths = np.array([(entry, *middle, leave) for middle in middles])
    return paths, counts[paths[:, :-1], paths[:, 1:]].sum(axis=1)
