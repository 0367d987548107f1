"""Flags become arguments, and only those that were given."""

from __future__ import annotations

import inspect

import pytest

from proteus.cli.flags import given_settings
from proteus.cli.parser import build_parser
from proteus.strategy.recipe import parallelize

BASE = ["simulate", "--model", "gpt2", "--cluster", "dgx-a100"]


def settings(*flags: str) -> dict:
    return given_settings(build_parser().parse_args([*BASE, *flags]))


def test_nothing_given_nothing_passed_on() -> None:
    assert settings() == {}


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--dp", "4", "--tp", "2"], {"dp": 4, "tp": 2}),
        (["--micro-batch", "2", "--global-batch", "64"], {"micro_batch": 2, "global_batch": 64}),
        (["--zero", "0"], {"zero": 0}),
        (["--sequence-parallel"], {"sequence_parallel": True}),
        (["--no-sequence-parallel"], {"sequence_parallel": False}),
        (["--layers-per-stage", "5,7"], {"layers_per_stage": (5, 7)}),
        (["--offload", "optimizer,activation"], {"offload": ("optimizer", "activation")}),
        (["--schedule", "gpipe", "--recompute", "full"], {"schedule": "gpipe", "recompute": "full"}),
    ],
)
def test_given_flags(flags: list[str], expected: dict) -> None:
    assert settings(*flags) == expected


def test_every_flag_is_an_argument_of_the_recipe() -> None:
    options = build_parser().parse_args(BASE)
    for name in vars(options):
        setattr(options, name, 1)
    assert set(given_settings(options)) <= set(inspect.signature(parallelize).parameters)


def test_flags_are_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    """`--micro` must not silently mean --micro-batch today and something else tomorrow."""
    with pytest.raises(SystemExit):
        build_parser().parse_args([*BASE, "--micro", "2"])
    assert "--micro" in capsys.readouterr().err
