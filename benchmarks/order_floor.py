"""How well the rows of a table tell each other: what order and what error within a table are in reach.

    python benchmarks/order_floor.py

A ridge regression knows everything about a row of a table of layouts but its
time: it sees the prediction, the measured times of all other rows of the
table, and every setting that the rows differ in, each value with an effect of
its own.  A prediction from configurations alone can hardly do better than
this; where it does not reach a tau of 0.9, nothing else will.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from proteus.validation.document import STRATEGY_TABLES
from proteus.validation.metrics import kendall_tau
from proteus.validation.runs import Run, shipped_runs
from proteus.validation.score import Options, Score
from proteus.validation.validate import validate

SETTINGS = ("model", "num_gpus", "tp", "pp", "micro_batch", "attention", "sequence_parallel", "recompute", "schedule")
#: strength of the pull of every effect to zero, in rows; 0.1 to 1 change the mean tau by less than 0.01
RIDGE = 0.3


def effects(runs: Sequence[Run]) -> np.ndarray:
    """float[rows, 1 + values]: a one, and a column for each value of each setting that differs."""
    columns = [np.ones(len(runs))]
    for name in SETTINGS:
        values = [getattr(run, name) for run in runs]
        if len(set(values)) > 1:
            columns += [np.array([value == one for value in values], float) for one in sorted(set(values), key=str)]
    return np.stack(columns, axis=1)


def left_out(matrix: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Every log predicted by the others."""
    pull = RIDGE * np.eye(matrix.shape[1])
    pull[0, 0] = 0.0
    predicted = np.empty(len(logs))
    for row in range(len(logs)):
        others = np.arange(len(logs)) != row
        seen = matrix[others]
        predicted[row] = matrix[row] @ np.linalg.solve(seen.T @ seen + pull, seen.T @ logs[others])
    return predicted


def main() -> None:
    runs = [run for run in shipped_runs("llm") if run.table_id.startswith(STRATEGY_TABLES)]
    scored: dict[str, list[tuple[Run, Score]]] = {}
    for run, score in zip(runs, validate(runs, Options()), strict=True):
        if score.time_error is not None:
            scored.setdefault(run.table_id, []).append((run, score))
    rows = []
    print(f"{'table':<18}{'rows':>5}  {'tau':>5} {'with the others':>16}  {'error':>6} {'with the others':>16}")
    for table, pairs in scored.items():
        predicted = np.array([score.cost_s(score.step_time_s) for _, score in pairs])
        measured = np.array([score.cost_s(score.measured_step_time_s) for _, score in pairs])
        logs = np.log(measured / predicted)
        better = predicted * np.exp(left_out(effects([run for run, _ in pairs]), logs))
        row = [
            x for p in (predicted, better) for x in (kendall_tau(p, measured) or math.nan, fmean(abs(p / measured - 1)))
        ]
        rows.append(row)
        print(f"{table:<18}{len(pairs):>5}  {row[0]:>5.2f} {row[2]:>16.2f}  {row[1]:>6.1%} {row[3]:>16.1%}")
    mean = np.mean(rows, axis=0)
    print(f"{'mean':<23}  {mean[0]:>5.2f} {mean[2]:>16.2f}  {mean[1]:>6.1%} {mean[3]:>16.1%}")


if __name__ == "__main__":
    main()
