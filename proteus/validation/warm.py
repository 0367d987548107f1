"""Warm predictions: one run of a table sets three constants, the others are predicted.

Which run is chosen, and how much is made of it, never depends on what was
measured.  It is the most central one, nearest in configuration to all the
others.  The farther a run is from it, the less of its error is taken to be the
other's as well: a constant of a machine is the same for all, but much of an
error belongs to a model, a kernel or a schedule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from proteus.calibration import Constants, calibrate
from proteus.validation.case import case_of
from proteus.validation.runs import Run
from proteus.validation.score import Options, Score, result_of
from proteus.validation.validate import Tell, on_all_cores, score_all

#: what is compared by its ratio: twice as much is a distance of 1
_SIZES = ("num_gpus", "tp", "pp", "cp", "ep", "micro_batch", "seq", "hidden", "layers", "experts")
#: what is the same or not, and the distance where it is not
_TEXTS = ("model", "precision", "recompute", "attention", "zero", "schedule", "overlap")
OTHER = 2.0
#: distance at which half of an error is another run's too; the first tables and those collected later agree on 3 to 5
HALF = 4.0
#: teachers that a worker takes at once; each is a dozen simulations
TEACHERS_PER_CHUNK = 2


def distance(a: Run, b: Run) -> float:
    """How unlike two configurations are.

    >>> one = Run(id="1", table_id="t", kind="llm", tp=2, precision="bf16")
    >>> distance(one, replace(one, tp=8)), distance(one, replace(one, tp=1, precision="fp8"))
    (2.0, 3.0)
    """
    sizes = sum(abs(math.log2((getattr(a, name) or 1) / (getattr(b, name) or 1))) for name in _SIZES)
    return sizes + OTHER * sum(getattr(a, name) != getattr(b, name) for name in _TEXTS)


def share(teacher: Run, run: Run) -> float:
    """The share of one run's log correction that applies to another run.

    Runs that are alike err alike, be it for their machine, their model or a
    kernel.  How far their errors are apart grows as their distance does, its
    square is a variance beside that of what they share.

    >>> one = Run(id="1", table_id="t", kind="llm", tp=2)
    >>> [share(one, replace(one, tp=tp)) for tp in (2, 4, 32)]
    [1.0, 0.941..., 0.5]
    """
    return 1.0 / (1.0 + (distance(teacher, run) / HALF) ** 2)


def teachers(runs: Sequence[Run], cold: Sequence[Score]) -> dict[tuple[str, str, str], int]:
    """The number of the run that teaches each table, framework and GPU, where there is another run to predict."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for number, (run, score) in enumerate(zip(runs, cold, strict=True)):
        if score.time_error is not None:
            groups.setdefault(group_of(run), []).append(number)
    return {key: _most_central(runs, members) for key, members in groups.items() if len(members) > 1}


def _most_central(runs: Sequence[Run], members: Sequence[int]) -> int:
    return min(members, key=lambda number: sum(distance(runs[number], runs[peer]) for peer in members))


def group_of(run: Run) -> tuple[str, str, str]:
    """What shares its constants: (table, framework, GPU)."""
    return run.table_id, run.framework, run.gpu


def learn(run: Run) -> Constants:
    """The constants fitted to one run."""
    assert run.step_time_s is not None
    case = case_of(run)
    return calibrate(case.cluster, [(result_of(case).tree, run.step_time_s)])


def warm_tasks(
    runs: Sequence[Run], cold: Sequence[Score], options: Options, *, workers: int | None = None
) -> list[tuple[Run, Options]]:
    """The runs that did not teach and belong to a table with a teacher, each with what that one taught."""
    chosen = teachers(runs, cold)
    constants_of = on_all_cores(
        learn, [runs[number] for number in chosen.values()], TEACHERS_PER_CHUNK, workers=workers
    )
    learned = dict(zip(chosen, constants_of, strict=True))
    taught = set(chosen.values())
    tasks = []
    for number, run in enumerate(runs):
        key = group_of(run)
        if key in chosen and number not in taught:
            constants = learned[key].believed(share(runs[chosen[key]], run))
            tasks.append((run, replace(options, constants=constants)))
    return tasks


def warm_scores(
    runs: Sequence[Run],
    cold: Sequence[Score],
    options: Options,
    *,
    workers: int | None = None,
    progress: Tell | None = None,
) -> list[Score]:
    """Scores of the runs that did not teach and belong to a table with a teacher."""
    return score_all(warm_tasks(runs, cold, options, workers=workers), workers=workers, progress=progress)
