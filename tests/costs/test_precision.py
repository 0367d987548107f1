"""Bytes of parameters, gradients and optimizer state, as frameworks keep them."""

from __future__ import annotations

import pytest

from proteus import frameworks
from proteus.costs import precision
from proteus.costs.precision import kept_by
from proteus.errors import InputError


def test_an_unknown_precision_is_told() -> None:
    with pytest.raises(InputError, match="unknown precision"):
        precision.load("fp12")


def test_sixteen_bytes_per_parameter() -> None:
    # ZeRO paper, section 3.1: 2 + 2 + 12 bytes
    bf16 = kept_by(frameworks.load("deepspeed"), "bf16")
    assert bf16.param_bytes + bf16.grad_bytes + bf16.state_bytes("adam") == 16
    # Megatron keeps the gradient in fp32: 18
    bf16 = kept_by(frameworks.load("megatron-core"), "bf16")
    assert bf16.param_bytes + bf16.grad_bytes + bf16.state_bytes("adam") == 18


def test_the_low_half_beside_the_parameter_is_enough() -> None:
    old = frameworks.load("nemo@24.07")
    whole, half = (kept_by(framework, "bf16") for framework in (frameworks.load("nemo"), old))
    assert whole.state_bytes("adam") - half.state_bytes("adam") == 2
    assert kept_by(old, "fp32").master_bytes == 0.0


@pytest.mark.parametrize("name", frameworks.names())
def test_every_framework_keeps_bf16_in_two_or_four_bytes(name: str) -> None:
    assert kept_by(frameworks.load(name), "bf16").param_bytes in (2.0, 4.0)
