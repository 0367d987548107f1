"""Which ranks do a collective together, and what it costs each group of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from proteus.cluster import Cluster
from proteus.compiler.chain import Chunk
from proteus.compiler.fold import Folding, Relation
from proteus.compiler.offload import copy_flows, copy_terms
from proteus.compiler.tables import CommRow, HostCopy
from proteus.costs.collectives import Algorithm, Collective, GroupShape, Terms, choose, terms
from proteus.costs.flows import Flows, flows
from proteus.costs.ops import Calibration
from proteus.costs.overlap import CommClass
from proteus.costs.shapes import group_shapes
from proteus.identity import ById
from proteus.mesh import Mesh


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The groups of a mesh axis (or of pairs) over all pipeline ranks that have it.

    Parameters
    ----------
    members
        int[groups, n]: devices.
    kind
        int64[groups]: groups of different kind are never alike.
    is_ordered
        Whether the places in a group differ.
    """

    members: np.ndarray
    kind: np.ndarray
    is_ordered: bool = False


@lru_cache(maxsize=64)
def mesh_groups(mesh: Mesh, axes: tuple[str, ...], first_devices: tuple[tuple[int, int], ...]) -> Groups:
    """Groups along `axes`; `first_devices` are (pipeline rank, first device) of the meshes."""
    base = mesh.groups(axes)
    members = np.concatenate([base + first for _, first in first_devices])
    kind = np.repeat(np.array([rank for rank, _ in first_devices], np.int64), len(base))
    return Groups(members, kind)


@lru_cache(maxsize=64)
def paired_ranks(first: int, second: int, count: int) -> Groups:
    """Groups of two: the i-th device from `first` and the i-th from `second`."""
    ranks = np.arange(count)
    return Groups(np.stack([first + ranks, second + ranks], axis=1), np.zeros(count, np.int64))


@lru_cache(maxsize=16)
def send_groups(parts: tuple[tuple[int, bytes], ...]) -> Groups:
    """Pairs (sender, receiver); `parts` are (label, int64 pairs as bytes)."""
    members = [np.frombuffer(data, np.int64).reshape(-1, 2) for _, data in parts]
    kind = np.repeat(np.array([label for label, _ in parts], np.int64), [len(m) for m in members])
    return Groups(np.concatenate(members), kind, is_ordered=True)


@lru_cache(maxsize=64)
def _shapes(groups: ById[Groups], cluster: Cluster) -> tuple[tuple[GroupShape, ...], np.ndarray]:
    return group_shapes(groups.value.members, cluster)


@lru_cache(maxsize=64)
def _flows(groups: ById[Groups], kind: Collective, algorithm: Algorithm, shape: int, cluster: Cluster) -> Flows:
    """Flows of the groups of one shape, with the numbers of all groups."""
    rows = np.flatnonzero(_shapes(groups, cluster)[1] == shape)
    group_flows = flows(kind, algorithm, groups.value.members[rows], cluster)
    return Flows(rows[group_flows.group].astype(np.int32), group_flows.link, group_flows.count)


@lru_cache(maxsize=16)
def _copy_flows(groups: ById[Groups], kind: HostCopy, cluster: Cluster) -> Flows:
    return copy_flows(groups.value.members[:, 0], kind, cluster)


@dataclass(frozen=True, slots=True)
class Price:
    """A collective of one group shape."""

    terms: Terms
    flows: int  # number of its flows in the relation
    comm_class: CommClass


