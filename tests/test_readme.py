"""The README's example gives the result that it promises; its code is run by test_docs.py as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.markdown import code_blocks, commands, run_python


def test_first_example_makes_a_result(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = root / "README.md"
    names = run_python(page, [code for code in code_blocks(page) if code.language == "python"])
    assert 0 < names["result"].mfu < 1
    assert names["result"].step_time_s > 0


def test_shows_the_command_line(root: Path) -> None:
    shown = [arguments for code in code_blocks(root / "README.md") for arguments in commands(code)]
    assert any(arguments[0] == "simulate" for arguments in shown)


def test_is_one_page(root: Path) -> None:
    assert len((root / "README.md").read_text().splitlines()) <= 120
