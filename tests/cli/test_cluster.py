"""What `proteus cluster` says of presets and files."""

from __future__ import annotations

import json

import pytest

from proteus.cli import main
from proteus.cli.cluster import as_text


def test_json_of_a_preset(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "dgx-a100", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report) >= {"n_gpus", "gpu", "pairs", "nics", "nearest_nic", "numa", "warnings"}
    assert report["n_gpus"] == 8 and len(report["pairs"]) == 28
    assert set(report["nearest_nic"]) == {str(gpu) for gpu in range(8)}


def test_text_of_a_preset(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "dgx-a100"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("8 GPUs") and "GPU 7:" in text


def test_text_groups_pairs_and_shows_warnings() -> None:
    text = as_text(
        {
            "n_gpus": 3,
            "gpu": "h100-sxm",
            "pairs": {"0-1": "NV18", "0-2": "SYS", "1-2": "SYS"},
            "nics": [],
            "nearest_nic": {},
            "numa": {"0": 0, "10": 1, "2": None},
            "warnings": ["row of GPU2 was cut"],
        }
    )
    assert text.splitlines() == [
        "3 GPUs, h100-sxm",
        "0-1 NV18",
        "0-2 1-2 SYS",
        "GPU 0: NUMA node 0",
        "GPU 10: NUMA node 1",
        "warning: row of GPU2 was cut",
    ]
