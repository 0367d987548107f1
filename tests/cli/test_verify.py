"""The command that runs a strategy with real numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import proteus as pt
from proteus.cli import main
from proteus.verify import verification

LLAMA = ["verify", "--model", "tiny-llama", "--seq", "8"]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*LLAMA, "--dp", "2", "--tp", "2", "--pp", "2", "--zero", "3", "--sequence-parallel", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ranks"] == 8 and document["equal"] is True
    assert set(document["max_abs_err"]) == {"loss", "gradients", "parameters"}
    assert all(error <= 1e-9 for error in document["max_abs_err"].values())
    assert set(document["collectives"]) == {"all_gather", "all_reduce", "reduce_scatter", "send"}
    assert all(item["count"] > 0 and item["bytes"] > 0 for item in document["collectives"].values())


def test_a_tree_file_and_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = pt.StrategyTree(pt.models.load("tiny-dlrm")).parallelize(dp=2, global_batch=4)
    file = tmp_path / "tree.yaml"
    file.write_text(tree.set("features.embedding", partition={"tables": "dp", "batch": ()}).to_yaml())
    assert main(["verify", "--tree", str(file), "--cluster", "dgx1-v100", "--seed", "3"]) == 0
    text = capsys.readouterr().out
    assert "all_to_all" in text and "trains like the undivided model" in text


def test_a_difference_is_exit_code_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is equal to less than nothing."""
    monkeypatch.setattr(verification.Verification, "equal", property(lambda self: max(self.errors.values()) < 0))
    assert main([*LLAMA, "--dp", "2"]) == 1
    assert "does NOT train" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--model", "llama3-8b"], "the check in float64 on the CPU takes at most"),
        (["--model", "tiny-llama", "--tp", "3"], "tp=3 does not divide"),
        (["--dp", "2"], "--model is missing"),
    ],
)
def test_bad_input_is_one_line(flags: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", *flags]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
