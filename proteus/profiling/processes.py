"""The processes that measure together, one per device."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import torch
import torch.distributed as dist
from torch.multiprocessing import get_context
from torch.multiprocessing.spawn import spawn

from proteus.costs.collective_types import Collective
from proteus.costs.measured import CollectiveTimes
from proteus.costs.overlap import ComputeClass
from proteus.profiling.demand import Demand
from proteus.profiling.links import Links, measure_overlap, sizes_of
from proteus.profiling.operators import Measured, measure_ops
from proteus.profiling.timing import Clock

#: network interface of a machine to itself; gloo would look for the host's name in the network
LOOPBACK = "lo"
#: how often the parent looks for the answer [s]
POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How the processes run.

    Parameters
    ----------
    num_ranks
        Processes, one per device.
    backend
        ``gloo`` or ``nccl``.
    threads
        Threads of each process for computation on a CPU.
    budget_s
        About how long every single thing is repeated [s].
    """

    num_ranks: int
    backend: str
    threads: int
    budget_s: float

    def device(self, rank: int) -> torch.device:
        return torch.device("cuda", rank) if self.backend == "nccl" else torch.device("cpu")


@dataclass(slots=True)
class Findings:
    """What the processes measured, as mean over them."""

    ops: list[Measured | None] = field(default_factory=list)
    collectives: list[CollectiveTimes] = field(default_factory=list)
    overlap: dict[ComputeClass, tuple[float, float]] = field(default_factory=dict)
    lacking: list[str] = field(default_factory=list)


def measure_together(demand: Demand, setting: Setting) -> Findings:
    """Run the measurements in as many processes as there are devices."""
    answers = get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="proteus-profile-") as folder:
        running = spawn(  # type: ignore[no-untyped-call]
            _process, (demand, setting, folder, answers), nprocs=setting.num_ranks, join=False
        )
        findings: Findings | None = None
        while not running.join(timeout=POLL_S):
            if not answers.empty():
                findings = answers.get()
    assert findings is not None
    return findings


def join(rank: int, setting: Setting, folder: str) -> None:
    """Make this process a member of the group of all."""
    torch.set_num_threads(setting.threads)
    if setting.backend == "gloo" and Path("/sys/class/net", LOOPBACK).exists():
        os.environ.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK)
    if setting.backend == "nccl":
        torch.cuda.set_device(rank)
    dist.init_process_group(
        setting.backend, init_method=f"file://{folder}/meeting", rank=rank, world_size=setting.num_ranks
    )


def _process(rank: int, demand: Demand, setting: Setting, folder: str, answers: SimpleQueue[Findings]) -> None:
    join(rank, setting, folder)
    clock = Clock(setting.device(rank), setting.budget_s)
    findings = Findings()
    ops = measure_ops(demand, clock, dist.barrier)
    means = _mean([item.time_s if item is not None else 0.0 for item in ops], clock)
    findings.ops = [
        replace(item, time_s=mean) if item is not None else None for item, mean in zip(ops, means, strict=True)
    ]
    if setting.num_ranks > 1:
        links = Links(rank, setting.num_ranks, clock)
        for (kind, size), sizes in sizes_of(demand, setting.num_ranks).items():
            _add_collective(findings, links, kind, size, sizes)
        overlap = measure_overlap(demand, links)
        shares = _mean([share for pair in overlap.values() for share in pair], clock)
        findings.overlap = {kind: (shares[2 * i], shares[2 * i + 1]) for i, kind in enumerate(overlap)}
    if rank == 0:
        answers.put(findings)
    dist.barrier()
    dist.destroy_process_group()


def _add_collective(findings: Findings, links: Links, kind: Collective, size: int, sizes: list[float]) -> None:
    try:
        times = links.times(kind, size, sizes)
    except RuntimeError as error:  # the backend says so before anything is sent, in every process alike
        findings.lacking.append(f"{kind} among {size}: {str(error).splitlines()[0]}")
        return
    means = tuple(_mean(times, links.clock))
    findings.collectives.append(CollectiveTimes(kind=kind, num_ranks=size, size_bytes=tuple(sizes), time_s=means))


def _mean(values: Sequence[float], clock: Clock) -> list[float]:
    """The mean over all processes of each value."""
    if not values:
        return []
    total = torch.tensor(values, dtype=torch.float64, device=clock.device)
    dist.all_reduce(total)
    mean: list[float] = (total / dist.get_world_size()).tolist()
    return mean
