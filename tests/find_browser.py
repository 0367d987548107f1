"""Find a Chromium for the browser tests, or install one.

``python -m tests.find_browser --install`` prints its path, installing one if
there is none: Debian's package where we are root on Debian, Playwright's own
download elsewhere.  Without a browser it exits 1 with one line.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC_APPS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
ADVICE = (
    "no Chromium for the browser tests: install chromium or google-chrome, run `.venv/bin/playwright install chromium`,"
    " or set BROWSER_PATH to one"
)


def find() -> str | None:
    """Path of a browser that starts, or None."""
    return next((path for path in candidates() if path and starts(path)), None)


def candidates() -> Iterator[str | None]:
    """Where a browser may be, the user's choice first."""
    yield os.environ.get("BROWSER_PATH")
    yield from map(shutil.which, NAMES)
    yield from MAC_APPS
    yield playwrights_own()


def starts(path: str) -> bool:
    """Whether the browser runs at all: some packages of that name only point to an app store."""
    try:
        run = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return run.returncode == 0 and "Chrom" in run.stdout


def playwrights_own() -> str:
    """Where Playwright keeps its own Chromium, whether or not it was downloaded."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        return playwright.chromium.executable_path


def install() -> None:
    """Install a browser, its output on stderr only."""
    if is_debian() and os.geteuid() == 0:
        apt_install("a browser for the tests", "chromium", "fonts-dejavu-core")
    else:
        run_installers("a browser for the tests", [sys.executable, "-m", "playwright", "install", "chromium"])


def apt_install(purpose: str, *packages: str) -> None:
    """Install Debian packages, without what they only recommend."""
    run_installers(
        purpose,
        ["apt-get", "update", "-q"],
        ["apt-get", "install", "-q", "-y", "--no-install-recommends", *packages],
    )


def run_installers(purpose: str, *commands: list[str]) -> None:
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    for command in commands:
        print(f"Installing {purpose}: {' '.join(command)}", file=sys.stderr)
        run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if run.returncode:
            print(run.stdout.decode(errors="replace")[-2000:], file=sys.stderr)


def is_debian() -> bool:
    release = Path("/etc/os-release")
    return release.exists() and "ID=debian" in release.read_text().splitlines()


def main() -> int:
    path = find()
    if path is None and "--install" in sys.argv[1:]:
        install()
        path = find()
    if path is None:
        print(ADVICE, file=sys.stderr)
        return 1
    print(f"Browser for the tests: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
