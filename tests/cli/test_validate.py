"""The command that compares predictions with measured runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proteus.cli import main
from tests.validation.rows import table


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "runs.csv"
    path.write_bytes(
        table(
            {},
            {"id": "a-2", "dp": "8", "tp": "1", "step_time_s": "0.4"},
            {"id": "b-1", "table_id": "b", "task": "lora"},
        )
    )
    return str(path)


def test_json_is_one_object(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", file, "--json", "--workers", "1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in document["rows"]] == ["a-1", "a-2", "b-1"]
    assert document["overall"]["timed"] == 2


def test_text_tells_tables_and_worst_rows(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", file, "--workers", "1", "--worst", "1"]) == 0
    text = capsys.readouterr().out
    assert "worst rows" in text and "not scored" in text


def test_warm_leaves_the_teacher_out(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", file, "--warm", "1", "--json", "--workers", "1"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 1


def test_one_table(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", file, "--table", "b", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["tables"]) == {"b"}
    assert main(["validate", file, "--table", "c"]) == 2
    assert "source table" in capsys.readouterr().err


def test_runs_collected_later_are_a_table_of_their_own(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--later", "--table", "tinyllama_a100", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["tables"]) == {"tinyllama_a100"}
    assert main(["validate", file, "--later"]) == 2
    assert "leave FILE.csv or --later out" in capsys.readouterr().err


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(tmp_path / "none.csv")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
