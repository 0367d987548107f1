"""What predictions are off by, for the band of ``Result.step_time_band``: kernels, host, whole steps.

    python benchmarks/fit_residuals.py            derive, check on tables left out, print
    python benchmarks/fit_residuals.py --write    and write proteus/costs/data/residuals.json

Run it after ``fit_ops.py``, ``fit_collectives.py`` and ``leave_one_table_out.py``.

Kernels
    Mean errors on sources that took no part in a fit (kernels.json), a source
    counting once: all kernels of a step share the error of their curve, so a
    source is one draw of it.
Host
    Rows whose step is mostly launches, as whole steps below.
Whole steps
    What must be added in quadrature to the errors of curves, links and host,
    so that 80 % of the rows lie in the band; a table counts once, those
    collected when all constants had been set too.  The constants seen in
    whole steps must not help the tables that they were seen in: a row is
    farther off by what its table gains without its share in the clocks
    (held_out.json), and a constant that one table alone has shown is taken
    away for that table.
Calibrated
    The factor on all that, for rows predicted after one run of their table.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from leave_one_table_out import ALONE, with_settings

from proteus.costs import residuals
from proteus.costs.residuals import StepKind
from proteus.result.band import HALF, HOST, SHARE, WHOLE, step_kind
from proteus.validation.case import case_of
from proteus.validation.document import held_out as held_out_error
from proteus.validation.runs import Run, shipped_runs
from proteus.validation.score import PLAIN, Score, score_run
from proteus.validation.validate import score_all, validate
from proteus.validation.warm import warm_tasks

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "proteus" / "costs" / "data" / "residuals.json"
KERNELS = ROOT / "proteus" / "validation" / "data" / "kernels.json"
#: fewer sources than this say nothing of a dtype or variant by itself: those of the whole family speak for it
MIN_SOURCES = 2
#: standard deviation over mean absolute deviation of a normal distribution
BY_MEAN_ERROR = math.sqrt(math.pi / 2.0)
#: share of the path from which on a step is mostly launches
MOSTLY = 0.5


def kernels() -> dict[str, Any]:
    """What curves are off by, by family, for a curve of the chip's own and for a borrowed one, by dtype or variant."""
    scores = [row for row in json.loads(KERNELS.read_text(encoding="utf-8"))["scores"] if row["rows"]]
    errors_by_family: dict[str, dict[str, dict[str, list[Mapping[str, float]]]]] = defaultdict(
        lambda: {"own": defaultdict(list), "borrowed": defaultdict(list)}
    )
    for row in scores:
        by_key = errors_by_family[row["family"]]["own" if row["held_out"] == "same chip" else "borrowed"]
        by_key["all"].append(row)
        by_key[row["key"]].append(row)
    return {
        family: {
            how: {key: spread(rows) for key, rows in by_key.items() if key == "all" or len(rows) >= MIN_SOURCES}
            for how, by_key in by_how.items()
        }
        for family, by_how in errors_by_family.items()
    }


