"""Flags become arguments, and only those that were given."""

from __future__ import annotations

import pytest

from proteus.cli.flags import given_settings
from proteus.cli.parser import build_parser
from proteus.strategy.plan import Plan, flag_of, specs

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


def test_every_field_of_the_plan_has_its_flag() -> None:
    options = build_parser().parse_args(BASE)
    assert set(specs()) <= set(vars(options))
    help_text = " ".join(build_parser()._subparsers._group_actions[0].choices["simulate"].format_help().split())
    for name in specs():
        assert flag_of(name) in help_text


@pytest.mark.parametrize(
    "plan",
    [
        Plan(dp="fill", tp=2, seq=512, virtual_stages="max"),
        Plan(layers_per_stage=(3, 4), offload=("optimizer",), bucket_bytes=25e6, lora_dropout=0.1),
        Plan(overlap_gradients=False, compile=True, recompute_modules=("norm",), framework="nemo@24.07"),
    ],
)
def test_flags_of_a_plan_read_back(plan: Plan) -> None:
    assert Plan.of(settings(*plan.flags())) == plan


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--tp", "0"], "'0' is not a whole number of at least 1"),
        (["--zero", "4"], "'4' is not a whole number from 0 to 3"),
        (["--schedule", "1f2b"], "unknown schedule '1f2b'; nearest: 1f1b"),
        (["--bucket-bytes", "inf"], "a finite number above 0"),
        (["--dp", "fil"], "or 'fill'"),
    ],
)
def test_a_bad_flag_names_the_rule(flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        build_parser().parse_args([*BASE, *flags])
    assert stopped.value.code == 2 and message in capsys.readouterr().err


def test_flags_are_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    """`--micro` must not silently mean --micro-batch today and something else tomorrow."""
    with pytest.raises(SystemExit):
        build_parser().parse_args([*BASE, "--micro", "2"])
    assert "--micro" in capsys.readouterr().err
