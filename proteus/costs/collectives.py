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
from functools import lru_cache

from proteus.costs.collective_types import Algorithm, Choice, Collective, GroupShape, Limit, Protocol, Terms
from proteus.costs.links import LinkTraits, ProtocolTraits, link_traits, protocol_traits
from proteus.errors import StrategyError, unknown

__all__ = [
    "Algorithm",
    "Choice",
    "Collective",
    "GroupShape",
    "Limit",
    "Protocol",
    "Terms",
    "algorithms",
    "choose",
    "num_channels",
    "payload_bytes",
    "protocols",
    "terms",
    "terms_with",
]

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
        if word in list(Algorithm):
            algorithm = Algorithm(word)
        elif word in list(Protocol):
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
    if shape.num_ranks < 2:
        return Choice(_TUNED[kind][0], Protocol.SIMPLE, 1)
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
        return Terms(0.0, 0.0, math.inf, 0.0, "nothing to send", shape.intra)
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
        shape.inter if shape.num_hosts > 1 and inter.sigma >= bound.sigma else shape.intra,
    )


def _reached(kind: Collective, shape: GroupShape, choice: Choice, size_bytes: float, bound: LinkTraits) -> float:
    """Share of :attr:`Limit.rate_Bps` that the GPUs keep up with."""
    style = _style(choice.algorithm)
    if choice.protocol is Protocol.SIMPLE:
        half_bytes = bound.half_bytes[style] * shape.num_ranks
        reached = 1.0 / (1.0 + math.pow(half_bytes / max(size_bytes, 1.0), bound.ramp_power))
    else:
        reached = bound.protocol_share[choice.protocol]
    if shape.num_hosts == 1 and style in bound.own_share:
        # Each rank also copies its own share, between the steps that use the links.
        steps = (2 if kind is Collective.ALL_REDUCE else 1) * (shape.num_ranks - 1)
        reached *= steps / (steps + bound.own_share[style])
    # The limits are those of all_reduce; to gather or to reduce alone loads the links less.
    if kind is not Collective.ALL_REDUCE and choice.algorithm is Algorithm.HIERARCHICAL:
        reached *= 2.0
    if kind is not Collective.ALL_REDUCE and choice.algorithm is Algorithm.NVLS:
        reached *= (shape.num_ranks + 1) / shape.num_ranks
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
