"""``proteus lab``: JupyterLab on the tutorial notebooks."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import proteus
from proteus.cli.output import announce
from proteus.errors import InputError, needs_extra

FIRST = "01-first-strategy.ipynb"
COPY = "proteus-notebooks"


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "lab",
        help="open the tutorial notebooks in JupyterLab",
        description="Open the tutorial notebooks in JupyterLab.",
        allow_abbrev=False,
    )
    parser.add_argument("--no-browser", action="store_true", help="only start the server and print its address")
    parser.add_argument("--port", type=int, help="port of the server (default 8888 or the next free one)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Become the JupyterLab server."""
    with needs_extra("lab", "proteus lab"):
        import proteus_widgets  # noqa: F401  # the notebooks do, and would fail in the browser

        if find_spec("jupyterlab") is None:
            raise ModuleNotFoundError("no JupyterLab", name="jupyterlab")
    from proteus.htae.engine import warm_up

    notebooks = tutorial_folder()
    warm_up(announce)
    announce(f"starting JupyterLab on {notebooks / FIRST}")
    # The notebook as the default page, and not as an argument: so the printed address leads to it as well.
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={notebooks}"]
    command.append(f"--LabApp.default_url=/lab/tree/{FIRST}")
    if options.no_browser:
        command.append("--no-browser")
    if options.port:
        command.append(f"--ServerApp.port={options.port}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # in a container there is no other user
    os.execv(sys.executable, command)


def tutorial_folder() -> Path:
    """Where the user works on the tutorials: the checkout's own, or a copy of the installed ones."""
    package = Path(proteus.__file__).parent
    checkout = package.parent / "notebooks"
    if (checkout / FIRST).is_file():
        return checkout
    installed, copy = package / "notebooks", Path.cwd() / COPY
    if not (installed / FIRST).is_file():
        raise InputError(f"no tutorial notebooks at {checkout} or {installed}; install Proteus again")
    if not copy.exists():
        shutil.copytree(installed, copy)
    return copy
