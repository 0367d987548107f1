"""``proteus verify``: does a strategy train like the undivided model?"""

from __future__ import annotations

import argparse
from typing import Any

from proteus.cli.flags import add_strategy_flags
from proteus.cli.inputs import load_cluster, load_tree
from proteus.cli.output import announce, print_json

EXIT_DIFFERS = 1


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "verify",
        help="execute a strategy with real numbers and compare it with the unsharded model",
        description="Run a compiled strategy with real numbers on the CPU, every rank with its own shards, and compare "
        "loss, gradients and updated parameters with the undivided model. Exit code 1 when they differ.",
        allow_abbrev=False,
    )
    add_strategy_flags(parser, needs_cluster=False)
    group = parser.add_argument_group("verification")
    group.add_argument(
        "--seed", type=int, default=0, metavar="N", help="random seed of parameters and data (default 0)"
    )
    group.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Carry the command out."""
    from proteus.htae.engine import warm_up
    from proteus.verify import verify

    cluster = load_cluster(options) if options.cluster else None
    tree = load_tree(options)
    warm_up(announce)
    verification = verify(tree, cluster, options.seed)
    if options.json:
        print_json(verification.to_dict())
    else:
        print(verification)
    return 0 if verification.equal else EXIT_DIFFERS
