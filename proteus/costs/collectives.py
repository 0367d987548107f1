"""What a collective costs: algorithm, protocol, latency, bytes on the wire.

Every collective becomes a *latency* and a set of equal *flows*.  Alone on the
cluster it takes::

    time = latency_s + work_bytes / min(cap_Bps, min over links of capacity / count)

:func:`terms` gives latency, work and cap; :func:`proteus.costs.flows.flows`
gives the counts.  The bytes on the wire hold what the protocol and the packets
add (two collectives on one link share what is left after it); the cap holds
what the link never sees: chunks that wait for one another.

    =============== ==================================  =======================
    algorithm       one flow carries                    counts
    =============== ==================================  =======================
    ring            (n-1)/n S / rings  (all_reduce 2x)  hops of all rings
    tree            S / (2 rails)                       two trees, up and down
    nvls            S / n                               n+1 up and down
    nvls_tree       S / (2 g)                           2(g+1) NVLink, trees
    hierarchical    S / (g H rings)                     rings inside, rails out
    pairs           S / n                               every ordered pair
    rooted          S / n                               root with all the others
    p2p             S                                   the one route
    =============== ==================================  =======================

Sources: the cost model of NCCL's tuner (``src/graph/tuning.cc``) for the form;
``data/collectives.yaml`` for the fitted numbers and where they come from.

Not modelled: in-network reduction on the fabric (SHARP over InfiniBand),
user-registered buffers, and the copy-engine paths.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from proteus.costs.links import LinkTraits, ProtocolTraits, link_traits, protocol_traits
from proteus.errors import StrategyError, unknown


class Collective(StrEnum):
    """What the ranks of a group do together.

    The `size_bytes` of each: all_reduce, all_to_all: the buffer of one rank;
    all_gather, gather: the gathered buffer; reduce_scatter, scatter: the
    buffer that is cut; broadcast, send: the message.
    """

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"
    GATHER = "gather"
    SCATTER = "scatter"
    SEND = "send"


class Algorithm(StrEnum):
    """How the bytes travel."""

    RING = "ring"
    TREE = "tree"
    NVLS = "nvls"
    NVLS_TREE = "nvls_tree"
    HIERARCHICAL = "hierarchical"
    PAIRS = "pairs"
    ROOTED = "rooted"
    P2P = "p2p"


class Protocol(StrEnum):
    """NCCL's wire protocols: LL (flag per 4 bytes), LL128, Simple."""

    LL = "ll"
    LL128 = "ll128"
    SIMPLE = "simple"


@dataclass(frozen=True, slots=True)
class Limit:
    """The most one flow of an algorithm gets, and whether a link between hosts says so.

    Parameters
    ----------
    rate_Bps
        Least of capacity / count over the links, in a healthy group [B/s].
    is_between
        The link with the least is on the way between hosts.
    """

    algorithm: Algorithm
    rate_Bps: float
    is_between: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShape:
    """All that the cost of a collective needs to know of its group.

    Parameters
    ----------
    num_ranks, num_hosts, ranks_per_host
        Size of the group, hosts it touches (1 when no network link is
        crossed), and the most ranks on one of them.
    intra, inter
        Families of the links inside a host and between hosts: a key of
        ``data/collectives.yaml`` such as ``"nvlink4"`` or ``"ib"``.
    rings
        Rings that the ring algorithm runs side by side.
    local_rings
        Rings inside a host when the hosts are joined by other means.
    rails
        Members through which a host talks to the others.
    is_regular
        Every host has the same members; else only rings, trees and pairs.
    nvls
        The switches of the host can reduce and multicast.
    limits
        Per algorithm: what limits it alone on the cluster.
    """

    num_ranks: int
    num_hosts: int
    ranks_per_host: int
    intra: str
    inter: str
    rings: int
    local_rings: int
    rails: int
    is_regular: bool
    nvls: bool
    limits: tuple[Limit, ...]

    def limit(self, algorithm: Algorithm) -> Limit:
        """What limits `algorithm` alone on the cluster."""
        return next(limit for limit in self.limits if limit.algorithm is algorithm)

    def with_limits(self, limits: tuple[Limit, ...]) -> GroupShape:
        """The same group with its limits filled in."""
        return replace(self, limits=limits)

    def can_run(self, algorithm: Algorithm) -> bool:
        """Whether `algorithm` works on groups of this shape."""
        many = self.num_hosts > 1
        if algorithm is Algorithm.NVLS:
            return self.nvls and not many and self.num_ranks > 2  # NCCL leaves pairs to the ring
        if algorithm is Algorithm.NVLS_TREE:
            return self.nvls and many and self.is_regular and self.ranks_per_host > 1
        if algorithm is Algorithm.HIERARCHICAL:
            return many and self.is_regular and self.ranks_per_host > 1
        if algorithm is Algorithm.P2P:
            return self.num_ranks == 2
        return True

    def __repr__(self) -> str:
        where = f"{self.num_hosts}x{self.ranks_per_host} {self.intra}"
        return f"group({self.num_ranks}: {where}{'+' + self.inter if self.num_hosts > 1 else ''})"


