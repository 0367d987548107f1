"""Framework profiles and precisions."""

from __future__ import annotations

import pytest

from proteus.costs import precision, profile
from proteus.costs.lower import gemm
from proteus.costs.optimizer import optimizer_works
from proteus.costs.passes import stream
from proteus.errors import InputError


@pytest.mark.parametrize("name", profile.names())
def test_every_profile_loads_and_names_its_source(name: str) -> None:
    found = profile.load(name)
    assert found.source
    assert 0 <= found.launch_s < 1e-4  # nothing of it is left inside a CUDA graph
    assert found.precision("bf16").param_bytes in (2.0, 4.0)


def test_unknown_names_are_told_the_nearest() -> None:
    with pytest.raises(InputError, match="nearest: megatron"):
        profile.load("megatorn")
    with pytest.raises(InputError, match="unknown precision"):
        precision.load("fp12")
    with pytest.raises(InputError, match="unknown profile field"):
        profile.load("megatron").but(attentoin="flash1")


def test_sixteen_bytes_per_parameter() -> None:
    # ZeRO paper, section 3.1: 2 + 2 + 12 bytes
    bf16 = profile.load("deepspeed").precision("bf16")
    assert bf16.param_bytes + bf16.grad_bytes + bf16.state_bytes("adam") == 16
    # Megatron keeps the gradient in fp32: 18
    bf16 = profile.load("megatron").precision("bf16")
    assert bf16.param_bytes + bf16.grad_bytes + bf16.state_bytes("adam") == 18


def test_host_time_counts_launches_once_per_op() -> None:
    eager = profile.load("torch-eager")
    works = (stream(1.0, kernels=3), stream(1.0))
    assert eager.host_s(works) == pytest.approx(eager.op_s + 4 * eager.launch_s)
    assert eager.host_s(()) == 0.0


def test_the_low_half_beside_the_parameter_is_enough() -> None:
    whole, half = (profile.load(name).precision("bf16") for name in ("nemo", "nemo-launcher"))
    assert whole.state_bytes("adam") - half.state_bytes("adam") == 2
    assert profile.load("nemo-launcher").precision("fp32").master_bytes == 0.0


def test_a_grouped_product_costs_the_host_by_expert() -> None:
    nemo = profile.load("nemo")
    one, many = (gemm(experts, 64, 64, 64, "bf16", 2.0, 2.0, grouped=True) for experts in (1, 16))
    assert nemo.host_s((many,)) - nemo.host_s((one,)) == pytest.approx(15 * nemo.expert_s)
    assert profile.load("nemo-graphed").host_s((many,)) == 0.0


def test_a_fused_optimizer_moves_less() -> None:
    fused = optimizer_works(1e9, "adam", profile.load("megatron").precision("bf16"), profile.load("megatron"))
    loop = optimizer_works(1e9, "adam", profile.load("torch-eager").precision("fp32"), profile.load("torch-eager"))
    assert fused[0].bytes < loop[0].bytes
    assert fused[0].num_kernels < loop[0].num_kernels
    assert optimizer_works(0, "adam", precision.load("bf16"), profile.load("megatron")) == ()
