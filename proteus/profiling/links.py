"""Seconds of collectives between the processes of this machine, alone and beside computation."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import torch
import torch.distributed as dist

from proteus.costs.collective_types import Collective
from proteus.costs.overlap import ComputeClass, compute_class
from proteus.costs.work import Phase
from proteus.profiling.demand import Demand, OpCall
from proteus.profiling.kernels import kernel
from proteus.profiling.operators import runner
from proteus.profiling.timing import Clock, quiet

FLOAT_BYTES = 4
#: sizes that are measured beside those of the trees [bytes]
GRID = tuple(float(4**k) for k in range(5, 13))  # 1 KiB to 16 MiB
#: size of the all_reduces that run beside computation [bytes], and how many one after another
BESIDE_BYTES, BESIDE_TIMES = 2.0**24, 6


class Links:
    """Collectives on a process group of all processes and on smaller groups of neighbours."""

    def __init__(self, rank: int, num_ranks: int, clock: Clock) -> None:
        self.rank, self.num_ranks, self.clock = rank, num_ranks, clock
        self._groups: dict[int, dist.ProcessGroup | None] = {num_ranks: None}

    def group(self, size: int) -> dist.ProcessGroup | None:
        """The group of `size` neighbours that this process belongs to; None is the group of all."""
        if size not in self._groups:
            for first in range(0, self.num_ranks - size + 1, size):
                made = dist.new_group(list(range(first, first + size)))
                if first <= self.rank < first + size:
                    self._groups[size] = made
        return self._groups[size]

    def times(self, kind: Collective, size: int, sizes_bytes: Sequence[float]) -> list[float]:
        """Seconds at every size; all groups of neighbours work at the same time.

        Raises
        ------
        RuntimeError
            The backend has no such collective.
        """
        group = self.group(size)
        times_s = []
        for size_bytes in sizes_bytes:
            call = self.call(kind, group, size, size_bytes)
            dist.barrier()
            times_s.append(self.time_s(call) / (2.0 if kind is Collective.SEND else 1.0))
        return times_s

    def time_s(self, call: Callable[[], object]) -> float:
        """Time of a collective on a quiet machine; all processes run it equally often [s]."""
        runs = torch.tensor(self.clock.runs_for(call), device=self.clock.device)
        dist.all_reduce(runs, op=dist.ReduceOp.MAX)
        return quiet([self.clock.once_s(call, alone=False) for _ in range(int(runs))])

    def call(
        self, kind: Collective, group: dist.ProcessGroup | None, size: int, size_bytes: float
    ) -> Callable[[], object]:
        """One collective, awaited; sizes count as in :class:`Collective`."""
        whole = max(int(size_bytes / FLOAT_BYTES) // size, 1) * size
        x = torch.zeros(whole, device=self.clock.device)
        part = torch.zeros(whole // size, device=self.clock.device)
        first = self.rank - self.rank % size
        parts = list(x.chunk(size)) if self.rank == first else None
        match kind:
            case Collective.ALL_REDUCE:
                return lambda: dist.all_reduce(x, group=group)
            case Collective.ALL_GATHER:
                return lambda: dist.all_gather_into_tensor(x, part, group=group)
            case Collective.REDUCE_SCATTER:
                return lambda: dist.reduce_scatter_tensor(part, x, group=group)
            case Collective.ALL_TO_ALL:
                out = torch.zeros_like(x)
                return lambda: dist.all_to_all_single(out, x, group=group)
            case Collective.BROADCAST:
                return lambda: dist.broadcast(x, first, group=group)
            case Collective.GATHER:
                return lambda: dist.gather(part, parts, first, group=group)
            case Collective.SCATTER:
                return lambda: dist.scatter(part, parts, first, group=group)
            case Collective.SEND:
                return lambda: self._there_and_back(x, group, first)

    def _there_and_back(self, x: torch.Tensor, group: dist.ProcessGroup | None, first: int) -> None:
        peer = first + 1 if self.rank == first else first
        if self.rank == first:
            dist.send(x, peer, group=group)
            dist.recv(x, peer, group=group)
        else:
            dist.recv(x, peer, group=group)
            dist.send(x, peer, group=group)

    def beside(self, compute: Callable[[], object], compute_s: float) -> tuple[float, float]:
        """Extra time, as a share, of `compute` and of an all_reduce while both run.

        Parameters
        ----------
        compute_s
            Its time alone [s].
        """
        x = torch.zeros(int(BESIDE_BYTES / FLOAT_BYTES), device=self.clock.device)
        dist.barrier()
        comm_s = self.time_s(lambda: dist.all_reduce(x))
        shares: list[tuple[float, float]] = []
        for _ in range(BESIDE_TIMES):
            dist.barrier()
            begin, runs = time.perf_counter(), 0
            work = dist.all_reduce(x, async_op=True)
            while not work.is_completed():
                compute()
                self.clock.wait()
                runs += 1
            elapsed_s = time.perf_counter() - begin
            work.wait()
            each_s = elapsed_s / max(runs, 1)
            # the all_reduce ended, on average, half a run of the kernel before that was seen
            shares.append((each_s / compute_s - 1.0, (elapsed_s - each_s / 2.0) / comm_s - 1.0))
        slower, longer = (quiet(list(column)) for column in zip(*shares, strict=True))
        return max(slower, 0.0), max(longer, 0.0)


def sizes_of(demand: Demand, num_ranks: int) -> Mapping[tuple[Collective, int], list[float]]:
    """The sizes to measure of every collective; all_reduce among all is always measured [bytes]."""
    wanted = dict(demand.collectives)
    wanted.setdefault((Collective.ALL_REDUCE, num_ranks), set())
    return {
        key: sorted({*GRID, *(size for size in sizes if size > 0)})
        for key, sizes in sorted(wanted.items())
        if key[1] <= num_ranks
    }


def longest(calls: Sequence[OpCall]) -> dict[ComputeClass, OpCall]:
    """Of every class of kernels the forward with the most work."""
    longest_calls: dict[ComputeClass, OpCall] = {}
    for call in calls:
        if call.phase is not Phase.FORWARD:
            continue
        kind = compute_class(call.kernels[-1].family)
        amount = (call.kernels[-1].flop, call.kernels[-1].bytes)
        if kind not in longest_calls or amount > (
            longest_calls[kind].kernels[-1].flop,
            longest_calls[kind].kernels[-1].bytes,
        ):
            longest_calls[kind] = call
    return longest_calls


def measure_overlap(demand: Demand, links: Links) -> dict[ComputeClass, tuple[float, float]]:
    """Slow-downs of (compute, communication) by what bounds the kernel."""
    shares = {}
    for kind, call in sorted(longest(list(demand.calls.values())).items()):
        made = kernel(call, links.clock.device)
        run = runner(made, call) if made is not None else None
        if run is not None:
            dist.barrier()
            shares[kind] = links.beside(run, links.clock.median_s(run))
    return shares
