"""Errors over rows: median, mean, rank correlation, verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from proteus.validation.score import NO_MEASUREMENT, NOT_EXPRESSIBLE, SCORED, Score


def kendall_tau(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Kendall's tau-b: how alike two orders are, from -1 to 1; None where either is all ties.

    Source: Kendall, "The treatment of ties in ranking problems", 1945.

    >>> kendall_tau([1, 2, 3], [10, 20, 30]), kendall_tau([1, 2, 3], [30, 20, 10])
    (1.0, -1.0)
    """
    concordant = 0
    ties_a = ties_b = both = 0
    pairs = len(a) * (len(a) - 1) // 2
    for i in range(len(a)):
        for j in range(i):
            x, y = a[i] - a[j], b[i] - b[j]
            if x == 0 and y == 0:
                both += 1
            elif x == 0:
                ties_a += 1
            elif y == 0:
                ties_b += 1
            else:
                concordant += 1 if (x > 0) == (y > 0) else -1
    scale = math.sqrt((pairs - ties_a - both) * (pairs - ties_b - both))
    return concordant / scale if scale else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Errors over some rows; None where no row has what it takes.

    Parameters
    ----------
    median_error, mean_error
        Of the absolute relative error of the step time.
    bias
        Median of the signed error.
    coverage
        Share of the timed rows whose measured step time lies in the band.
    tau
        Kendall's tau of predicted and measured throughput per GPU.
    verdicts, right_verdicts
        Runs known to fit or not, and how many verdicts are correct.
    missed_oom, false_oom
        Out of memory in truth but not in the prediction, and the other way.
    memory_error
        Median absolute relative error of exact peaks, over `num_memory` rows.
    """

    rows: int
    scored: int
    timed: int
    not_expressible: int
    no_measurement: int
    median_error: float | None
    mean_error: float | None
    bias: float | None
    coverage: float | None
    tau: float | None
    verdicts: int
    right_verdicts: int
    missed_oom: int
    false_oom: int
    num_memory: int
    memory_error: float | None

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def summarize(scores: Iterable[Score]) -> Summary:
    """The errors over `scores`."""
    rows = list(scores)
    timed = [row for row in rows if row.time_error is not None]
    errors = [abs(row.time_error) for row in timed if row.time_error is not None]
    signed = [row.time_error for row in timed if row.time_error is not None]
    inside = [is_in_band for row in timed if (is_in_band := row.is_in_band) is not None]
    memory = [abs(error) for row in rows if (error := row.memory_error) is not None]
    with_verdict = [
        row for row in rows if row.status == SCORED and row.fits is not None and row.measured_fits is not None
    ]
    tau = None
    if len(timed) > 1:
        tau = kendall_tau(
            [row.cost_s(row.step_time_s) for row in timed], [row.cost_s(row.measured_step_time_s) for row in timed]
        )
    return Summary(
        rows=len(rows),
        scored=sum(row.status == SCORED for row in rows),
        timed=len(timed),
        not_expressible=sum(row.status == NOT_EXPRESSIBLE for row in rows),
        no_measurement=sum(row.status == NO_MEASUREMENT for row in rows),
        median_error=median(errors) if errors else None,
        mean_error=fmean(errors) if errors else None,
        bias=median(signed) if signed else None,
        coverage=fmean(inside) if inside else None,
        tau=tau,
        verdicts=len(with_verdict),
        right_verdicts=sum(row.fits == row.measured_fits for row in with_verdict),
        missed_oom=sum(bool(row.fits) and not row.measured_fits for row in with_verdict),
        false_oom=sum(not row.fits and bool(row.measured_fits) for row in with_verdict),
        num_memory=len(memory),
        memory_error=median(memory) if memory else None,
    )


def one_scale_error(scores: Iterable[Score]) -> float | None:
    """Mean absolute error where the best factor for all of `scores` is known: what no such factor can take away.

    The mean is convex in the factor and bends where a row becomes exact.

    >>> from proteus.validation.score import SCORED
    >>> rows = [Score(id="", table_id="", status=SCORED, step_time_s=s, measured_step_time_s=1.0) for s in (2, 2, 1)]
    >>> round(one_scale_error(rows), 3)
    0.167
    """
    ratios = [1.0 + row.time_error for row in scores if row.time_error is not None]
    return min((fmean(abs(ratio / exact - 1.0) for ratio in ratios) for exact in ratios), default=None)


def by_table(scores: Iterable[Score]) -> dict[str, list[Score]]:
    """Rows by source table, in order of first appearance."""
    tables: dict[str, list[Score]] = {}
    for row in scores:
        tables.setdefault(row.table_id, []).append(row)
    return tables