@dataclass(frozen=True, slots=True)
class Choice:
    """Algorithm, protocol, and the number of rings or rails it uses."""

    algorithm: Algorithm
    protocol: Protocol
    channels: int

    def __repr__(self) -> str:
        return f"{self.algorithm}/{self.protocol}x{self.channels}"


@dataclass(frozen=True, slots=True)
class Terms:
    """Cost of one collective, to be shared out by the links.

    Parameters
    ----------
    latency_s
        Time in which no link is used [s].
    work_bytes
        Bytes on the wire of each flow.
    cap_Bps
        The most that one flow takes, even alone [B/s].
    sigma
        Relative standard error of the family, from held-out measurements.
    source
        Where the numbers of the family come from.
    """

    latency_s: float
    work_bytes: float
    cap_Bps: float
    sigma: float
    source: str

    @property
    def alone_s(self) -> float:
        """Time when nothing else uses the links and no link is degraded [s]."""
        return self.latency_s + (self.work_bytes / self.cap_Bps if self.work_bytes else 0.0)


_TUNED: Mapping[Collective, tuple[Algorithm, ...]] = {
    Collective.ALL_REDUCE: (Algorithm.RING, Algorithm.TREE, Algorithm.NVLS, Algorithm.NVLS_TREE),
    Collective.ALL_GATHER: (Algorithm.RING,),
    Collective.REDUCE_SCATTER: (Algorithm.RING,),
    Collective.BROADCAST: (Algorithm.RING,),
    Collective.ALL_TO_ALL: (Algorithm.PAIRS,),
    Collective.GATHER: (Algorithm.ROOTED,),
    Collective.SCATTER: (Algorithm.ROOTED,),
    Collective.SEND: (Algorithm.P2P,),
}
# NCCL takes these only when it is told to (or for registered buffers).
_ON_REQUEST: Mapping[Collective, tuple[Algorithm, ...]] = {
    Collective.ALL_REDUCE: (Algorithm.HIERARCHICAL,),
    Collective.ALL_GATHER: (Algorithm.NVLS, Algorithm.HIERARCHICAL),
    Collective.REDUCE_SCATTER: (Algorithm.NVLS, Algorithm.HIERARCHICAL),
}


def algorithms(kind: Collective, shape: GroupShape, *, all_known: bool = False) -> tuple[Algorithm, ...]:
    """The algorithms that can carry out `kind` on a group of this shape.

    Parameters
    ----------
    all_known
        Also those that the tuner never takes by itself.
    """
    names = _TUNED[kind] + (_ON_REQUEST.get(kind, ()) if all_known else ())
    if shape.num_hosts == 1 and not all_known:  # NCCL's tuner prices a tree inside a host above the ring
        names = tuple(name for name in names if name is not Algorithm.TREE)
    return tuple(name for name in names if shape.can_run(name))


