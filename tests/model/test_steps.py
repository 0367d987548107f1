"""The step notation."""

from __future__ import annotations

import pytest

from proteus.errors import ModelError
from proteus.model.steps import parse_step, window


def test_defaults() -> None:
    step = parse_step("conv 64 k7")
    assert (step.name, step.kind, step.number) == (None, "conv", 64)
    assert window(step) == {"kernel": (7, 7), "stride": (1, 1), "padding": (0, 0)}


def test_height_and_width_and_a_name() -> None:
    step = parse_step("branch7x7_2 = conv 128 k1x7 s2 p0x3")
    assert step.name == "branch7x7_2"
    assert window(step) == {"kernel": (1, 7), "stride": (2, 2), "padding": (0, 3)}


def test_a_rate() -> None:
    assert parse_step("dropout 0.5").number == 0.5


@pytest.mark.parametrize("step", ["", "64 conv", "a = b = conv 3 k1", "CONV 3"])
def test_no_step(step: str) -> None:
    with pytest.raises(ModelError, match="write for example 'conv 64 k3 p1'"):
        parse_step(step)
