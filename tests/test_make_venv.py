"""The environment is made by the first Python that is new enough, and made once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "tools" / "make_venv.sh"


def make_venv(venv: Path, path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(SCRIPT), str(venv)],
        env={"PATH": str(path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A PATH of our own with an old python3 on it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    old = folder / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.8.10 && exit 0\nexit 1\n')
    old.chmod(0o755)
    return folder


def test_too_old_is_one_line(programs: Path, tmp_path: Path) -> None:
    run = make_venv(tmp_path / "venv", programs)
    assert run.returncode == 1 and run.stdout == ""
    assert run.stderr.count("\n") == 1
    assert "needs Python 3.11 or newer (found: Python 3.8.10)" in run.stderr
    assert not (tmp_path / "venv").exists()


def test_a_newer_one_is_found_beside_the_old(programs: Path, tmp_path: Path) -> None:
    (programs / "python3.12").symlink_to(fake_new(programs))
    run = make_venv(tmp_path / "venv", programs)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "venv" / "bin" / "python").exists()


def test_the_users_choice_comes_first(programs: Path, tmp_path: Path) -> None:
    run = make_venv(tmp_path / "venv", programs, PYTHON=str(fake_new(programs)))
    assert run.returncode == 0 and "Making" in run.stdout


def test_what_is_there_is_kept(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to(sys.executable)
    run = make_venv(tmp_path / "venv", programs)
    assert run.returncode == 0 and run.stdout == "" and run.stderr == ""


def fake_new(folder: Path) -> Path:
    """A Python that is new enough and only pretends to make environments."""
    path = folder / "new-python"
    path.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        "--version) echo Python 3.12.1 ;;\n"
        f'-m) {os.fspath("/bin/mkdir")} -p "$4/bin"; : > "$4/bin/python" ;;\n'
        "esac\n"
    )
    path.chmod(0o755)
    return path