def protocols(algorithm: Algorithm, shape: GroupShape) -> tuple[Protocol, ...]:
    """The protocols that `algorithm` can use on a group of this shape."""
    if algorithm in (Algorithm.NVLS, Algorithm.NVLS_TREE):
        return (Protocol.SIMPLE,)
    # LL128 needs 128-byte stores that arrive whole: NVLink only.
    if shape.intra.startswith("nvlink"):
        return (Protocol.LL, Protocol.LL128, Protocol.SIMPLE)
    return (Protocol.LL, Protocol.SIMPLE)


def _wanted(forced: str) -> tuple[Algorithm | None, Protocol | None]:
    algorithm: Algorithm | None = None
    protocol: Protocol | None = None
    for word in forced.lower().replace("-", "_").split("/"):
        if word in Algorithm:
            algorithm = Algorithm(word)
        elif word in Protocol:
            protocol = Protocol(word)
        else:
            known = [*map(str, Algorithm), *map(str, Protocol)]
            raise StrategyError(unknown("collective algorithm or protocol", word, known))
    return algorithm, protocol


@lru_cache(maxsize=65536)
def choose(kind: Collective, shape: GroupShape, size_bytes: float, forced: str | None = None) -> Choice:
    """The algorithm and protocol with the least predicted time, as NCCL's tuner does.

    Parameters
    ----------
    size_bytes
        See :class:`Collective` [bytes].
    forced
        ``"tree"``, ``"ll128"`` or both as ``"tree/ll128"``.  As with NCCL's
        own variables, a group that cannot do it keeps the tuner's choice.
    """
    algorithm, protocol = _wanted(forced) if forced else (None, None)
    usable = algorithms(kind, shape, all_known=True)
    names = (algorithm,) if algorithm in usable else algorithms(kind, shape)
    best: tuple[float, Choice] | None = None
    for name in names:
        assert name is not None
        usual = protocols(name, shape)
        for proto in (protocol,) if protocol in usual else usual:
            assert proto is not None
            choice = Choice(name, proto, num_channels(name, shape))
            time_s = terms(kind, shape, choice, size_bytes).alone_s
            if best is None or time_s < best[0]:
                best = (time_s, choice)
    assert best is not None, f"no algorithm for {kind} on {shape}"
    return best[1]


def num_channels(algorithm: Algorithm, shape: GroupShape) -> int:
    """Rings, rails or switches that share the bytes of a collective."""
    if algorithm is Algorithm.RING:
        return shape.rings
    if algorithm in (Algorithm.TREE, Algorithm.NVLS_TREE):
        return shape.rails
    return 1


def payload_bytes(kind: Collective, shape: GroupShape, algorithm: Algorithm, size_bytes: float) -> float:
    """Bytes of data that one flow carries, without protocol overhead."""
    n, hosts, g = shape.num_ranks, shape.num_hosts, shape.ranks_per_host
    if algorithm is Algorithm.RING:
        share = {Collective.ALL_REDUCE: 2 * (n - 1) / n, Collective.BROADCAST: 1.0}.get(kind, (n - 1) / n)
        return share * size_bytes / shape.rings
    if algorithm is Algorithm.TREE:
        return size_bytes / (2 * shape.rails)
    if algorithm is Algorithm.NVLS_TREE:
        return size_bytes / (2 * g)
    if algorithm is Algorithm.HIERARCHICAL:
        return size_bytes / (g * hosts * shape.local_rings)
    if algorithm is Algorithm.P2P:
        return size_bytes
    return size_bytes / n


def _steps(kind: Collective, shape: GroupShape, algorithm: Algorithm) -> tuple[float, float]:
    """Hops in a row (inside hosts, between hosts) before the last rank has its first byte."""
    n, hosts, g = shape.num_ranks, shape.num_hosts, shape.ranks_per_host
    passes = 2 if kind is Collective.ALL_REDUCE else 1
    between = passes * (hosts if kind is Collective.BROADCAST else hosts - 1)
    if algorithm is Algorithm.RING:
        return max(passes * (n - 1) - between, 0), between
    if algorithm is Algorithm.TREE:
        return 2 * (g - 1), 2 * math.ceil(math.log2(hosts))
    if algorithm in (Algorithm.NVLS, Algorithm.NVLS_TREE):
        return passes, 2 * math.ceil(math.log2(hosts))
    if algorithm is Algorithm.HIERARCHICAL:
        return passes * (g - 1), between
    if algorithm is Algorithm.P2P:
        return (1, 0) if hosts == 1 else (0, 1)
    # Pairs start side by side, a few at a time; each one more costs little.
    return g - 1, max(n - g, 0)


