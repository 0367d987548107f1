"""Every scored row is a command that anybody can type, with the same answer."""

from __future__ import annotations

import json
import shlex

import pytest

from proteus import cli
from proteus.validation.case import case_of
from proteus.validation.runs import Run, shipped_runs
from proteus.validation.score import command_of, result_of, score_run
from tests.validation.rows import table

#: rows of each table that are asked again through the command line
ROWS_PER_TABLE = 1
#: larger jobs take long to simulate twice
MAX_GPUS = 64


def sample() -> list[Run]:
    """Some rows of every third table, and of the benchmarks."""
    tables: dict[str, list[Run]] = {}
    for run in (*shipped_runs(), *shipped_runs("later"), *shipped_runs("classic")):
        if (run.num_gpus or 1) <= MAX_GPUS and command_of(run)[0] is not None:
            tables.setdefault(run.table_id, []).append(run)
    chosen = list(tables.values())[::3]
    return [run for rows in chosen for run in rows[len(rows) // 2 :][:ROWS_PER_TABLE]]


SAMPLE = sample()


def test_the_sample_is_large_enough() -> None:
    assert len(SAMPLE) >= 20
    assert len({run.framework for run in SAMPLE}) >= 8


@pytest.mark.parametrize("run", SAMPLE, ids=lambda run: f"{run.table_id}-{run.id}")
def test_a_command_gives_the_step_time_of_its_row(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    case = case_of(run)
    program, *words = shlex.split(case.command)
    assert program == "proteus"
    assert cli.main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    result = result_of(case)
    assert document["step_time_s"] == pytest.approx(result.step_time_s, rel=1e-12)
    assert document["fits"] == result.fits


def test_commands_are_printed_and_rows_without_say_why(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "runs.csv"
    path.write_bytes(table({}, {"id": "b", "recompute": "a bit"}))
    assert cli.main(["validate", str(path), "--commands"]) == 0
    told = capsys.readouterr()
    (line,) = told.out.splitlines()
    assert line.startswith("proteus simulate --model gpt --set ") and "--dp 4 --tp 2" in line
    assert "b: recompute 'a bit' is not understood" in told.err


def test_a_score_is_the_step_time_of_its_command() -> None:
    run = SAMPLE[0]
    assert score_run(run).step_time_s == result_of(case_of(run)).step_time_s
