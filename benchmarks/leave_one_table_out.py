"""What the constants seen in whole steps owe to each published table, and how that table fares without it.

    python benchmarks/leave_one_table_out.py

Clocks in the middle of a step are medians over tables of dense models of the
factor that leaves a table without bias; a table counts by the root of its rows.  A table is scored again with the
median of the others; the few other constants that one table alone could show
fall back to what stood before it.  What that adds to a table's mean error is
written to ``proteus/validation/data/held_out.json``, which docs/accuracy.md shows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median

import numpy as np

from proteus.compiler import price
from proteus.costs import curves
from proteus.hardware import gpus
from proteus.validation.machines import find_gpu
from proteus.validation.runs import Run, shipped_runs
from proteus.validation.score import score_run

TARGET = Path(__file__).parents[1] / "proteus" / "validation" / "data" / "held_out.json"
#: rows of a table that are simulated, evenly spread
ROWS = 14
#: relative step of the difference quotient
STEP = 0.06
#: factors beyond this are taken as this: a table may be off for other reasons
LARGEST = 1.2
#: table -> settings of its rows without what that table alone has shown
ALONE: Mapping[str, str] = {
    "internevo_zero1": "norm=tuned; recompute_modules=",
    "internevo_flops": "norm=tuned; recompute_modules=",
}


@contextmanager
def clock(chip: str, factor: float) -> Iterator[None]:
    """Everything simulated with that factor for the chip."""
    original = curves.sustained_factor
    curves.sustained_factor = lambda one: factor if one.name == chip else original(one)
    price._cached_pricer.cache_clear()
    try:
        yield
    finally:
        curves.sustained_factor = original
        price._cached_pricer.cache_clear()


def with_settings(runs: Sequence[Run], settings: str) -> list[Run]:
    """The runs with these settings stated as well."""
    return [replace(run, settings=f"{run.settings}; {settings}") for run in runs]


def errors(runs: Sequence[Run]) -> list[float | None]:
    """Log error of each run; None where it has none."""
    scores = [score_run(run) for run in runs]
    return [None if score.time_error is None else math.log1p(score.time_error) for score in scores]


def asked(here: Sequence[float], there: Sequence[float], now: float) -> float | None:
    """The factor that would leave errors without bias, from those now and with a factor smaller by a step."""
    if median(there) - median(here) < 1e-3:
        return None
    slope = (median(there) - median(here)) / math.log(1 - STEP)
    return min(LARGEST, now * math.exp(-median(here) / slope))


def middle(factors: Mapping[str, float], rows: Mapping[str, int]) -> float:
    """Median of the factors, each counted by the root of its table's rows."""
    order = sorted(factors, key=factors.__getitem__)
    ends = np.cumsum([math.sqrt(rows[name]) for name in order])
    return factors[order[int(np.searchsorted(ends, ends[-1] / 2))]]


def mean(logs: Sequence[float]) -> float:
    """Mean absolute relative error."""
    return fmean(abs(math.expm1(log)) for log in logs)


def of_clock(chip: str, tables: Mapping[str, list[Run]], rows: Mapping[str, int]) -> dict[str, float]:
    """What each table's mean error gains when the chip's clock is the median of the other tables."""
    now = curves.sustained_factor(gpus.catalogue().chips[chip])
    before = {name: errors(runs) for name, runs in tables.items()}
    with clock(chip, now * (1 - STEP)):
        after = {name: errors(runs) for name, runs in tables.items()}
    factors = {}
    for name, runs in tables.items():
        dense = [i for i, run in enumerate(runs) if not run.experts and before[name][i] is not None]
        if dense:
            here, there = ([logs[name][i] or 0.0 for i in dense] for logs in (before, after))
            if (factor := asked(here, there, now)) is not None:
                factors[name] = factor
    if len(factors) < 2:
        return {}
    without = {name: middle({k: v for k, v in factors.items() if k != name}, rows) for name in factors}
    print(f"{chip}: now {now:.2f}; median {middle(factors, rows):.3f} of {len(factors)} tables, ", end="")
    print(f"{min(without.values()):.3f} to {max(without.values()):.3f} with one left out")
    print("  " + ", ".join(f"{name} {factor:.2f}" for name, factor in factors.items()))
    added = {}
    for name, factor in without.items():
        pairs = [(a, b) for a, b in zip(before[name], after[name], strict=True) if a is not None and b is not None]
        moved = [a + (b - a) / math.log(1 - STEP) * math.log(factor / middle(factors, rows)) for a, b in pairs]
        added[name] = mean(moved) - mean([a for a, _ in pairs])
    return added


def main() -> int:
    chips: dict[str, dict[str, list[Run]]] = {}
    timed: dict[str, list[Run]] = {}
    for run in shipped_runs():
        gpu = find_gpu(run.gpu)
        if run.step_time_s is not None and gpu is not None:
            chips.setdefault(gpu.chip.name, {}).setdefault(run.table_id, []).append(run)
            timed.setdefault(run.table_id, []).append(run)
    added = dict.fromkeys(timed, 0.0)
    for chip, tables in chips.items():
        sampled = {name: runs[:: max(1, len(runs) // ROWS)] for name, runs in tables.items()}
        dense = {name: sum(not run.experts for run in runs) for name, runs in tables.items()}
        for name, more in of_clock(chip, sampled, dense).items():
            added[name] += more * len(tables[name]) / len(timed[name])
    for name, settings in ALONE.items():
        runs = timed[name][:: max(1, len(timed[name]) // ROWS)]
        before, after = errors(runs), errors(with_settings(runs, settings))
        kept = [(a, b) for a, b in zip(before, after, strict=True) if a is not None and b is not None]
        added[name] += mean([b for _, b in kept]) - mean([a for a, _ in kept])
        print(f"{name}: {mean([a for a, _ in kept]):.3f} to {mean([b for _, b in kept]):.3f} with {settings}")
    about = (
        "Written by benchmarks/leave_one_table_out.py: what a table's mean error gains without its share in constants"
    )
    body = {"about": about, "added": {name: round(more, 4) for name, more in added.items()}}
    TARGET.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
