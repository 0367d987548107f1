"""The real run: two processes that train, every step timed."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing import get_context
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.own_run import nets
from proteus.profiling.processes import Setting, join
from proteus.profiling.timing import waited_s

#: steps before the first that counts
WARM_UP = 5
#: all buckets of DDP have this size: its first one always has [bytes]
BUCKET_BYTES = 2**20
_THREADS = Path("/proc/self/task")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A network, how it is spread, and its batch on one rank.

    `how` is ``alone`` (every process trains by itself), ``ddp`` or ``tp``.
    """

    net: str
    how: str
    batch: int


@dataclass(frozen=True, slots=True)
class Steps:
    """Every step of one process.

    Parameters
    ----------
    wall_s
        Wall time.
    waiting
        What threads with work waited for a core, as share of it; the most of any process.
    own_s
        Wall time without what the training thread itself waited.
    """

    wall_s: list[float]
    waiting: list[float]
    own_s: list[float]


def all_waited_s() -> float:
    """What all threads of this process have waited for a core [s]."""
    total = 0
    for thread in _THREADS.glob("*/schedstat") if _THREADS.exists() else ():
        try:
            total += int(thread.read_text().split()[1])
        except OSError:
            continue  # the thread has ended meanwhile
    return total * 1e-9


def train(case: Case, setting: Setting, seconds: float) -> Steps:
    """Train in `setting.num_ranks` processes for about that long; times of rank 0, waiting of all."""
    answers: SimpleQueue[Steps] = get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="proteus-own-run-") as folder:
        running = spawn(_process, (case, setting, folder, answers, seconds), nprocs=setting.num_ranks, join=False)
        steps: Steps | None = None
        while not running.join(timeout=0.05):
            if not answers.empty():
                steps = answers.get()
    assert steps is not None
    return steps


def _process(rank: int, case: Case, setting: Setting, folder: str, answers: SimpleQueue[Steps], seconds: float) -> None:
    join(rank, setting, folder)
    device = setting.device(rank)
    torch.manual_seed(0)
    model, data = made(case, setting.num_ranks, rank, device)
    step = stepper(model, data)
    for _ in range(WARM_UP):
        step()
    begin = time.perf_counter()
    step()
    _wait(device)
    count = torch.tensor(max(int(seconds / (time.perf_counter() - begin)), WARM_UP), device=device)
    dist.broadcast(count, 0)
    rows = []
    for _ in range(int(count)):
        waited, own_waited_s, begin = all_waited_s(), waited_s(), time.perf_counter()
        step()
        _wait(device)
        elapsed = time.perf_counter() - begin
        rows.append((elapsed, all_waited_s() - waited, elapsed - (waited_s() - own_waited_s)))
    columns = torch.tensor(rows, dtype=torch.float64, device=device)
    waiting = columns[:, 1].contiguous()
    dist.all_reduce(waiting, op=dist.ReduceOp.MAX)
    if rank == 0:
        wall_s = columns[:, 0]
        answers.put(Steps(wall_s.tolist(), (waiting / wall_s).tolist(), columns[:, 2].tolist()))
    dist.barrier()
    dist.destroy_process_group()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def made(case: Case, num_ranks: int, rank: int, device: torch.device) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """The module, spread as the case says, and a batch for it."""
    tp = num_ranks if case.how == "tp" else 1
    model: nn.Module
    if case.net == "transformer":
        seq, vocab = nets.TRANSFORMER["seq"], nets.TRANSFORMER["vocab"]
        model = nets.Transformer(tp, rank)
        data = (torch.randint(vocab, (case.batch, seq)), torch.randint(vocab, (case.batch, seq)))
    else:
        model = nets.Cnn()
        images = torch.randn(case.batch, nets.COLOURS, nets.IMAGE, nets.IMAGE)
        data = (images, torch.randint(nets.CLASSES, (case.batch,)))
    model = model.to(device)
    if case.how == "ddp":
        model = DistributedDataParallel(
            model, bucket_cap_mb=BUCKET_BYTES / 2**20, forward_sync_buffers=False, gradient_as_bucket_view=True
        )
    return model, (data[0].to(device), data[1].to(device))


def stepper(model: nn.Module, data: tuple[Tensor, Tensor]) -> Callable[[], None]:
    """One training step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        loss = model(*data)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
