"""The argument parser of all commands; imports nothing heavy, so that help and mistakes answer at once."""

from __future__ import annotations

import argparse
from typing import NoReturn

from proteus.cli import bench, cluster, lab, launch, profile, search, simulate, trace, validate, verify
from proteus.cli import list as list_names

COMMANDS = (simulate, search, launch, verify, cluster, list_names, profile, trace, validate, bench, lab)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line and exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def build_parser() -> Parser:
    """The parser of ``proteus`` with one subparser per command."""
    parser = Parser(
        prog="proteus",
        description="Simulate distributed training: how long a step takes, whether it fits, and why.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_to(commands)
    return parser


class Version(argparse.Action):
    """Print the installed version; looked up only when asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print(f"proteus {version('proteus-sim')}")
        parser.exit(0)
