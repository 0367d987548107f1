"""The bench's numbers; how fast they are is not tested."""

from __future__ import annotations

import json

import pytest

from proteus.cli import bench, main


def test_a_case_in_a_process_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--case", "resnet50-dp8", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert set(row) == {"case", "ranks", "tasks", "tasks_run", "compile_s", "simulate_s", "peak_bytes"}
    assert row["case"] == "resnet50-dp8" and row["ranks"] == 8
    assert row["tasks"] >= row["tasks_run"] > 0
    assert row["compile_s"] > 0 and row["simulate_s"] > 0
    assert row["peak_bytes"] > 10e6


def test_unknown_case_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--case", "resnet50-dp9"]) == 2
    assert "resnet50-dp8" in capsys.readouterr().err


@pytest.mark.parametrize("name", bench.CASES)
def test_cases_name_what_exists(name: str) -> None:
    import proteus as pt

    case = bench.CASES[name]
    cluster = pt.clusters.load(case.cluster)
    tree = pt.StrategyTree(pt.models.load(case.model)).parallelize(**case.settings)
    assert tree.mesh.size == cluster.num_devices
