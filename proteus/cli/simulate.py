"""``proteus simulate``: one strategy on one cluster."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from proteus.cli.flags import add_strategy_flags
from proteus.cli.inputs import load_calibration, load_cluster, load_tree
from proteus.cli.output import announce, print_json
from proteus.files import atomic_write

if TYPE_CHECKING:
    from proteus.result.result import Result


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "simulate", help="simulate a training step", description="Simulate a training step.", allow_abbrev=False
    )
    add_strategy_flags(parser)
    group = parser.add_argument_group("simulation")
    group.add_argument("--no-sharing", action="store_true", help="give every flow the full bandwidth of its links")
    group.add_argument("--calibration", metavar="FILE.json", help="times measured by `proteus profile`")
    group.add_argument(
        "--no-overlap", action="store_true", help="overlapping compute and communication do not slow each other down"
    )
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="one JSON object on stdout")
    group.add_argument("--explain", action="store_true", help="also print where the step time goes")
    group.add_argument("--trace", metavar="FILE", help="write a Chrome trace (.json or .json.gz) that Perfetto opens")
    group.add_argument("--html", metavar="FILE", help="write a report that opens offline in a browser")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Carry the command out."""
    import proteus as pt
    from proteus.htae.engine import warm_up

    cluster = load_cluster(options)
    tree = load_tree(options, cluster)
    warm_up(announce)
    calibration = load_calibration(options)
    result = pt.simulate(
        tree, cluster, sharing=not options.no_sharing, overlap=not options.no_overlap, calibration=calibration
    )
    if options.trace is not None:
        with atomic_write(options.trace) as temporary:
            result.to_chrome_trace(temporary)
    if options.html is not None:
        with atomic_write(options.html) as temporary:
            result.to_html(temporary)
    if options.json:
        print_json(summary(result))
    else:
        print(result)
        if options.explain:
            print(result.explain())
    return 0


def summary(result: Result) -> dict[str, Any]:
    """The numbers of a result that scripts read; documented in docs/cli.md."""
    numbers = result.to_dict()
    if numbers.get("tokens_per_s") is None:  # the model has no sequence
        numbers.pop("tokens_per_s", None)
    return {
        "model": result.model.name,
        "cluster": result.cluster.name,
        "devices": result.num_devices,
        **numbers,
        "timings": result.timings,
    }
