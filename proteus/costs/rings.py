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
#: partial sets kept in the search; 64 finds the 6 disjoint rings of a hybrid cube mesh
_BEAM = 64
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
    keep = np.argsort(-_rates(both, capacity), kind="stable")[:720]
    both = both[keep]
    beam: list[tuple[tuple[int, ...], np.ndarray]] = [((), np.zeros(len(capacity), np.int64))]
    for size in range(1, _MAX_RINGS // 2 + 1):
        use = np.stack([u for _, u in beam])[:, None, :] + both[None]
        rate = _rates(use, capacity)
        load = ((use / capacity) ** 2).sum(axis=-1)
        ranking = np.lexsort((load.ravel(), -rate.ravel()))
        chosen: dict[tuple[int, ...], np.ndarray] = {}
        for flat in ranking[: 8 * _BEAM]:
            b, c = divmod(int(flat), len(both))
            chosen.setdefault(tuple(sorted((*beam[b][0], c))), use[b, c])
            if len(chosen) == _BEAM:
                break
        beam = list(chosen.items())
        total = 2 * size * float(_rates(beam[0][1], capacity))
        if total > best_rate * _GAIN:
            best_rate = total
            rings = [orders[keep[c]] for c in beam[0][0]]
            best = tuple(ring for order in rings for ring in (order, (order[0], *order[:0:-1])))
        if best_rate * _GAIN >= most:
            break
    return best


@lru_cache(maxsize=1024)
def best_paths(table: HostTable, ends: tuple[tuple[int, int], ...]) -> tuple[tuple[int, ...], ...]:
    """One path through all members for each (entry, exit), together as fast as can be.

    Parameters
    ----------
    ends
        First and last member of each path; equal only when g is 1.
    """
    g = table.num_members
    counts, capacity = table.link_counts(), np.array(table.capacity_Bps)
    use = np.zeros(len(capacity), np.int64)
    paths: list[tuple[int, ...]] = []
    for entry, leave in ends:
        between = [m for m in range(g) if m not in (entry, leave)]
        if g == 1:
            paths.append((entry,))
            continue
        middles = [tuple(between)]
        if 2 < g <= _MAX_SEARCHED:
            middles = list(itertools.permutations(between))
        table_ = np.array([(entry, *middle, leave) for middle in middles])
        added = counts[table_[:, :-1], table_[:, 1:]].sum(axis=1)
        rate = _rates(use + added, capacity)
        length = added.sum(axis=1)
        pick = int(np.lexsort((length, -rate))[0])
        use = use + added[pick]
        paths.append(tuple(int(m) for m in table_[pick]))
    return tuple(paths)
