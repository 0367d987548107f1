"""``proteus trace``: where the time of a measured run went."""

from __future__ import annotations

import argparse
from typing import Any

from proteus.cli.output import print_json


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "trace",
        help="where the time of a measured run went",
        description="Read traces of the PyTorch profiler (.json, .json.gz), exports of Nsight Systems (.sqlite) or "
        "Chakra execution traces with times (.et), and say per rank and per step what was computed, communicated, "
        "hidden and idle.",
        allow_abbrev=False,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a trace per rank, or folders of them")
    parser.add_argument("--no-align", action="store_true", help="leave the clocks of the ranks as they are")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Carry the command out."""
    from proteus.traces import read_trace

    measured = read_trace(options.files, align=not options.no_align)
    if options.json:
        print_json(measured.to_dict())
    else:
        print(measured)
    return 0
