"""`proteus list` names what can be loaded, and says of each what its loader says."""

from __future__ import annotations

import json
from typing import Any

import pytest

import proteus as pt
from proteus.cli import main
from proteus.cli.list import KINDS, as_table, load_gpus
from proteus.strategy.schedule import SCHEDULES


def listed(kind: str, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    assert main(["list", kind, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert isinstance(rows, list)
    by_name = {row["name"]: row for row in rows}
    assert len(by_name) == len(rows) > 3
    return by_name


@pytest.mark.parametrize("kind", KINDS)
def test_table_and_json_name_the_same(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed(kind, capsys)
    assert main(["list", kind]) == 0
    title, *lines = capsys.readouterr().out.splitlines()
    assert title.startswith("name ")
    assert [line.split()[0] for line in lines] == list(rows)
    assert all(len(line.split()) > 1 for line in lines)


def test_models(capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed("models", capsys)
    assert tuple(rows) == pt.models.names()
    row = rows["mixtral-8x7b"]
    assert row["parameters"] == 46_702_792_704 and row["active_parameters"] < 13e9
    assert (row["family"], row["layers"], row["hidden"], row["experts"], row["seq"]) == (
        "transformer",
        32,
        4096,
        8,
        4096,
    )
    assert rows["resnet50"]["seq"] is None and rows["resnet50"]["layers"] is None
    for row in rows.values():
        assert all(pt.models.load(alias).name == row["name"] for alias in row["aliases"])


def test_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed("clusters", capsys)
    assert tuple(rows) == pt.clusters.names()
    assert rows["dgx-h100"] == {
        "name": "dgx-h100",
        "hosts": 1,
        "gpu": "h100-sxm",
        "gpus_per_host": 8,
        "gpu_links": "switched",
        "nics_per_host": 8,
        "nic_Bps": 50e9,
        "network": "ib",
    }


def test_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed("gpus", capsys)
    assert list(rows) == [gpu.name for gpu in load_gpus()]
    h100 = rows["h100-sxm"]
    assert h100["peak_flops"]["bf16"] == pytest.approx(989e12, rel=1e-3)
    assert h100["memory_Bps"] == pytest.approx(3.35e12, rel=1e-3) and h100["source"]


def test_frameworks_can_be_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    for name, row in listed("frameworks", capsys).items():
        pt.StrategyTree(pt.models.load("tiny-gpt")).parallelize(framework=name)
        assert row["title"] and row["defaults"]


def test_schedules(capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed("schedules", capsys)
    assert list(rows) == list(SCHEDULES)
    assert rows["1f1b"]["what"].startswith("Forwards until the first backward can come back")
    assert all(row["what"].endswith(".") for row in rows.values())


def test_an_unknown_kind_lists_the_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "model"]) == 2
    assert "choose from 'models', 'clusters', 'gpus', 'frameworks', 'schedules'" in capsys.readouterr().err


def test_columns_are_as_wide_as_they_need_to_be() -> None:
    assert as_table(["a", "b"], [["long one", "x"], ["y", ""]]) == "a         b\nlong one  x\ny"
