"""docs/accuracy.md, written from scores: tables, plots, which targets are missed and why."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from proteus.costs import residuals
from proteus.files import atomic_write
from proteus.validation import kernels
from proteus.validation.metrics import Summary, by_table, one_scale_error, summarize
from proteus.validation.plots import scatter
from proteus.validation.report import percent, worst_line
from proteus.validation.runs import Run
from proteus.validation.score import NOT_EXPRESSIBLE, Score
from proteus.validation.validate import mean_table_coverage, mean_table_error

#: numbers that this project wants to reach: (what, cold, warm)
TARGETS = (
    ("step time, median over rows", "8 %", "3 %"),
    ("step time, mean over tables of their mean", "12 %", "5 %"),
    ("Kendall tau, mean over tables that vary the strategy", "0.90", "0.93"),
    ("verdict on memory", "97 %", ""),
    ("peak memory where exact, median", "5 %", ""),
    ("measured step time in the band, mean over tables", "80 %", "80 %"),
)
#: tables that vary the strategy of one model on one cluster, where the order of the rows means something
STRATEGY_TABLES = ("aleph", "zero_bubble", "mlm_sc21")
#: what a line about a table says (`_cells`)
HEADER = (
    "table",
    "rows",
    "n/e",
    "median",
    "mean",
    "bias",
    "in band",
    "tau",
    "verdicts",
    "missed",
    "false",
    "memory",
)
TEXT = Path(__file__).with_name("data") / "accuracy_notes.md"
HELD_OUT = Path(__file__).with_name("data") / "held_out.json"
FIRST = Path(__file__).with_name("data") / "later_first.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that the page shows.

    Parameters
    ----------
    later_runs, later, later_warm
        The runs that were collected when everything had been fitted, and their scores.
    ablation
        Name of a variant → its scores of the same runs.
    ladders
        Id of a bad row → where its predicted time goes.
    """

    runs: Sequence[Run]
    cold: Sequence[Score]
    warm: Sequence[Score]
    later_runs: Sequence[Run]
    later: Sequence[Score]
    later_warm: Sequence[Score]
    classic: Sequence[Score]
    ablation: Mapping[str, Sequence[Score]]
    ladders: Mapping[str, str]


def write(evidence: Evidence, path: str | Path) -> None:
    """Write the page and its plots (in a folder of the page's name)."""
    target = Path(path)
    folder = target.with_suffix("")
    folder.mkdir(exist_ok=True)
    for name, text in plots(evidence).items():
        with atomic_write(folder / f"{name}.svg") as temporary:
            temporary.write_text(text, encoding="utf-8")
    with atomic_write(target) as temporary:
        temporary.write_text(page(evidence, folder.name), encoding="utf-8")


def plots(evidence: Evidence) -> dict[str, str]:
    """Name of a plot → SVG: language models cold and warm, those collected later, benchmarks."""
    made = {
        "cold": scatter("Step time, cold", by_family(evidence.runs, evidence.cold)),
        "warm": scatter("Step time, one run of the table seen", by_family(evidence.runs, evidence.warm)),
    }
    if evidence.later:
        made["later"] = scatter(
            "Step time of runs collected later, cold", by_family(evidence.later_runs, evidence.later)
        )
    if evidence.classic:
        tables = by_table(evidence.classic)
        largest = sorted(tables, key=lambda name: -summarize(tables[name]).timed)[:6]
        made["classic"] = scatter("Step time of benchmarks, cold", [(name, tables[name]) for name in largest])
    return made


def by_family(runs: Sequence[Run], scores: Sequence[Score]) -> list[tuple[str, list[Score]]]:
    """The scores of the six frameworks with the most runs, and of all others."""
    family = {run.id: family_of(run) for run in runs}
    names = [name for name, _ in Counter(family.values()).most_common(6)]
    groups = [(name, [s for s in scores if family.get(s.id) == name]) for name in names]
    return [*groups, ("others", [s for s in scores if family.get(s.id) not in names])]


