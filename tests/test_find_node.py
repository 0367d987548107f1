"""Node.js that is new enough is found; without it there is one line and exit code 1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import find_node
from tests.test_find_browser import script


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without Node.js, and an empty folder on its PATH."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=None)
    monkeypatch.setattr("sys.argv", ["find_node"])
    return tmp_path


@pytest.mark.parametrize(
    ("node", "npm", "says"),
    [
        (None, None, "no node, no npm"),
        ("v18.20.4", "9.2.0", "node 18.20.4, npm 9.2.0"),
        ("v20.19.2", None, "node 20.19.2, no npm"),
    ],
)
def test_what_is_missing_is_one_line(
    node: str | None, npm: str | None, says: str, programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, version in (("node", node), ("npm", npm)):
        if version:
            script(programs / name, f"echo {version}")
    assert find_node.main() == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "20.19 or newer" in err and f"(found: {says})" in err


def test_finds_one_that_is_new_enough(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script(programs / "node", "echo v20.19.2")
    script(programs / "npm", "echo 9.2.0")
    assert find_node.main() == 0
    assert "20.19.2" in capsys.readouterr().out


@pytest.mark.parametrize(("debian", "user", "installs"), [(True, 0, True), (True, 1000, False), (False, 0, False)])
def test_installs_only_as_root_on_debian(
    debian: bool, user: int, installs: bool, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(programs / "node", "echo v20.19.2")
    monkeypatch.setattr(find_node, "is_debian", lambda: debian)
    monkeypatch.setattr(find_node.os, "geteuid", lambda: user)
    installed: list[str] = []
    monkeypatch.setattr(find_node, "apt_install", lambda _what, *packages: installed.extend(packages))
    find_node.install()
    assert installed == (["npm"] if installs else [])  # node is there already


def test_versions_agree(root: Path) -> None:
    package = json.loads((root / "widgets" / "package.json").read_text())
    assert package["engines"]["node"] == ">=" + ".".join(map(str, find_node.MIN_VERSION))
