"""A browser that starts is found; without one there is one line and exit code 1."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import find_browser


def script(path: Path, body: str) -> str:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any browser, and an empty folder on its PATH."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=None)
    monkeypatch.delenv("BROWSER_PATH", raising=False)
    monkeypatch.setattr(find_browser, "MAC_APPS", ())
    monkeypatch.setattr(find_browser, "playwrights_own", lambda: str(tmp_path / "absent"))
    return tmp_path


def test_finds_the_one_on_the_path(nothing_installed: Path) -> None:
    chromium = script(nothing_installed / "google-chrome", "echo Google Chrome 140.0")
    assert find_browser.find() == chromium


def test_passes_over_a_package_that_does_not_start(nothing_installed: Path) -> None:
    script(nothing_installed / "chromium", "echo please install the snap >&2; exit 1")
    chrome = script(nothing_installed / "google-chrome", "echo Google Chrome 140.0")
    assert find_browser.find() == chrome


def test_the_users_choice_comes_first(nothing_installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(nothing_installed / "chromium", "echo Chromium 140.0")
    mine = script(nothing_installed / "mine", "echo Chromium 150.0")
    monkeypatch.setenv("BROWSER_PATH", mine)
    assert find_browser.find() == mine


def test_none_is_one_line(
    nothing_installed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["find_browser"])
    assert find_browser.main() == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "BROWSER_PATH" in err


@pytest.mark.parametrize(
    ("debian", "user", "program"), [(True, 0, "apt-get"), (True, 1000, "-m playwright"), (False, 0, "-m playwright")]
)
def test_installs_by_what_the_machine_has(
    debian: bool, user: int, program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(find_browser, "is_debian", lambda: debian)
    monkeypatch.setattr(find_browser.os, "geteuid", lambda: user)
    ran: list[str] = []

    class Done:
        returncode, stdout = 0, b""

    monkeypatch.setattr(find_browser.subprocess, "run", lambda command, **_: ran.append(" ".join(command)) or Done())
    find_browser.install()
    assert ran and all(program in command for command in ran)
    assert "chromium" in ran[-1] and "Installing a browser" in capsys.readouterr().err
