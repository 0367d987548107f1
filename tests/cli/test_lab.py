"""`proteus lab` becomes a JupyterLab server on the first tutorial."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import proteus
from proteus.cli import lab, main


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands that would have replaced this process."""
    commands: list[list[str]] = []

    def execv(program: str, command: list[str]) -> None:
        assert program == sys.executable
        commands.append(command)
        raise SystemExit(0)

    monkeypatch.setattr(os, "execv", execv)
    return commands


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as that of the repository, with one tutorial."""
    for name in ("proteus", "notebooks"):
        (tmp_path / name).mkdir()
    (tmp_path / "notebooks" / lab.FIRST).write_text("{}")
    monkeypatch.setattr(proteus, "__file__", str(tmp_path / "proteus" / "__init__.py"))
    return tmp_path


def test_starts_on_the_first_tutorial(started: list[list[str]], checkout: Path) -> None:
    assert main(["lab", "--no-browser", "--port", "9999"]) == 0
    (command,) = started
    assert command[1:3] == ["-m", "jupyterlab"]
    assert f"--ServerApp.root_dir={checkout / 'notebooks'}" in command
    assert f"--LabApp.default_url=/lab/tree/{lab.FIRST}" in command
    assert {"--no-browser", "--ServerApp.port=9999"} <= set(command)


@pytest.mark.parametrize(("user", "allowed"), [(0, True), (1000, False)])
def test_only_root_needs_leave(
    user: int, allowed: bool, started: list[list[str]], checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    main(["lab"])
    assert ("--allow-root" in started[0]) is allowed


def test_an_installed_package_copies_its_tutorials(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / "notebooks").rename(checkout / "proteus" / "notebooks")
    elsewhere = checkout / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    folder = lab.tutorial_folder()
    assert folder == elsewhere / lab.COPY and (folder / lab.FIRST).read_text() == "{}"
    (folder / lab.FIRST).write_text("mine")
    assert (lab.tutorial_folder() / lab.FIRST).read_text() == "mine"


def test_no_tutorials_is_an_error(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "notebooks" / lab.FIRST).unlink()
    assert main(["lab"]) == 2
    assert "no tutorial notebooks" in capsys.readouterr().err
