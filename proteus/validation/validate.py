"""All rows of a table, on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from statistics import fmean
from typing import Any, TypeVar

from proteus.validation.metrics import Summary, by_table, summarize
from proteus.validation.runs import Run
from proteus.validation.score import PLAIN, Options, Score, score_run

#: rows that a worker takes at once: enough to share models and clusters, few enough to balance
ROWS_PER_CHUNK = 24
#: fewer chunks are worked on here: starting workers takes longer
CHUNKS_WORTH_WORKERS = 3

Tell = Callable[[int, int], None]
Item = TypeVar("Item")
Found = TypeVar("Found")


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
    return on_all_cores(_score, tasks, ROWS_PER_CHUNK, workers=workers, progress=progress)


def _score(task: tuple[Run, Options]) -> Score:
    return score_run(*task)


def on_all_cores(
    work: Callable[[Item], Found],
    items: Sequence[Item],
    per_chunk: int,
    *,
    workers: int | None = None,
    progress: Tell | None = None,
) -> list[Found]:
    """``[work(item) for item in items]`` by several processes, `per_chunk` items at a time."""
    workers = workers or num_cores()
    chunks = [items[at : at + per_chunk] for at in range(0, len(items), per_chunk)]
    of_chunk = partial(_chunk, work)
    if workers == 1 or len(chunks) < CHUNKS_WORTH_WORKERS:
        return _collect(map(of_chunk, chunks), len(items), progress)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return _collect(pool.map(of_chunk, chunks), len(items), progress)


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _chunk(work: Callable[[Item], Found], items: Sequence[Item]) -> list[Found]:
    return [work(item) for item in items]


def _collect(chunks: Iterable[list[Found]], total: int, progress: Tell | None) -> list[Found]:
    scores: list[Found] = []
    for part in chunks:
        scores += part
        if progress is not None:
            progress(len(scores), total)
    return scores


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
