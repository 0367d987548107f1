"""Folding: which ranks, links and groups behave alike, by partition refinement.

Ranks begin with a colour per program and device kind, links with one per kind
and capacity.  A group takes the colours of its members and of the links that
its flows cross; a rank takes the colours of its groups, a link those of the
groups that cross it.  When no round splits a colour any more the partition is
equitable: every member of a class sees the same counts of every other class,
so all of them have the same times and one of each needs to be played.

Colours are 64-bit hashes, added up where order must not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proteus.costs.flows import Flows

# odd constants of the splitmix64 generator (Steele, Lea, Flood 2014)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """Groups of ranks that do something together.

    Parameters
    ----------
    groups
        int[num_groups, n]: ranks, every rank at most once per column set.
    is_ordered
        Whether the places in a group differ (sender and receiver).
    kind
        int64[num_groups]: groups of different kind are never alike.
    flows
        One per algorithm that runs on these groups.
    """

    groups: np.ndarray
    is_ordered: bool
    kind: np.ndarray
    flows: tuple[Flows, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Folding:
    """Classes of ranks, links and groups.

    Parameters
    ----------
    rank_class
        int64[ranks]; `representatives` is the first rank of each class and
        `multiplicity` its size.
    group_class
        Per relation int64[groups]; `group_first` the first group of each class.
    links
        int64: the links that are ever crossed; `link_class` their class and
        `link_first` the first link of each class.
    """

    rank_class: np.ndarray
    representatives: np.ndarray
    multiplicity: np.ndarray
    group_class: tuple[np.ndarray, ...]
    group_first: tuple[np.ndarray, ...]
    links: np.ndarray
    link_class: np.ndarray
    link_first: np.ndarray
    link_size: np.ndarray

    def counts(self, relation: int, flows: Flows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(group class, link class, count): flows of all copies that cross one link of the class.

        The total over all copies is spread evenly over the links of a class
        (that is what equitable means), so the quotient is a whole number.
        """
        groups = self.group_class[relation][flows.group]
        links = self.link_class[np.searchsorted(self.links, flows.link)]
        num_links = len(self.link_first)
        key = groups * num_links + links
        unique, inverse = np.unique(key, return_inverse=True)
        total = np.bincount(inverse, weights=flows.count).astype(np.int64)
        link = unique % num_links
        count = total // self.link_size[link]
        return unique // num_links, link, count


def _mix(values: np.ndarray) -> np.ndarray:
    z = values + _STEP
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    mixed: np.ndarray = z ^ (z >> np.uint64(31))
    return mixed


def _labels(colours: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class of each, first of each class, size of each class; classes in order of their first member."""
    by_colour = np.argsort(colours, kind="stable")
    ordered = colours[by_colour]
    head = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else np.empty(0, bool)
    label = np.cumsum(head) - 1
    inverse = np.empty(len(colours), np.int64)
    inverse[by_colour] = label
    first = by_colour[head]
    size = np.bincount(label, minlength=len(first))
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[inverse], first[order], size[order]


class _Side:
    """A relation with its flows sorted both ways, ready for rounds of refinement."""

    def __init__(self, relation: Relation, links: np.ndarray, salt: int, num_ranks: int) -> None:
        self.groups = relation.groups
        self.is_ordered = relation.is_ordered
        self.salt = _mix(np.array([salt], np.uint64))[0]
        self.kind = _mix(relation.kind.astype(np.uint64)) ^ self.salt
        self.flows = []
        for number, flows in enumerate(relation.flows):
            link = np.searchsorted(links, flows.link)
            by_link = np.argsort(link, kind="stable")
            weight = _mix(flows.count.astype(np.uint64) + np.uint64(number << 32))
            self.flows.append(
                (
                    flows.group, link, weight, _starts(flows.group),
                    flows.group[by_link], link[by_link], weight[by_link], _starts(link[by_link]),
                )
            )  # fmt: skip

    def group_colours(self, rank: np.ndarray, link: np.ndarray) -> np.ndarray:
        members = _mix(rank)[self.groups]
        if self.is_ordered:
            places = _mix(np.arange(self.groups.shape[1], dtype=np.uint64))
            members = _mix(members + places)
        colours: np.ndarray = self.kind + members.sum(axis=1, dtype=np.uint64)
        if len(link):
            mixed = _mix(link)
            for group, links, weight, starts, *_ in self.flows:
                if len(group):
                    colours[group[starts]] += np.add.reduceat(_mix(mixed[links] * weight), starts)
        return _mix(colours)

    def add_to_ranks(self, rank: np.ndarray, colours: np.ndarray) -> None:
        for place in range(self.groups.shape[1]) if self.is_ordered else ():
            np.add.at(rank, self.groups[:, place], _mix(colours + np.uint64(place + 1)))
        if not self.is_ordered:
            rank[self.groups.ravel()] += np.repeat(_mix(colours), self.groups.shape[1])

    def add_to_links(self, link: np.ndarray, colours: np.ndarray) -> None:
        for *_, group, links, weight, starts in self.flows:
            if len(group):
                link[links[starts]] += np.add.reduceat(_mix(colours[group] * weight), starts)


def _starts(sorted_values: np.ndarray) -> np.ndarray:
    return np.flatnonzero(np.diff(sorted_values, prepend=-1)) if len(sorted_values) else np.empty(0, np.int64)


def fold(
    rank_colour: np.ndarray, link_colour: np.ndarray, relations: Sequence[Relation], *, is_folded: bool = True
) -> Folding:
    """Classes of ranks, links and groups.

    Parameters
    ----------
    rank_colour
        int64[ranks]: program, device kind and anything else that must not mix.
    link_colour
        int64[links of the cluster].
    is_folded
        False leaves every rank and link a class of its own (for tests).
    """
    crossed = [flows.link for relation in relations for flows in relation.flows if len(flows.link)]
    links = np.unique(np.concatenate(crossed)) if crossed else np.empty(0, np.int64)
    sides = [_Side(r, links, salt + 1, len(rank_colour)) for salt, r in enumerate(relations)]
    if is_folded:
        rank = _mix(rank_colour.astype(np.uint64))
        link = _mix(link_colour[links].astype(np.uint64) + np.uint64(1 << 40))
        rank, link = _refine(rank, link, sides)
    else:
        rank = _mix(np.arange(len(rank_colour), dtype=np.uint64))
        link = _mix(links.astype(np.uint64) + np.uint64(1 << 40))
    rank_class, first, size = _labels(rank)
    link_class, link_first, link_size = _labels(link)
    group_class, group_first = [], []
    for side in sides:
        labels, firsts, _ = _labels(side.group_colours(rank, link))
        group_class.append(labels)
        group_first.append(firsts)
    return Folding(
        rank_class=rank_class,
        representatives=first,
        multiplicity=size,
        group_class=tuple(group_class),
        group_first=tuple(group_first),
        links=links,
        link_class=link_class,
        link_first=links[link_first] if len(links) else links,
        link_size=link_size,
    )


def _num_distinct(colours: np.ndarray) -> int:
    ordered = np.sort(colours)
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + min(len(ordered), 1)


def _refine(rank: np.ndarray, link: np.ndarray, sides: Sequence[_Side]) -> tuple[np.ndarray, np.ndarray]:
    before = (0, 0)
    while True:
        counts = (_num_distinct(rank), _num_distinct(link))
        if counts == before:
            return rank, link
        before = counts
        next_rank, next_link = _mix(rank), _mix(link)
        for side in sides:
            colours = side.group_colours(rank, link)
            side.add_to_ranks(next_rank, colours)
            side.add_to_links(next_link, colours)
        rank, link = next_rank, next_link
