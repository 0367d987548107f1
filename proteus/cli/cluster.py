"""``proteus cluster``: what a topology file or a preset says."""

from __future__ import annotations

import argparse
from typing import Any

from proteus.cli.flags import add_cluster_flags
from proteus.cli.inputs import load_cluster
from proteus.cli.output import print_json


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "cluster",
        help="read a topology file and describe it",
        description="Read a topology file (NCCL XML, nvidia-smi topo -m, rocm-smi --showtopo) or a preset.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "cluster", nargs="+", metavar="FILE|NAME[:NODES]", help="a topology file of a real host, or a preset"
    )
    add_cluster_flags(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Carry the command out."""
    report = load_cluster(options).report()
    if options.json:
        print_json(report)
    else:
        print(as_text(report))
    return 0


def as_text(report: dict[str, Any]) -> str:
    """The report as lines for people.

    >>> print(as_text({"n_gpus": 2, "gpu": None, "pairs": {"0-1": "NV12"}, "nics": ["mlx5_0"],
    ...                "nearest_nic": {"0": ["mlx5_0"], "1": ["mlx5_0"]}, "numa": {"0": 0, "1": 0}, "warnings": []}))
    2 GPUs, of a kind the file does not name
    0-1 NV12
    GPU 0: NUMA node 0, nearest NIC mlx5_0
    GPU 1: NUMA node 0, nearest NIC mlx5_0
    """
    kind = report["gpu"] or "of a kind the file does not name"
    lines = [f"{report['n_gpus']} GPUs, {kind}"]
    by_kind: dict[str, list[str]] = {}
    for pair, link in report["pairs"].items():
        by_kind.setdefault(str(link), []).append(pair)
    lines += [f"{' '.join(pairs)} {link}" for link, pairs in by_kind.items()]
    for gpu in sorted({*report["numa"], *report["nearest_nic"]}, key=lambda name: (len(str(name)), str(name))):
        facts = []
        if report["numa"].get(gpu) is not None:
            facts.append(f"NUMA node {report['numa'][gpu]}")
        if report["nearest_nic"].get(gpu):
            facts.append(f"nearest NIC {' '.join(report['nearest_nic'][gpu])}")
        if facts:
            lines.append(f"GPU {gpu}: {', '.join(facts)}")
    return "\n".join(lines + [f"warning: {warning}" for warning in report["warnings"]])
