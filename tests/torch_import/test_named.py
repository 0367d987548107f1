"""``--model package.module:function`` runs the function that the user names, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proteus.cli import main
from proteus.errors import InputError
from proteus.torch_import.named import load_named

SOURCE = """
import torch
from torch import nn

class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(100, 32), nn.Linear(32, 100)
    def forward(self, tokens):
        return self.out(self.embed(tokens))

def make():
    module = Tower()
    assert next(module.parameters()).is_meta
    return module, (torch.zeros(2, 16, dtype=torch.long),), "cross_entropy"

def nothing():
    return 3

def fails():
    return 1 / 0

number = 3
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    name = f"own_models_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return name


def test_the_function_makes_the_model(package: str) -> None:
    assert load_named(f"{package}:make").num_params == 100 * 32 + 32 * 100 + 100


def test_the_command_takes_it(package: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--cluster", "dgx-a100:1", "--dp", "8", "--global-batch", "8", "--json"]
    assert main(["simulate", "--model", f"{package}:make", *options]) == 0
    assert json.loads(capsys.readouterr().out)["step_time_s"] > 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("{}:absent", "no attribute 'absent'"),
        ("no_such_package:make", "No module named 'no_such_package'"),
        ("{}:nothing", "returns a int"),
        ("{}:fails", "raises ZeroDivisionError"),
        ("{}:number", "is a int"),
    ],
)
def test_what_is_no_such_function_is_said(package: str, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_named(name.format(package))
