"""The segment table: the ops of every plan, priced on the device that runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from proteus.cluster import Cluster
from proteus.cluster.gpu import Gpu
from proteus.compiler.price import Pricer
from proteus.compiler.rank_plan import RankPlan
from proteus.compiler.tables import OpRow


@dataclass(slots=True, eq=False)
class PlayedRank:
    """A rank that stands for a class: its plan and its place in the mesh."""

    device: int
    multiplicity: int
    plan: int
    coordinate: tuple[int, ...]


class SegmentTable:
    """Columns of segments.

    Ranks of one plan on equal devices share rows; `base` says where the rows
    of each rank's plan begin.

    Parameters
    ----------
    waits
        The host is held at transfers between stages, so what it launches
        after one takes at least as long as the launches.
    """

    def __init__(
        self,
        plans: Sequence[RankPlan],
        classes: Sequence[PlayedRank],
        cluster: Cluster,
        pricer_of: Callable[[Gpu], Pricer],
        *,
        waits: bool,
    ) -> None:
        pricers: dict[str, Pricer] = {}
        tables: dict[tuple[object, ...], tuple[int, np.ndarray]] = {}
        sizes: list[int] = []
        work: list[float] = []
        op_class: list[int] = []
        self.flop: list[float] = []
        self.sigma: list[float] = []
        self.rows: list[OpRow] = []
        self.base: list[int] = []
        self.host_s: list[np.ndarray] = []
        self.number: dict[int, int] = {}
        for number, rank in enumerate(classes):
            self.number[id(rank)] = number
            gpu = cluster.gpu(rank.device)
            slow = float(cluster.device_slowdown[rank.device])
            key = (rank.plan, rank.coordinate, gpu.name, slow)
            if key not in tables:
                prices = pricers.setdefault(gpu.name, pricer_of(gpu))
                first = len(sizes)
                host = []
                for ops in plans[rank.plan].segments:
                    launches, start = 0.0, len(work)
                    for op in ops:
                        price = (
                            prices.total(op.kernels)
                            if op.program is None or op.instruction is None
                            else prices.price(op.program, op.instruction, rank.coordinate)
                        )
                        work.append(price.time_s * slow * op.share)
                        op_class.append(int(price.compute_class))
                        self.flop.append(price.flop * op.share)
                        self.sigma.append(price.sigma)
                        self.rows.append(op)
                        launches += price.host_s
                    if waits and launches > (device_s := sum(work[start:])) > 0.0:
                        # the host was held at the last transfer: it cannot have launched ahead
                        work[start:] = [time_s * launches / device_s for time_s in work[start:]]
                    sizes.append(len(ops))
                    host.append(launches)
                tables[key] = (first, np.array(host))
            base, host_s = tables[key]
            self.base.append(base)
            self.host_s.append(host_s)
        self.ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        self.work_s = np.array(work, np.float64)
        self.op_class = np.array(op_class, np.int16)
        self.total_s = np.add.reduceat(self.work_s, self.ptr[:-1]) if len(sizes) else np.empty(0)
        self.assumed = {line for prices in pricers.values() for line in prices.assumed}
