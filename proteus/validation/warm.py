"""Warm predictions: one run of a table sets three constants, the others are predicted.

Which run is chosen never depends on what was measured: of those on the fewest
GPUs, which a user would try first, the one in the middle by predicted cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from proteus.validation.calibrate import Constants, calibrate
from proteus.validation.case import case_of
from proteus.validation.runs import Run
from proteus.validation.score import Options, Score
from proteus.validation.validate import Progress, score_all


def teachers(runs: Sequence[Run], cold: Sequence[Score]) -> dict[tuple[str, str, str], int]:
    """Per table, framework and GPU the number of the run that teaches, where there is another to predict."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for number, (run, score) in enumerate(zip(runs, cold, strict=True)):
        if score.time_error is not None:
            groups.setdefault(group_of(run), []).append(number)
    chosen = {}
    for key, members in groups.items():
        fewest = min(runs[n].num_gpus or 1 for n in members)
        small = [n for n in members if (runs[n].num_gpus or 1) == fewest]
        if len(members) > 1:
            chosen[key] = sorted(small, key=lambda n: cold[n].cost_s(cold[n].step_time_s))[len(small) // 2]
    return chosen


def group_of(run: Run) -> tuple[str, str, str]:
    """What shares its constants: (table, framework, GPU)."""
    return run.table_id, run.framework, run.gpu


def learn(run: Run) -> Constants:
    """The constants that one run asks for."""
    assert run.step_time_s is not None
    case = case_of(run)
    return calibrate(case.cluster, [(case.tree, run.step_time_s)])


def warm_scores(
    runs: Sequence[Run],
    cold: Sequence[Score],
    options: Options,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[Score]:
    """Scores of the runs that did not teach and belong to a table with a teacher."""
    chosen = teachers(runs, cold)
    constants = {key: learn(runs[number]) for key, number in chosen.items()}
    taught = set(chosen.values())
    tasks = [
        (run, replace(options, constants=constants[group_of(run)]))
        for number, run in enumerate(runs)
        if number not in taught and group_of(run) in constants
    ]
    return score_all(tasks, workers=workers, progress=progress)
