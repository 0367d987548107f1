"""``proteus validate``: predictions beside published runs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from proteus.cli.flags import positive
from proteus.cli.output import announce, print_json

if TYPE_CHECKING:
    from proteus.validation.runs import Run


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "validate",
        help="compare predictions with measured runs",
        description="Compare predictions with the measured runs of a table; without a file, those that Proteus ships.",
        allow_abbrev=False,
    )
    parser.add_argument("file", nargs="?", metavar="FILE.csv", help="a table of runs (.csv or .csv.gz)")
    parser.add_argument("--later", action="store_true", help="the shipped runs collected after the constants were set")
    parser.add_argument("--table", action="append", metavar="NAME", help="only this source table (may be repeated)")
    parser.add_argument(
        "--warm", type=int, choices=(0, 1), default=0, metavar="1", help="fit three constants to one run of each table"
    )
    parser.add_argument("--workers", type=positive, metavar="N", help="processes (default: one per core)")
    parser.add_argument(
        "--worst", type=positive, default=10, metavar="N", help="number of worst rows to print (default 10)"
    )
    group = parser.add_argument_group("ablation")
    group.add_argument("--no-sharing", action="store_true", help="give every flow the full bandwidth of its links")
    group.add_argument(
        "--no-overlap", action="store_true", help="overlapping compute and communication do not slow each other down"
    )
    group.add_argument(
        "--analytic", action="store_true", help="a fixed share of peak rates instead of a simulation (Paleo)"
    )
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="one JSON object on stdout")
    group.add_argument(
        "--commands", action="store_true", help="print the `proteus simulate` command of every row that is scored"
    )
    group.add_argument(
        "--report",
        metavar="FILE.md",
        help="write the accuracy page: cold, warm, ablation and plots of the shipped runs",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Carry the command out."""
    from proteus.htae.engine import warm_up
    from proteus.validation.evidence import gather
    from proteus.validation.report import text_report
    from proteus.validation.score import Options
    from proteus.validation.validate import answer, validate
    from proteus.validation.warm import warm_scores

    runs = load_runs(options)
    if options.commands:
        return print_commands(runs, as_json=options.json)
    warm_up(announce)
    if options.report:
        from proteus.validation.document import write

        write(gather(runs, workers=options.workers, tell=announce), options.report)
        return 0
    settings = Options(sharing=not options.no_sharing, overlap=not options.no_overlap, analytic=options.analytic)
    scores = validate(runs, settings, workers=options.workers)
    if options.warm:
        scores = warm_scores(runs, scores, settings, workers=options.workers)
    if options.json:
        print_json(answer(scores))
    else:
        print(text_report(scores, worst=options.worst))
    return 0


def print_commands(runs: tuple[Run, ...], *, as_json: bool) -> int:
    """Print how anybody asks the same of ``proteus simulate``; a row without a question says why on stderr."""
    import sys

    from proteus.validation.score import command_of

    commands = [(run.id, *command_of(run)) for run in runs]
    if as_json:
        print_json([{"id": name, "command": command, "reason": reason} for name, command, reason in commands])
        return 0
    for name, command, reason in commands:
        if command is None:
            print(f"proteus: {name}: {reason}", file=sys.stderr)
        else:
            print(command)
    return 0


def load_runs(options: argparse.Namespace) -> tuple[Run, ...]:
    """The runs of the file, or those that Proteus ships; only the tables asked for."""
    from proteus.errors import InputError, unknown
    from proteus.validation.runs import read_runs, shipped_runs

    if options.file and options.later:
        raise InputError("--later names runs that Proteus ships; leave FILE.csv or --later out")
    runs = read_runs(options.file) if options.file else shipped_runs("later" if options.later else "llm")
    if options.table:
        known = dict.fromkeys(run.table_id for run in runs)
        for name in options.table:
            if name not in known:
                raise InputError(unknown("source table", name, known))
        runs = tuple(run for run in runs if run.table_id in options.table)
    return runs
