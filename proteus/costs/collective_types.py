"""The words of collective costs: what is done, how, by which group, at which cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


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

    def merged_share(self, copies: int) -> float:
        """What is left of a token exchange when a token's copies for one rank travel as one.

        Over the network a token goes once to each host, whose ranks share it.
        Its `copies` experts are taken as evenly spread: of n places, a token
        reaches ``n (1 - (1 - 1/n)^copies)``.

        Source: DeepEP README (deepseek-ai): dispatch over NVLink and RDMA
        with the tokens of a node forwarded inside it.
        """
        places = self.num_ranks if self.num_hosts == 1 else self.num_hosts
        return 1.0 if copies <= 1 else places * (1.0 - (1.0 - 1.0 / places) ** copies) / copies

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
        Standard deviation of the logarithm of the time, from held-out
        measurements of the family.
    source
        Where the numbers of the family come from.
    links
        The family of links whose error it is: all that share it are off
        together.
    """

    latency_s: float
    work_bytes: float
    cap_Bps: float
    sigma: float
    source: str
    links: str

    @property
    def alone_s(self) -> float:
        """Time when nothing else uses the links and no link is degraded [s]."""
        return self.latency_s + (self.work_bytes / self.cap_Bps if self.work_bytes else 0.0)
