"""`proteus trace`: a table, or one JSON object with the keys that docs/cli.md names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proteus.cli import main
from tests.traces.samples import ADD, ALL_REDUCE, GEMM, kernel, launch, op, step, write

EVENTS = [
    step(1, 0, 100), op(0, 9, "aten::mm"), launch(1, 1), kernel(10, 50, GEMM, correlation=1),
    kernel(40, 40, ALL_REDUCE, stream=20), kernel(90, 5, ADD),
]  # fmt: skip
ROW = {"rank", "compute_s", "comm_s", "overlapped_s", "exposed_comm_s", "idle_s", "host_bound_s", "top_operators"}


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.json", EVENTS, rank=2)
    assert main(["trace", str(path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer) == {"ranks", "steps", "unknown_fraction", "warnings"}
    (rank,), (one,) = answer["ranks"], answer["steps"]
    assert set(rank) == ROW and set(one) == ROW | {"step", "step_time_s"}
    assert (rank["rank"], one["step"], answer["unknown_fraction"]) == (2, 1, 0.0)
    assert (rank["compute_s"], rank["comm_s"], rank["overlapped_s"]) == pytest.approx((55e-6, 40e-6, 20e-6))
    assert rank["exposed_comm_s"] == pytest.approx({"all_reduce": 20e-6})
    assert (one["step_time_s"], one["idle_s"]) == pytest.approx((100e-6, 25e-6))
    first = rank["top_operators"][0]
    assert (first["name"], first["operator"], first["kind"], first["count"]) == (GEMM, "aten::mm", "gemm", 1)
    assert first["total_s"] == pytest.approx(50e-6)


def test_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(write(tmp_path / "a.json", EVENTS, rank=2, world_size=4))]) == 0
    said = capsys.readouterr().out
    assert "1 of 4 ranks" in said and "exposed comm" in said and "aten::mm" not in said
    assert "1/2" in said and "3 of 4 ranks are missing" in said


def test_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(write(tmp_path / "a.json", []))]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "a.json: holds no events of a GPU" in said.err
    assert main(["trace", str(tmp_path / "nowhere.json")]) == 2
    assert "nowhere.json: cannot be read" in capsys.readouterr().err