@lru_cache(maxsize=65536)
def terms(kind: Collective, shape: GroupShape, choice: Choice, size_bytes: float) -> Terms:
    """Latency, bytes per flow and cap of a collective.

    Parameters
    ----------
    size_bytes
        See :class:`Collective` [bytes].
    """
    return terms_with(
        kind, shape, choice, size_bytes, link_traits(shape.intra), link_traits(shape.inter),
        protocol_traits(choice.protocol),
    )  # fmt: skip


def terms_with(
    kind: Collective, shape: GroupShape, choice: Choice, size_bytes: float,
    intra: LinkTraits, inter: LinkTraits, protocol: ProtocolTraits,
) -> Terms:  # fmt: skip
    """:func:`terms` with given numbers for the links, as a fit needs it.

    Notes
    -----
    ``latency = base + intra hops x intra latency + inter hops x inter latency``;
    ``work = payload / (link efficiency x protocol efficiency)``;
    ``cap = rate alone x share of the protocol`` (LL, LL128), or for Simple
    ``cap = rate alone / (1 + (half x ranks / size)^power)``, the ramp of a
    pipeline whose chunks grow with the share of each rank.
    """
    if shape.num_ranks < 2:
        return Terms(0.0, 0.0, math.inf, 0.0, "nothing to send")
    algorithm = choice.algorithm
    limit = shape.limit(algorithm)
    start = inter if shape.num_hosts > 1 else intra
    bound = inter if limit.is_between else intra
    near, far = _steps(kind, shape, algorithm)
    if algorithm in _SIDE_BY_SIDE:
        hops_s = intra.hop_s[choice.protocol] + near * intra.pair_s + far * inter.pair_s
        if shape.num_hosts > 1:
            hops_s += inter.hop_s[choice.protocol]
    else:
        step_s = intra.nvls_s if algorithm in _IN_SWITCH else intra.hop_s[choice.protocol]
        hops_s = near * step_s + far * inter.hop_s[choice.protocol]
    style = _style(algorithm)
    data = payload_bytes(kind, shape, algorithm, size_bytes)
    return Terms(
        start.base_s + hops_s,
        data / (bound.efficiency[style] * protocol.efficiency),
        limit.rate_Bps * _reached(kind, shape, choice, size_bytes, bound),
        max(start.sigma, bound.sigma),
        bound.source,
    )


def _reached(kind: Collective, shape: GroupShape, choice: Choice, size_bytes: float, bound: LinkTraits) -> float:
    """Share of the rate of the links that the GPUs keep up with."""
    style = _style(choice.algorithm)
    if choice.protocol is Protocol.SIMPLE:
        half_bytes = bound.half_bytes[style] * shape.num_ranks
        reached = 1.0 / (1.0 + (half_bytes / max(size_bytes, 1.0)) ** bound.ramp_power)
    else:
        reached = bound.protocol_share[choice.protocol]
    if shape.num_hosts == 1 and style in bound.own_share:
        # Each rank also copies its own share, between the steps that use the links.
        steps = (2 if kind is Collective.ALL_REDUCE else 1) * (shape.num_ranks - 1)
        reached *= steps / (steps + bound.own_share[style])
    return reached


_SIDE_BY_SIDE = (Algorithm.PAIRS, Algorithm.ROOTED)
_IN_SWITCH = (Algorithm.NVLS, Algorithm.NVLS_TREE)


def _style(algorithm: Algorithm) -> str:
    """The algorithms that were measured stand for those that work like them."""
    if algorithm in _IN_SWITCH:
        return "nvls"
    if algorithm in _SIDE_BY_SIDE:
        return "pairs"
    return algorithm if algorithm in (Algorithm.TREE, Algorithm.P2P) else "ring"
