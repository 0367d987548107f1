"""The segment table: the ops of every plan, priced on the device that runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import numpy as np

from proteus.cluster import Cluster
from proteus.compiler.kinds import SpanKind
from proteus.compiler.price import Borrowed, Pricer
from proteus.compiler.rank_plan import RankPlan
from proteus.compiler.tables import OpRow
from proteus.costs.overlap import WAITS, ComputeClass
from proteus.hardware import Gpu
from proteus.identity import ById

#: no curve of a kernel puts a wait off
_SURE = (0.0,) * len(ComputeClass)


class Waits(Enum):
    """When the host stands still until the device has caught up, so that it cannot launch ahead."""

    NEVER = "never"
    BETWEEN_PASSES = "between passes"  # at transfers between stages, or around every forward and backward
    IN_BLOCKS = "in blocks"  # for what the routing decides


@dataclass(slots=True, eq=False)
class PlayedRank:
    """A rank that stands for a class: its plan and its place in the mesh."""

    device: int
    multiplicity: int
    plan: int
    coordinate: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Priced:
    """The segments of one plan on one rank: ops in a row, and how many of them each segment has.

    `host_s` is the time of the host to launch a segment [s], `is_held` where
    that sets the segment's own time.
    """

    rows: tuple[OpRow, ...]
    sizes: np.ndarray
    work_s: np.ndarray
    op_class: np.ndarray
    flop: np.ndarray
    sigma: np.ndarray
    host_s: np.ndarray
    is_held: np.ndarray
    borrowed: frozenset[Borrowed]


class SegmentTable:
    """Columns of segments.

    Ranks of one plan on equal devices share rows; `base` says where the rows
    of each rank's plan begin.

    Parameters
    ----------
    waits
        Where the host is held: what it launches in one go after that takes
        at least as long as the launches.
    """

    def __init__(
        self,
        plans: Sequence[RankPlan],
        classes: Sequence[PlayedRank],
        cluster: Cluster,
        pricer_of: Callable[[Gpu], Pricer],
        *,
        waits: Waits,
    ) -> None:
        pricers: dict[Gpu, Pricer] = {}
        tables: dict[tuple[object, ...], tuple[int, _Priced]] = {}
        made: list[_Priced] = []
        self.base: list[int] = []
        self.host_s: list[np.ndarray] = []
        size = 0
        for rank in classes:
            gpu = cluster.gpu(rank.device)
            slow = float(cluster.device_slowdown[rank.device])
            key = (rank.plan, rank.coordinate, gpu, slow)
            if key not in tables:
                prices = pricers.setdefault(gpu, pricer_of(gpu))
                made.append(_priced(ById(plans[rank.plan].segments), ById(prices), rank.coordinate, slow, waits))
                tables[key] = (size, made[-1])
                size += len(made[-1].sizes)
            base, segment_table = tables[key]
            self.base.append(base)
            self.host_s.append(segment_table.host_s)
        self.rows = [row for one in made for row in one.rows]
        self.ptr = np.concatenate([[0], np.cumsum(np.concatenate([one.sizes for one in made]))]).astype(np.int32)
        self.work_s = np.concatenate([one.work_s for one in made])
        self.op_class = np.concatenate([one.op_class for one in made])
        self.flop = np.concatenate([one.flop for one in made])
        self.sigma = np.concatenate([one.sigma for one in made])
        self.total_s = np.add.reduceat(self.work_s, self.ptr[:-1]) if size else np.empty(0)
        self.is_held = np.concatenate([one.is_held for one in made])
        self.borrowed = frozenset().union(*(one.borrowed for one in made))

    def of_rank(self, number: int) -> slice:
        """The segments of a class."""
        base = self.base[number]
        return slice(base, base + len(self.host_s[number]))


@lru_cache(maxsize=256)
def _priced(
    segments: ById[list[list[OpRow]]], pricer: ById[Pricer], coordinate: tuple[int, ...], slow: float, waits: Waits
) -> _Priced:
    """The segments of a plan on the rank at `coordinate`, whose device takes `slow` times as long."""
    prices = pricer.value
    work: list[float] = []
    op_class: list[int] = []
    flop: list[float] = []
    sigma: list[tuple[tuple[float, ...], tuple[float, ...]]] = []
    host: list[float] = []
    ranges: list[tuple[int, int]] = []
    borrowed: set[Borrowed] = set()
    for ops in segments.value:
        launches, start = 0.0, len(work)
        for op in ops:
            if op.wait_s:  # the host's, so no device is slow at it; what it launches begins after it
                start += 1
                work.append(op.wait_s)
                op_class.append(WAITS)
                flop.append(0.0)
                sigma.append((_SURE, _SURE))
                continue
            price = (
                prices.total(op.kernels)
                if op.program is None or op.instruction is None
                else prices.price(op.program, op.instruction, coordinate)
            )
            work.append(price.time_s * slow * op.share)
            op_class.append(int(price.compute_class))
            flop.append(price.flop * op.share)
            sigma.append((price.shared, price.own))
            launches += price.host_s
            borrowed.update(price.borrowed)
        ranges.append((start, len(work)))
        host.append(launches)
    held = [False] * len(host)
    for members in _launched_together(segments.value, waits):
        at = [i for number in members for i in range(*ranges[number])]
        device_s, launches = sum(work[i] for i in at), sum(host[number] for number in members)
        if launches > device_s > 0.0:
            # the host was held before the pass: over a whole block it cannot have launched ahead
            for i in at:
                work[i] *= launches / device_s
            for number in members:
                held[number] = True
    return _Priced(
        rows=tuple(op for ops in segments.value for op in ops),
        sizes=np.array([len(ops) for ops in segments.value], np.int64),
        work_s=np.array(work, np.float64),
        op_class=np.array(op_class, np.int16),
        flop=np.array(flop, np.float64),
        sigma=np.array(sigma, np.float64).reshape(-1, 2, len(ComputeClass)),
        host_s=np.array(host, np.float64),
        is_held=np.array(held, bool),
        borrowed=frozenset(borrowed),
    )


def _launched_together(segments: Sequence[Sequence[OpRow]], waits: Waits) -> list[list[int]]:
    """Numbers of the segments before which the host stands still, and which it launches in one go."""
    groups: dict[object, list[int]] = {}
    if waits is not Waits.NEVER:
        for number, ops in enumerate(segments):
            groups.setdefault(number if waits is Waits.IN_BLOCKS else _pass_of(ops), []).append(number)
    return list(groups.values())


def _pass_of(ops: Sequence[OpRow]) -> tuple[str, bool]:
    """The forward, or all the backward, of one kind of block."""
    return ops[-1].node[0], ops[-1].span is SpanKind.FORWARD
