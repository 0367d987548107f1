"""Timing of calls: the median of repeated runs, every run awaited."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

#: runs that are thrown away: they allocate memory, choose algorithms, fill caches
WARM_UP = 2
#: calls between two waits on a GPU, whose host runs ahead; a CPU has done a call when it returns
ISSUED_TOGETHER = 10
#: fewest and most runs of which the median is taken
FEWEST, MOST = 5, 400


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
        for _ in range(WARM_UP):
            call()
        self.wait()
        times: list[float] = []
        end = time.perf_counter() + self.budget_s
        while len(times) < FEWEST or (time.perf_counter() < end and len(times) < MOST):
            times.append(self.once_s(call))
        return statistics.median(times)

    def once_s(self, call: Callable[[], object]) -> float:
        """Time of one run [s]."""
        runs = ISSUED_TOGETHER if self.device.type == "cuda" else 1
        begin = time.perf_counter()
        for _ in range(runs):
            call()
        self.wait()
        return (time.perf_counter() - begin) / runs

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
