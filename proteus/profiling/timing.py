"""Timing of calls, on a machine that others may use meanwhile.

A call on a CPU is timed without what its thread waited for a core: other
programs take it now and then, and that is not the call's.  (Linux counts that
waiting: ``/proc/.../schedstat``, Documentation/scheduler/sched-stats.)  What
runs in several processes at once cannot be corrected so, and there the quiet
runs count: noise of a busy machine only adds.  A call that is repeated would
find its tensors in the caches, which it does not in a step; so other memory is
swept before each run.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

#: runs that are thrown away: they allocate memory, choose algorithms, fill caches
WARM_UP = 2
#: between two runs of an op a training step touches other memory: more than the caches of one core hold
SWEPT_BYTES = 16 * 2**20
#: calls between two waits on a GPU, whose host runs ahead; a CPU has done a call when it returns
ISSUED_TOGETHER = 10
#: fewest and most runs of which the median is taken
FEWEST, MOST = 5, 400
_OWN_THREAD = Path("/proc/thread-self/schedstat")
_NS = 1e-9


def waited_s() -> float:
    """What this thread has waited for a core since it began [s]; 0 where the system does not tell."""
    try:
        return int(_OWN_THREAD.read_text().split()[1]) * _NS
    except (OSError, IndexError, ValueError):
        return 0.0


@dataclass(frozen=True, slots=True)
class Clock:
    """Times calls on one device.

    Parameters
    ----------
    device
        Where the calls run.
    budget_s
        About how long one call is repeated [s].
    """

    device: torch.device
    budget_s: float

    def wait(self) -> None:
        """Wait until the device has done what the current stream was given."""
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()

    def median_s(self, call: Callable[[], object]) -> float:
        """Median time of one run [s]."""
        return statistics.median(self.times_s(call, self.runs_for(call)))

    def runs_for(self, call: Callable[[], object]) -> int:
        """How many runs fill the budget, after some that are thrown away."""
        for _ in range(WARM_UP):
            self.once_s(call)
        return min(max(int(self.budget_s / self.once_s(call)), FEWEST), MOST)

    def times_s(self, call: Callable[[], object], runs: int) -> list[float]:
        """Times of that many runs [s]."""
        return [self.once_s(call) for _ in range(runs)]

    def once_s(self, call: Callable[[], object], *, alone: bool = True) -> float:
        """Time of one run [s]; `alone` says that no other process has a part in it."""
        if self.device.type == "cuda":
            begin = time.perf_counter()
            for _ in range(ISSUED_TOGETHER):
                call()
            self.wait()
            return (time.perf_counter() - begin) / ISSUED_TOGETHER
        if alone:
            _elsewhere().add_(1.0)
        waited = waited_s() if alone else 0.0
        begin = time.perf_counter()
        call()
        elapsed = time.perf_counter() - begin
        return max(elapsed - (waited_s() - waited if alone else 0.0), 1e-9)

    def issue_s(self, call: Callable[[], object], times: int = 1000) -> float:
        """Host time to issue one run, without waiting for the device [s]."""
        call()
        self.wait()
        best = float("inf")
        for _ in range(FEWEST):
            begin = time.perf_counter()
            for _ in range(times):
                call()
            best = min(best, (time.perf_counter() - begin) / times)
            self.wait()
        return best


@cache
def _elsewhere() -> torch.Tensor:
    """Memory that no measured call uses."""
    return torch.zeros(SWEPT_BYTES // 4)


def quiet(times_s: list[float]) -> float:
    """The first quartile: a run that nothing disturbed [s].

    >>> quiet([2.0, 1.0, 9.0, 1.5])
    1.375
    """
    ordered = sorted(times_s)
    if len(ordered) == 1:
        return ordered[0]
    return statistics.quantiles(ordered, n=4, method="inclusive")[0]
