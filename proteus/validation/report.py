"""Scores as text for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from proteus.validation.metrics import Summary, by_table, summarize
from proteus.validation.score import Score
from proteus.validation.validate import mean_table_coverage, mean_table_error

HEADER = (
    *("table", "rows", "n/e", "timed", "median", "mean", "bias", "in band", "tau"),
    *("fits right", "missed", "false", "memory"),
)


def percent(value: float | None) -> str:
    """A share in percent, or a dash.

    >>> percent(0.1234), percent(None)
    ('12.3%', '-')
    """
    return "-" if value is None else f"{100 * value:.1f}%"


def cells(name: str, summary: Summary) -> tuple[str, ...]:
    """One row of the table of tables."""
    return (
        name,
        str(summary.rows),
        str(summary.not_expressible),
        str(summary.timed),
        percent(summary.median_error),
        percent(summary.mean_error),
        "-" if summary.bias is None else f"{100 * summary.bias:+.1f}%",
        percent(summary.coverage),
        "-" if summary.tau is None else f"{summary.tau:.2f}",
        f"{summary.right_verdicts}/{summary.verdicts}",
        str(summary.missed_oom),
        str(summary.false_oom),
        percent(summary.memory_error),
    )


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned columns, the first to the left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def text_report(scores: Sequence[Score], *, worst: int = 10) -> str:
    """Tables, what could not be expressed, and the worst rows."""
    tables = {name: summarize(rows) for name, rows in by_table(scores).items()}
    rows = [HEADER, *(cells(name, summary) for name, summary in tables.items()), cells("all", summarize(scores))]
    parts = [
        columns(rows),
        f"mean over tables of their mean error: {percent(mean_table_error(tables.values()))}, "
        f"of their rows in the band: {percent(mean_table_coverage(tables.values()))}",
    ]
    reasons = Counter(f"{row.status}: {row.reason}" for row in scores if row.reason)
    if reasons:
        parts.append("not scored\n" + "\n".join(f"  {count:4d}  {reason}" for reason, count in reasons.most_common()))
    timed = sorted((row for row in scores if row.time_error is not None), key=lambda row: -abs(row.time_error or 0.0))
    if worst and timed:
        parts.append("worst rows\n" + "\n".join(f"  {worst_line(row)}" for row in timed[:worst]))
    return "\n\n".join(parts)


def worst_line(row: Score) -> str:
    """One row: predicted and measured."""
    return (
        f"{row.id} {row.table_id}: {row.step_time_s:.4g} s for {row.measured_step_time_s:.4g} s "
        f"({100 * (row.time_error or 0.0):+.0f}%) {row.strategy}"
    )
