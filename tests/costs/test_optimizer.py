"""Kernels of the optimizer's update."""

from __future__ import annotations

from proteus import frameworks
from proteus.costs import precision
from proteus.costs.optimizer import optimizer_works
from proteus.costs.precision import kept_by


def test_a_fused_optimizer_moves_less() -> None:
    megatron, eager = frameworks.load("megatron-core"), frameworks.load("ddp")
    fused = optimizer_works(1e9, "adam", kept_by(megatron, "bf16"), megatron)
    loop = optimizer_works(1e9, "adam", kept_by(eager, "fp32"), eager)
    assert fused[0].bytes < loop[0].bytes
    assert fused[0].num_kernels < loop[0].num_kernels
    assert optimizer_works(0, "adam", precision.load("bf16"), megatron) == ()
