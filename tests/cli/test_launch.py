"""``proteus launch`` and ``proteus simulate --launch``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proteus.cli import main

DATA = Path(__file__).parents[1] / "data" / "launch"


def test_json_has_the_documented_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", str(DATA / "accelerate_fsdp2.yaml"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert set(said) == {
        "framework", "version", "model", "plan", "cluster", "assumed", "not_understood", "needs",
    }  # fmt: skip
    assert [need["name"] for need in said["needs"]] == ["micro_batch", "global_batch", "model"]


def test_text_names_what_is_not_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", str(DATA / "pretrain.sh")]) == 0
    assert "--frobnicate=3: unknown to this reader" in capsys.readouterr().out


def test_simulating_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--launch", str(DATA / "neox.yml"), "--cluster", "dgx-a100:1", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["plan"]["dp"], said["plan"]["tp"], said["plan"]["global_batch"]) == (4, 2, 32)


def test_flags_go_before_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simulate", "--launch", str(DATA / "neox.yml"), "--cluster", "dgx-a100:1", "--tp", "1", "--json"]
    assert main(arguments) == 0
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert (plan["tp"], plan["dp"], plan["recompute"]) == (1, 8, "full")


def test_what_is_needed_is_asked_for_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--launch", str(DATA / "accelerate_fsdp2.yaml"), "--cluster", "dgx-h100:2"]) == 2
    message = capsys.readouterr().err
    assert all(name in message for name in ("micro_batch", "global_batch", "model"))
