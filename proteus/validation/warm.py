"""Warm predictions: one run of a table sets three constants, the others are predicted.

Which run is chosen, and how much is made of it, never depends on what was
measured.  It is the most central one, nearest in configuration to all the
others; and the farther they are from it, the less of its error is taken to be
theirs as well: a constant of a machine is the same for all, but much of an
error belongs to a model, a kernel or a schedule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from proteus.validation.calibrate import NOISE, PRIOR, Constants, calibrate
from proteus.validation.case import case_of
from proteus.validation.runs import Run
from proteus.validation.score import Options, Score, fastest_that_fits
from proteus.validation.validate import Tell, score_all

#: what is compared by its ratio: twice as much is a distance of 1
_SIZES = ("num_gpus", "tp", "pp", "cp", "ep", "micro_batch", "seq", "hidden", "layers")
#: what is the same or not, and the distance where it is not
_TEXTS = ("model", "precision", "recompute", "attention", "zero", "schedule", "overlap")
OTHER = 2.0
#: distance at which half of a run's error is another run's as well; between 1 and 3 the shipped tables do not care
HALF = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Teacher:
    """The run that teaches, by its number, and its mean distance from the others."""

    number: int
    distance: float

    @property
    def noise(self) -> float:
        """What a constant of the machine does not explain for the others, as a log."""
        return math.hypot(NOISE, PRIOR["compute"] * math.sqrt(self.distance / HALF))


def distance(a: Run, b: Run) -> float:
    """How unlike two configurations are.

    >>> one = Run(id="1", table_id="t", kind="llm", tp=2, precision="bf16")
    >>> distance(one, replace(one, tp=8)), distance(one, replace(one, tp=1, precision="fp8"))
    (2.0, 3.0)
    """
    sizes = sum(abs(math.log2((getattr(a, name) or 1) / (getattr(b, name) or 1))) for name in _SIZES)
    return sizes + OTHER * sum(getattr(a, name) != getattr(b, name) for name in _TEXTS)


def teachers(runs: Sequence[Run], cold: Sequence[Score]) -> dict[tuple[str, str, str], Teacher]:
    """The teacher of each table, framework and GPU, where there is another run to predict."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for number, (run, score) in enumerate(zip(runs, cold, strict=True)):
        if score.time_error is not None:
            groups.setdefault(group_of(run), []).append(number)
    return {key: _most_central(runs, members) for key, members in groups.items() if len(members) > 1}


def _most_central(runs: Sequence[Run], members: Sequence[int]) -> Teacher:
    means = [sum(distance(runs[n], runs[other]) for other in members) / (len(members) - 1) for n in members]
    best = min(range(len(members)), key=means.__getitem__)
    return Teacher(number=members[best], distance=means[best])


def group_of(run: Run) -> tuple[str, str, str]:
    """What shares its constants: (table, framework, GPU)."""
    return run.table_id, run.framework, run.gpu


def learn(run: Run, noise: float = NOISE) -> Constants:
    """The constants that one run asks for."""
    assert run.step_time_s is not None
    case = case_of(run)
    return calibrate(case.cluster, [(fastest_that_fits(case).tree, run.step_time_s)], noise=noise)


def warm_tasks(runs: Sequence[Run], cold: Sequence[Score], options: Options) -> list[tuple[Run, Options]]:
    """The runs that did not teach and belong to a table with a teacher, each with what that one taught."""
    chosen = teachers(runs, cold)
    constants = {key: learn(runs[teacher.number], teacher.noise) for key, teacher in chosen.items()}
    taught = {teacher.number for teacher in chosen.values()}
    return [
        (run, replace(options, constants=constants[group_of(run)]))
        for number, run in enumerate(runs)
        if number not in taught and group_of(run) in constants
    ]


def warm_scores(
    runs: Sequence[Run],
    cold: Sequence[Score],
    options: Options,
    *,
    workers: int | None = None,
    progress: Tell | None = None,
) -> list[Score]:
    """Scores of the runs that did not teach and belong to a table with a teacher."""
    return score_all(warm_tasks(runs, cold, options), workers=workers, progress=progress)