def family_of(run: Run) -> str:
    """The name under which a plot shows a run: its framework without brackets."""
    return run.framework.partition("(")[0].strip() or "not stated"


def page(evidence: Evidence, folder: str) -> str:
    """The page as Markdown."""
    cold, warm = evidence.cold, evidence.warm
    parts = [
        "# Accuracy",
        "Written by `proteus validate --report docs/accuracy.md`; every number is from that run. "
        f"{len(evidence.runs)} published runs from {len(by_table(cold))} tables, "
        "each predicted from its configuration alone.",
        _overall(cold, warm),
        *_first_met(evidence),
        f"![predicted against measured, cold]({folder}/cold.svg)",
        f"![predicted against measured, one run seen]({folder}/warm.svg)",
        "## By source table",
        "`n/e`: not expressible. `bias`: median signed error. `in band`: rows whose measured step time lies in the "
        "predicted band. `tau`: Kendall's tau of the throughput per GPU. "
        "`verdicts`: correct verdicts, fits or out of memory. `held out`: mean error with the whole-step constants "
        "(below) fitted without this table. `warm`: mean error of the other rows after one run was seen. "
        "`one scale`: mean error after scaling the whole table by the best single factor, that is, the error that no "
        "constant of the machine's speed can remove.",
        _tables(cold, warm),
        *_later(evidence, folder),
        "## The band of a prediction",
        _band(),
        "## What each behaviour is worth",
        _ablation(cold, evidence.ablation),
        _notes(),
        "## Kernels, scored on sources that the curves never saw",
        _kernels(),
        "## What could not be scored",
        _reasons(cold),
        "## Worst rows",
        _worst(cold, evidence.ladders),
        "## What was assumed",
        _assumed(cold),
    ]
    if evidence.classic:
        parts += ["## Benchmarks of named models", _classic(evidence.classic), f"![benchmarks]({folder}/classic.svg)"]
    return "\n\n".join(parts) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, numbers to the right.

    >>> print(table(("a", "b"), [("x", "1")]))
    | a | b |
    |:--|--:|
    | x | 1 |
    """
    assert all(len(row) == len(header) for row in rows), (header, rows)
    lines = [" | ".join(header), "|".join([":--", *["--:"] * (len(header) - 1)])]
    lines += [" | ".join(row) for row in rows]
    return "\n".join(f"|{line}|" if number == 1 else f"| {line} |" for number, line in enumerate(lines))


def mean_tau(scores: Sequence[Score]) -> float | None:
    """Mean of the taus of the tables that vary the strategy."""
    taus = [
        tau
        for name, rows in by_table(scores).items()
        if name.startswith(STRATEGY_TABLES) and (tau := summarize(rows).tau) is not None
    ]
    return sum(taus) / len(taus) if taus else None


def _overall(cold: Sequence[Score], warm: Sequence[Score]) -> str:
    def numbers(scores: Sequence[Score]) -> list[str]:
        total = summarize(scores)
        tables = [summarize(rows) for rows in by_table(scores).values()]
        tau = mean_tau(scores)
        right = total.right_verdicts / total.verdicts if total.verdicts else None
        return [
            percent(total.median_error),
            percent(mean_table_error(tables)),
            "-" if tau is None else f"{tau:.2f}",
            percent(right),
            percent(total.memory_error),
            percent(mean_table_coverage(tables)),
        ]

    rows = [
        (label, got, want, got_warm if want_warm else "", want_warm)
        for (label, want, want_warm), got, got_warm in zip(TARGETS, numbers(cold), numbers(warm), strict=True)
    ]
    return table(("", "cold", "target", "warm", "target"), rows)


def _tables(cold: Sequence[Score], warm: Sequence[Score]) -> str:
    after = {name: summarize(rows) for name, rows in by_table(warm).items()}
    added = held_out()
    rows, held, scaled = [], [], []
    for name, scores in by_table(cold).items():
        s = summarize(scores)
        warmed = after.get(name)
        without = None if s.mean_error is None or name not in added else s.mean_error + added[name]
        spread = one_scale_error(scores)
        held += [] if without is None else [without]
        scaled += [] if spread is None else [spread]
        more = (without, warmed.mean_error if warmed else None, spread)
        rows.append((*_cells(name, s), *(percent(error) for error in more)))
    means = [percent(fmean(errors)) if errors else "-" for errors in (held, scaled)]
    rest = ("held out", "warm", "one scale")
    text = table((*HEADER, *rest), rows)
    return f"{text}\n\nMean over tables: held out {means[0]}, one scale {means[1]}."


def held_out() -> dict[str, float]:
    """What leaving a table out of the constants adds to its mean error; ``benchmarks/leave_one_table_out.py``."""
    added: dict[str, float] = json.loads(HELD_OUT.read_text(encoding="utf-8"))["added"]
    return added


def first_met_error() -> float:
    """Mean over the tables collected later of their mean error as they were first met."""
    first = json.loads(FIRST.read_text(encoding="utf-8"))["tables"].values()
    return fmean(error for then in first if (error := then["mean_error"]) is not None)


def _first_met(evidence: Evidence) -> list[str]:
    """The error on tables when first met, beside the error after the problems that they showed were mended."""
    if not evidence.later:
        return []
    now = mean_table_error(summarize(rows) for rows in by_table(evidence.later).values())
    return [
        f"Tables that were collected later had a mean error of {percent(first_met_error())} when they were first met, "
        f"and have {percent(now)} after mending what they showed to be wrong. Expect the first number for a run that "
        "has not been compared before."
    ]


def _later(evidence: Evidence, folder: str) -> list[str]:
    """The tables that no constant was fitted to, as they were first met and now."""
    if not evidence.later:
        return []
    first: dict[str, dict[str, float | None]] = json.loads(FIRST.read_text(encoding="utf-8"))["tables"]
    after = {name: summarize(found) for name, found in by_table(evidence.later_warm).items()}
    rows, tables = [], []
    for name, found in by_table(evidence.later).items():
        s = summarize(found)
        tables.append(s)
        then = first.get(name, {})
        warm = after[name].mean_error if name in after else None
        more = (warm, then.get("mean_error"), then.get("coverage"))
        rows.append((*_cells(name, s), *(percent(share) for share in more)))
    text = (
        f"{len(evidence.later)} more runs, from {len(tables)} tables, were collected after every constant was set; "
        "no constant of a cold prediction was fitted to them, only the band and the weight of one run in warm "
        "predictions. `first` is the prediction when they were first met (mean error, share in the band). Then the "
        "problems that they showed were mended: models and settings that were not understood, and missing effects."
    )
    means = [percent(mean_table_error(found)) for found in (tables, after.values())]
    sentence = (
        f"Mean over tables of their mean error: {percent(first_met_error())} when first met, {means[0]} now, "
        f"{means[1]} after one run was seen; median over rows {percent(summarize(evidence.later).median_error)}."
    )
    picture = f"![predicted against measured, runs collected later]({folder}/later.svg)"
    lines = table((*HEADER, "warm", "first", "first in band"), rows)
    return ["## Tables collected later", text, sentence, picture, lines]


def _cells(name: str, s: Summary) -> tuple[str, ...]:
    bias = "-" if s.bias is None else f"{100 * s.bias:+.1f}%"
    tau = "-" if s.tau is None else f"{s.tau:.2f}"
    return (
        name,
        str(s.rows),
        str(s.not_expressible),
        percent(s.median_error),
        percent(s.mean_error),
        bias,
        percent(s.coverage),
        tau,
        f"{s.right_verdicts}/{s.verdicts}",
        str(s.missed_oom),
        str(s.false_oom),
        percent(s.memory_error),
    )


def _band() -> str:
    """The parts of the band, and how often it holds for tables left out of the fit."""
    data = residuals.table()
    rows = [
        (
            kind,
            str(found["rows"]),
            str(found["tables"]),
            percent(data["step"][kind]),
            percent(found["held_out"]["rows"]),
            percent(found["held_out"]["tables"]),
        )
        for kind, found in data["checked"].items()
    ]
    header = ("steps of", "rows", "tables", "whole-step error", "in band, per row", "per table")
    text = (
        "`Result.step_time_band` is the range expected to hold 80 % of measured step times. It combines the errors of "
        "kernels and collectives on sources left out of their fits, weighted by their time on the critical path, "
        "with the whole-step error that these do not explain (`benchmarks/fit_residuals.py`). In this table, both "
        "the whole-step error and the whole-step constants come from all other tables. With the table's own share, "
        "as in the tables above, the band holds more often:"
    )
    after = (
        f"The error of a host-bound step is {percent(data['host'])} (standard deviation). "
        f"Once one run of a machine is seen, the band is {data['calibrated']:.2f} times as wide. Two predictions share "
        "most of their errors, so overlapping bands do not make two strategies equal."
    )
    return "\n\n".join([text, table(header, rows), after])


def _ablation(cold: Sequence[Score], ablation: Mapping[str, Sequence[Score]]) -> str:
    rows = []
    for name, scores in {"all on": cold, **ablation}.items():
        s = summarize(scores)
        tables = [summarize(table_scores) for table_scores in by_table(scores).values()]
        tau = mean_tau(scores)
        bias = "-" if s.bias is None else f"{100 * s.bias:+.1f}%"
        rows.append(
            (
                name,
                percent(s.median_error),
                percent(mean_table_error(tables)),
                bias,
                "-" if tau is None else f"{tau:.2f}",
            )
        )
    return table(("the same rows with", "median", "mean over tables", "bias", "tau"), rows)


def _notes() -> str:
    return TEXT.read_text(encoding="utf-8").strip()


def _kernels() -> str:
    families, sources, agree = kernels.tables()
    by_family = ("", "rows", "same chip, per row", "per source", "all, per row", "per source", "target")
    by_source = ("family", "chip", "dtype", "source", "against", "rows", "error", "bias", "harness, µs")
    shared = ("same shapes", "chip", "dtype", "one source", "other source", "rows", "factor", "spread beyond it")
    return "\n\n".join([table(by_family, families), kernels.notes(), table(by_source, sources), table(shared, agree)])


def _reasons(scores: Sequence[Score]) -> str:
    reasons = Counter((row.status, row.reason) for row in scores if row.reason)
    return table(("reason", "status", "rows"), [(r, s, str(n)) for (s, r), n in reasons.most_common()])


def _worst(scores: Sequence[Score], ladders: Mapping[str, str]) -> str:
    lines = []
    for row in scores:
        if row.id in ladders:
            lines.append(f"- {worst_line(row)}  \n  {ladders[row.id]}")
    return "\n".join(lines)


def _assumed(scores: Sequence[Score]) -> str:
    counted = Counter(text for row in scores if row.status != NOT_EXPRESSIBLE for text in row.assumed)
    return table(("if a run does not say", "rows"), [(text, str(n)) for text, n in counted.most_common(40)])


def _classic(scores: Sequence[Score]) -> str:
    tables = {name: summarize(rows) for name, rows in by_table(scores).items()}
    rows = [
        (name, str(s.rows), str(s.timed), percent(s.median_error), percent(s.mean_error))
        for name, s in tables.items()
        if s.timed
    ]
    skipped = sum(s.rows for s in tables.values() if not s.timed)
    text = table(("source and model", "rows", "timed", "median", "mean"), rows)
    return f"{text}\n\n{skipped} rows are for models that are not built in, or state no time per step."
