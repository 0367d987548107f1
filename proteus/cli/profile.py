"""``proteus profile``: how fast this machine itself is at what a strategy needs."""

from __future__ import annotations

import argparse
from typing import Any

from proteus.cli.flags import add_strategy_flags, positive
from proteus.cli.inputs import load_tree
from proteus.cli.output import announce, print_json
from proteus.errors import InputError


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "profile",
        help="measure the ops and collectives of a strategy on this machine",
        description="Run the ops and collectives of a strategy on this machine, in one process per device (a GPU with "
        "CUDA, else a share of the CPU), and save their times; `proteus simulate --cluster FILE` predicts from them.",
        allow_abbrev=False,
    )
    add_strategy_flags(parser, needs_cluster=False)
    group = parser.add_argument_group("measurement")
    group.add_argument("--out", required=True, metavar="FILE.json", help="file for the measurements")
    group.add_argument("--backend", choices=("gloo", "nccl"), help="default: nccl where there are enough GPUs")
    group.add_argument("--threads", type=positive, metavar="N", help="threads of each process on a CPU")
    group.add_argument(
        "--budget", type=float, default=0.2, metavar="SECONDS", help="time per measurement (default 0.2)"
    )
    group.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Carry the command out."""
    from proteus.htae.engine import warm_up
    from proteus.profiling import profile

    if options.cluster:
        raise InputError("--cluster: profile measures this machine; drop the flag")
    if not options.out.endswith(".json"):
        raise InputError(f"--out {options.out}: name a file that ends in .json")
    if not 0 < options.budget <= 60:
        raise InputError(f"--budget {options.budget:g}: seconds for each measurement, above 0 and at most 60")
    tree = load_tree(options)
    warm_up(announce)
    announce(f"measuring in {tree.num_devices} processes ...")
    machine = profile(tree, backend=options.backend, threads=options.threads, budget_s=options.budget)
    machine.save(options.out)
    if options.json:
        print_json(machine.summary())
    else:
        print(machine)
        for name, value in machine.summary().items():
            print(f"  {name:<28} {value:.4g}" if isinstance(value, float) else f"  {name:<28} {value}")
    return 0
