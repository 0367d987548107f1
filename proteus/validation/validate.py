"""All rows of a table, on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import fmean
from typing import Any

from proteus.validation.metrics import Summary, by_table, summarize
from proteus.validation.runs import Run
from proteus.validation.score import PLAIN, Options, Score, score_run

#: rows that a worker takes at once: enough to share models and clusters, few enough to balance
ROWS_PER_CHUNK = 24
#: fewer rows are scored here: starting workers takes longer
ROWS_WORTH_WORKERS = 64

Tell = Callable[[int, int], None]


def validate(
    runs: Sequence[Run], options: Options = PLAIN, *, workers: int | None = None, progress: Tell | None = None
) -> list[Score]:
    """Simulate every run; scores in the order of the runs.

    Parameters
    ----------
    workers
        Processes; None takes as many as there are cores.
    progress
        Called with (rows done, rows in all).
    """
    return score_all([(run, options) for run in runs], workers=workers, progress=progress)


def score_all(
    tasks: Sequence[tuple[Run, Options]], *, workers: int | None = None, progress: Tell | None = None
) -> list[Score]:
    """:func:`validate` with options of its own for every run."""
    workers = workers or num_cores()
    chunks = [tasks[at : at + ROWS_PER_CHUNK] for at in range(0, len(tasks), ROWS_PER_CHUNK)]
    if workers == 1 or len(tasks) < ROWS_WORTH_WORKERS:
        return _collect(map(_score_chunk, chunks), len(tasks), progress)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return _collect(pool.map(_score_chunk, chunks), len(tasks), progress)


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _collect(chunks: Iterable[list[Score]], total: int, progress: Tell | None) -> list[Score]:
    found: list[Score] = []
    for scores in chunks:
        found += scores
        if progress is not None:
            progress(len(found), total)
    return found


def _score_chunk(tasks: Sequence[tuple[Run, Options]]) -> list[Score]:
    return [score_run(run, options) for run, options in tasks]


def answer(scores: Sequence[Score]) -> dict[str, Any]:
    """What ``proteus validate --json`` prints: {overall, tables, rows}."""
    tables = {name: summarize(rows) for name, rows in by_table(scores).items()}
    return {
        "overall": {
            **summarize(scores).to_dict(),
            "mean_table_error": mean_table_error(tables.values()),
            "mean_table_coverage": mean_table_coverage(tables.values()),
        },
        "tables": {name: summary.to_dict() for name, summary in tables.items()},
        "rows": [score.to_dict() for score in scores],
    }


def mean_table_error(tables: Iterable[Summary]) -> float | None:
    """Mean over tables of the table's mean error: small tables count as much as large ones."""
    means = [table.mean_error for table in tables if table.mean_error is not None]
    return fmean(means) if means else None


def mean_table_coverage(tables: Iterable[Summary]) -> float | None:
    """Mean over tables of the share of rows whose measured step time lies in the band."""
    shares = [table.coverage for table in tables if table.coverage is not None]
    return fmean(shares) if shares else None