def spread(sources: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Mean error of sources, and how far they lie from the curve, and the kernels of one of them apart."""
    off = [math.log1p(source["bias"]) for source in sources]
    apart = [max(0.0, (BY_MEAN_ERROR * source["error"]) ** 2 - source["bias"] ** 2) for source in sources]
    return {
        "mean_error": round(fmean(source["error"] for source in sources), 4),
        "shared": round(math.sqrt(fmean(x * x for x in off)), 4),
        "own": round(math.sqrt(fmean(apart)), 4),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A timed row: how far off it is (as a logarithm), and what its curves, links and host say of that.

    `missed` is as if the table had no share in constants seen in whole steps;
    `host` is the share of the path that the host sets, times its spread.
    """

    table: str
    kind: StepKind
    missed: float
    known: float
    host: float

    def asks_for(self) -> float:
        """Variance of whole steps that would put the row on the edge of its band."""
        return (self.missed / HALF) ** 2 - self.known**2 - self.host**2


def rows_of(runs: Sequence[Run], scores: Sequence[Score], added: Mapping[str, float]) -> list[Row]:
    rows = []
    for run, score in zip(runs, scores, strict=True):
        if score.time_error is not None:
            parts = {name: part for name, part in score.unsure.items() if name not in (HOST, WHOLE)}
            rows.append(
                Row(
                    table=run.table_id,
                    kind=step_kind(case_of(run).tree.model),
                    missed=abs(math.log1p(score.time_error)) + added.get(run.table_id, 0.0),
                    known=math.hypot(*parts.values()),
                    host=score.unsure.get(HOST, 0.0) / residuals.host_sigma(),
                )
            )
    return rows


def unseen(runs: Sequence[Run], cold: Sequence[Score]) -> list[Score]:
    """The scores, of tables that alone have shown a constant those without it."""
    unseen_scores = []
    for run, score in zip(runs, cold, strict=True):
        if run.table_id in ALONE:
            score = score_run(with_settings([run], ALONE[run.table_id])[0])
        unseen_scores.append(score)
    return unseen_scores


def added_error() -> dict[str, float]:
    """By table: how much farther off a row is without the table's share in the clocks."""
    return {name: max(more, 0.0) for name, more in held_out_error().items() if name not in ALONE}


def by_table(rows: Sequence[Row]) -> dict[str, list[Row]]:
    rows_of_table: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        rows_of_table[row.table].append(row)
    return rows_of_table


def quantile(values: Sequence[tuple[str, float]], share: float) -> float:
    """The value below which `share` of all tables' rows lie, a table counting once: (table, value) of each row."""
    count: dict[str, int] = defaultdict(int)
    for table, _ in values:
        count[table] += 1
    order = sorted(values, key=lambda item: item[1])
    reached = np.cumsum([1.0 / count[table] for table, _ in order]) / len(count)
    return order[min(int(np.searchsorted(reached, share)), len(order) - 1)][1]


def host(rows: Sequence[Row]) -> float:
    """Spread of the host's times, from the rows that are mostly launches."""
    return quantile([(row.table, row.missed / row.host) for row in rows if row.host > MOSTLY], SHARE) / HALF


def whole(rows: Sequence[Row]) -> float:
    """Spread of whole steps that no part explains."""
    return math.sqrt(max(quantile([(row.table, row.asks_for()) for row in rows], SHARE), 0.0))


def sigma(row: Row, step: float) -> float:
    return math.hypot(row.known, row.host, step)


def coverage(rows: Sequence[Row], sigma_of: Callable[[Row], float]) -> dict[str, float]:
    """Share of the rows in their band, over rows and as the mean over tables."""
    inside = [(row.table, float(row.missed <= HALF * sigma_of(row))) for row in rows]
    tables = {table: fmean(x for name, x in inside if name == table) for table, _ in inside}
    return {"rows": round(fmean(x for _, x in inside), 4), "tables": round(fmean(tables.values()), 4)}


def held_out(rows: Sequence[Row]) -> dict[str, float]:
    """:func:`coverage` of every table by what the other tables ask for."""
    without = {name: whole([row for row in rows if row.table != name]) for name in by_table(rows)}
    return coverage(rows, lambda row: sigma(row, without[row.table]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    curves = kernels()
    runs = [run for run in shipped_runs() if run.step_time_s is not None]
    cold = validate(runs)
    rows = rows_of(runs, unseen(runs, cold), added_error())
    for untouched in ("later", "classic"):
        more = [run for run in shipped_runs(untouched) if run.step_time_s is not None]
        rows += rows_of(more, validate(more), {})
    of_host = host(rows)
    rows = [replace(row, host=row.host * of_host) for row in rows]
    step, checked = {}, {}
    for kind in StepKind:
        mine = [row for row in rows if row.kind is kind]
        step[kind.value] = round(whole(mine), 4)
        checked[kind.value] = {"rows": len(mine), "tables": len(by_table(mine)), "held_out": held_out(mine)}
        print(f"{kind}: {step[kind.value]:.3f} beside the parts, {checked[kind.value]}")
    tasks = warm_tasks(runs, cold, PLAIN)
    taught = rows_of([run for run, _ in tasks], score_all(tasks), {})
    share = calibrated(step, of_host, taught)
    body = {
        "about": "Written by benchmarks/fit_residuals.py: standard deviations of logarithms; kernels: mean errors.",
        "kernels": curves,
        "host": round(of_host, 3),
        "step": step,
        "calibrated": round(share, 3),
        "checked": checked,
    }
    print(json.dumps(body, indent=1))
    if options.write:
        TARGET.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


def calibrated(step: Mapping[str, float], of_host: float, taught: Sequence[Row]) -> float:
    """What is left of the spread for rows of a table of which one run was seen."""
    now = residuals.calibrated_share()
    ratios = [
        (row.table, row.missed / HALF / math.hypot(row.known / now, row.host / now * of_host, step[row.kind]))
        for row in taught
    ]
    return quantile(ratios, SHARE)


if __name__ == "__main__":
    main()
