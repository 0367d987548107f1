"""``proteus launch``: what a launch file of a training framework says."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from proteus.cli.flags import positive
from proteus.cli.output import print_json

if TYPE_CHECKING:
    from proteus.launch import Launch


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "launch",
        help="read a launch file of a training framework",
        description="Read a launch file: its model, its plan, what was assumed, not used and is still needed.",
        allow_abbrev=False,
    )
    parser.add_argument("file", metavar="FILE", help="a Megatron script, a DeepSpeed JSON, a torchtitan TOML, ...")
    parser.add_argument("--world-size", type=positive, metavar="N", help="ranks of the run; the file's unless given")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Carry the command out."""
    from proteus.launch import read

    launch = read(options.file, world_size=options.world_size)
    if options.json:
        print_json(launch.to_dict())
    else:
        print(as_text(launch))
    return 0


def as_text(launch: Launch) -> str:
    """The launch for people."""
    said = launch.to_dict()
    model = launch.model or (said["model"] and ", ".join(f"{k}={v}" for k, v in said["model"].items() if v is not None))
    lines = [f"framework  {launch.framework}", f"model      {model or 'not in the file'}", f"plan       {launch.plan}"]
    with_reason = [unused for unused in launch.not_understood if not unused.why.startswith("no effect")]
    for title, rows in (("assumed", launch.assumed), ("not used", with_reason), ("needs", launch.needs)):
        lines += [f"{title}:", *(f"  {row}" for row in rows)] if rows else []
    without_effect = len(launch.not_understood) - len(with_reason)
    return "\n".join([*lines, f"{without_effect} more keys have no effect on the time or memory of a step"])
