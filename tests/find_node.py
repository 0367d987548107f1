"""Find Node.js and npm for the checks of the JavaScript, or install them.

``python -m tests.find_node --install`` prints the version, installing Debian's
packages if there is none and we are root on Debian.  Where none is new enough
it exits 1 with one line.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tests.find_browser import apt_install, is_debian

#: program and the Debian package that brings it
PACKAGES = {"node": "nodejs", "npm": "npm"}
#: oldest version that eslint starts with; widgets/package.json says the same
MIN_VERSION = (20, 19)
ADVICE = (
    f"the checks of the JavaScript need Node.js {'.'.join(map(str, MIN_VERSION))} or newer and npm:"
    " install both (nodejs.org, or your system's packages nodejs and npm)"
)


def version(program: str) -> tuple[int, ...] | None:
    """Version of a program on the PATH, or None: ``v20.19.2`` and ``9.2.0`` are two forms of it."""
    path = shutil.which(program)
    if path is None:
        return None
    run = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    parts = run.stdout.strip().removeprefix("v").split(".")
    return tuple(map(int, parts)) if run.returncode == 0 and all(part.isdigit() for part in parts) else None


def missing() -> str:
    """What is missing, as one line; empty when nothing is."""
    node, npm = version("node"), version("npm")
    if node is not None and node >= MIN_VERSION and npm is not None:
        return ""
    present = [f"{name} {_dotted(at)}" if at else f"no {name}" for name, at in (("node", node), ("npm", npm))]
    return f"{ADVICE} (found: {', '.join(present)})"


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def install() -> None:
    """Install what is missing where that takes no question, the output on stderr only."""
    if is_debian() and os.geteuid() == 0:
        apt_install("Node.js for the checks", *[PACKAGES[name] for name in PACKAGES if version(name) is None])


def main() -> int:
    if missing() and "--install" in sys.argv[1:]:
        install()
    if message := missing():
        print(message, file=sys.stderr)
        return 1
    print(f"Node.js for the checks: {_dotted(version('node') or ())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
