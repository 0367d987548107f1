"""Which clock in the middle of a step do the published tables ask for, and does any one of them decide?

    python benchmarks/leave_one_table_out.py

For every chip: the factor that leaves a table of runs without bias, the median
over tables, and the range of that median when one table is left out.
"""

from __future__ import annotations

import math
from statistics import median

from proteus.compiler import price
from proteus.costs import curves
from proteus.validation.machines import find_gpu
from proteus.validation.runs import Run, shipped_runs
from proteus.validation.score import score_run

#: rows of a table that are simulated, evenly spread
ROWS = 14
#: relative step of the difference quotient
STEP = 0.06
#: factors beyond this are taken as this: a table may be off for other reasons
LARGEST = 1.2


def bias(runs: list[Run], chip: str, factor: float) -> float | None:
    """Median log error of `runs` with that factor for the chip."""
    original = curves.sustained_factor
    curves.sustained_factor = lambda name: factor if name == chip else original(name)
    price._cached_pricer.cache_clear()
    try:
        scores = [score_run(run) for run in runs]
    finally:
        curves.sustained_factor = original
        price._cached_pricer.cache_clear()
    errors = [math.log1p(score.time_error) for score in scores if score.time_error is not None]
    return median(errors) if errors else None


def asked(runs: list[Run], chip: str, now: float) -> float | None:
    """The factor that would leave `runs` without bias."""
    here, there = bias(runs, chip, now), bias(runs, chip, now * (1 - STEP))
    if here is None or there is None or there - here < 1e-3:
        return None
    slope = (there - here) / math.log(1 - STEP)
    return min(LARGEST, now * math.exp(-here / slope))


def main() -> int:
    tables: dict[str, dict[str, list[Run]]] = {}
    for run in shipped_runs():
        gpu = find_gpu(run.gpu)
        if run.step_time_s is not None and gpu is not None and not run.experts:
            chip, _ = curves.chip_of(gpu.name, gpu.generation)
            tables.setdefault(chip, {}).setdefault(run.table_id, []).append(run)
    for chip, of_chip in tables.items():
        now = curves.sustained_factor(chip)
        found = {
            name: factor
            for name, runs in of_chip.items()
            if (factor := asked(runs[:: max(1, len(runs) // ROWS)], chip, now)) is not None
        }
        if len(found) < 2:
            continue
        without = [median(v for k, v in found.items() if k != name) for name in found]
        told = ", ".join(f"{name} {factor:.2f}" for name, factor in found.items())
        print(f"{chip}: now {now:.2f}; median {median(found.values()):.3f} of {len(found)} tables, ", end="")
        print(f"{min(without):.3f} to {max(without):.3f} with one left out\n  {told}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
