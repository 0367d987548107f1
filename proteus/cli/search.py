"""``proteus search``: the fastest strategies for a model on a cluster."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from proteus.cli.flags import add_cluster_flag, add_cluster_flags, add_model_flags, positive, words
from proteus.cli.inputs import load_cluster, load_model
from proteus.cli.output import announce, print_json


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "search",
        help="find the fastest strategies for a model on a cluster",
        description="Simulate the strategies that fit and rank them by step time.",
        allow_abbrev=False,
    )
    inputs = parser.add_argument_group("model and cluster")
    add_model_flags(inputs, needed=True)
    inputs.add_argument("--seq", type=positive, metavar="N", help="sequence length in tokens")
    add_cluster_flag(inputs)
    add_cluster_flags(inputs)
    inputs.add_argument("--global-batch", required=True, type=positive, metavar="N", help="samples per step")
    group = parser.add_argument_group("search")
    group.add_argument("--top", type=positive, default=10, metavar="N", help="how many to print (default 10)")
    group.add_argument(
        "--schedules",
        type=words,
        default=None,
        metavar="NAME,...",
        help="pipeline schedules to try (default 1f1b,interleaved)",
    )
    group.add_argument("--precision", default="bf16", metavar="NAME", help="compute precision (default bf16)")
    group.add_argument("--framework", metavar="NAME[@VERSION]|FILE", help="training framework (default megatron-core)")
    group.add_argument(
        "--budget", type=positive, default=None, metavar="N", help="maximum number of shapes to simulate (default 256)"
    )
    group.add_argument("--workers", type=positive, metavar="N", help="processes (default: one per core)")
    group.add_argument("--dask", metavar="ADDRESS", help="search on the Dask cluster of this scheduler instead")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Carry the command out."""
    from proteus.htae.engine import warm_up
    from proteus.search.run import DEFAULT_BUDGET, DEFAULT_SCHEDULES, search

    model, cluster = load_model(options), load_cluster(options)
    warm_up(announce)
    is_watched = sys.stderr.isatty()

    def progress(done: int, todo: int) -> None:
        print(f"\rproteus: {done} of {todo} shapes", end="\n" if done == todo else "", file=sys.stderr, flush=True)

    outcome = search(
        model,
        cluster,
        global_batch=options.global_batch,
        top=options.top,
        schedules=options.schedules or DEFAULT_SCHEDULES,
        precision=options.precision,
        framework=options.framework,
        budget=options.budget or DEFAULT_BUDGET,
        workers=options.workers or os.cpu_count() or 1,
        dask=options.dask,
        progress=progress if is_watched else None,
    )
    if options.json:
        print_json({"model": model.name, "cluster": cluster.name, "devices": cluster.num_devices, **outcome.to_dict()})
    else:
        print(outcome)
    return 0