class Relations:
    """All groups of a compiled strategy, with the flows of every algorithm they use."""

    def __init__(
        self,
        cluster: Cluster,
        chunks: Sequence[Chunk],
        forced: str | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        self.cluster = cluster
        self.forced = forced
        self.calibration = calibration or Calibration()
        self._first: dict[Mesh, dict[int, int]] = {}
        for chunk in chunks:
            self._first.setdefault(chunk.mesh, {})[chunk.rank] = chunk.first_device
        self.groups: list[Groups] = []
        self._shapes: dict[int, tuple[tuple[GroupShape, ...], np.ndarray]] = {}
        self._at: dict[tuple[Mesh, tuple[str, ...], Groups | None], int] = {}
        self._flows: list[dict[tuple[Collective | HostCopy, Algorithm | None, int], int]] = []
        self.group_of: list[np.ndarray] = []

    def add(self, groups: Groups) -> int:
        self.groups.append(groups)
        self._flows.append({})
        return len(self.groups) - 1

    def copy_price(self, relation: int, kind: HostCopy, size_bytes: float) -> tuple[tuple[Price, ...], np.ndarray]:
        """Price of a copy between device and host; every rank is a group of its own."""
        used = self._flows[relation].setdefault((kind, None, 0), len(self._flows[relation]))
        price = Price(copy_terms(size_bytes, kind), used, CommClass.COPY)
        return (price,), np.zeros(len(self.groups[relation].members), np.int64)

    def of(self, row: CommRow) -> int:
        """Number of the relation of a communication row."""
        return self.along(row.mesh, row.axes, row.members)

    def along(self, mesh: Mesh, axes: tuple[str, ...], members: Groups | None = None) -> int:
        """Number of the relation of groups along axes of a mesh, or of `members`."""
        key = (mesh, axes, members)
        at = self._at.get(key)
        if at is None:
            if members is not None:
                groups = members
            else:
                first = tuple(sorted(self._first[mesh].items()))
                groups = mesh_groups(mesh, axes, first)
            at = self._at[key] = self.add(groups)
        return at

    def price(
        self, relation: int, kind: Collective, size_bytes: float, copies: int = 1
    ) -> tuple[tuple[Price, ...], np.ndarray]:
        """(one price per shape, shape of each group).

        Parameters
        ----------
        copies
            Copies of every token among `size_bytes` that travel as one where
            they have the same way (:meth:`GroupShape.merged_share`).
        """
        if relation not in self._shapes:
            self._shapes[relation] = _shapes(ById(self.groups[relation]), self.cluster)
        shapes, index = self._shapes[relation]
        prices = []
        for number, shape in enumerate(shapes):
            sent_bytes = size_bytes * shape.merged_share(copies)
            choice = choose(kind, shape, sent_bytes, self.forced)
            used = self._flows[relation].setdefault((kind, choice.algorithm, number), len(self._flows[relation]))
            if kind is Collective.SEND:
                comm_class = CommClass.P2P
            else:
                comm_class = CommClass.INTER if shape.num_hosts > 1 else CommClass.INTRA
            measured = self.calibration.collective(kind, shape)
            price = (
                terms(kind, shape, choice, sent_bytes)
                if measured is None
                else measured.terms(shape, choice.algorithm, sent_bytes)
            )
            if self.calibration.network != 1.0:
                factor = self.calibration.network
                price = replace(price, latency_s=price.latency_s * factor, work_bytes=price.work_bytes * factor)
            prices.append(Price(price, used, comm_class))
        return tuple(prices), index

    def flows(self, relation: int) -> list[Flows]:
        key = ById(self.groups[relation])
        return [
            _copy_flows(key, kind, self.cluster)
            if isinstance(kind, HostCopy) or algorithm is None
            else _flows(key, kind, algorithm, shape, self.cluster)
            for kind, algorithm, shape in self._flows[relation]
        ]

    def relations(self) -> list[Relation]:
        """For :func:`fold`."""
        return [
            Relation(groups=g.members, is_ordered=g.is_ordered, kind=g.kind, flows=tuple(self.flows(r)))
            for r, g in enumerate(self.groups)
        ]

    def group_of_rank(self, relation: int, num_ranks: int) -> np.ndarray:
        """int64[ranks]: the group of each rank (-1 outside); only for groups of sets."""
        return _group_of_rank(ById(self.groups[relation]), num_ranks)

    def key(self) -> tuple[object, ...]:
        """Equal for equal groups and algorithms, by which a folding is remembered."""
        return tuple((ById(g), tuple(f)) for g, f in zip(self.groups, self._flows, strict=True))


@lru_cache(maxsize=64)
def _group_of_rank(key: ById[Groups], num_ranks: int) -> np.ndarray:
    members = key.value.members
    group_of_rank = np.full(num_ranks, -1, np.int64)
    group_of_rank[members.ravel()] = np.repeat(np.arange(len(members)), members.shape[1])
    return group_of_rank


@dataclass(frozen=True, slots=True)
class Patterns:
    """Flow patterns of the folded system, in the columns of a TaskGraph."""

    ptr: np.ndarray
    link: np.ndarray
    count: np.ndarray
    cap_Bps: np.ndarray


@lru_cache(maxsize=64)
def _counts(folding: ById[Folding], relation: int, flows: ById[Flows]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return folding.value.counts(relation, flows.value)


class PatternTable:
    """Collects the flow patterns that tasks use: (relation, flows, group class, cap)."""

    def __init__(self, relations: Relations, folding: Folding, capacity_Bps: np.ndarray, *, sharing: bool) -> None:
        self.relations = relations
        self.folding = folding
        self.capacity_Bps = capacity_Bps
        self.sharing = sharing
        self._counts: dict[tuple[int, int], tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        self._at: dict[tuple[int, int, int, float], int] = {}
        self._links: list[np.ndarray] = []
        self._crossings: list[np.ndarray] = []
        self._caps: list[float] = []

    def row(self, relation: int, used: int, group_class: int, cap_Bps: float) -> int:
        """The pattern of a task class, made on first use."""
        key = (relation, used, group_class, cap_Bps)
        at = self._at.get(key)
        if at is None:
            group, link, count = self._count(relation, used)
            lo, hi = np.searchsorted(group, [group_class, group_class + 1])
            links, crossings = link[lo:hi], count[lo:hi]
            if not self.sharing and len(links):
                # every task for itself: as fast as it would be alone
                alone = self._alone(relation, used, group_class)
                cap_Bps, links, crossings = min(cap_Bps, alone), links[:0], crossings[:0]
            at = self._at[key] = len(self._caps)
            self._links.append(links)
            self._crossings.append(crossings)
            self._caps.append(cap_Bps)
        return at

    def _count(self, relation: int, used: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        key = (relation, used)
        if key not in self._counts:
            self._counts[key] = _counts(ById(self.folding), relation, ById(self.relations.flows(relation)[used]))
        return self._counts[key]

    def _alone(self, relation: int, used: int, group_class: int) -> float:
        """Bandwidth of one flow when only its own group uses the links [B/s]."""
        flows = self.relations.flows(relation)[used]
        first = self.folding.group_first[relation][group_class]
        mine = flows.group == first
        return float((self.relations.cluster.link_capacity_Bps[flows.link[mine]] / flows.count[mine]).min())

    def patterns(self) -> Patterns:
        sizes = [len(links) for links in self._links]
        return Patterns(
            ptr=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32),
            link=(np.concatenate(self._links) if self._links else np.empty(0)).astype(np.int32),
            count=(np.concatenate(self._crossings) if self._crossings else np.empty(0)).astype(np.int32),
            cap_Bps=np.array(self._caps, np.float64),
        )
