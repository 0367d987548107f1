"""Host time of an op's launches."""

from __future__ import annotations

import pytest

from proteus import frameworks
from proteus.costs.host import host_s, slowdown
from proteus.costs.lower import gemm
from proteus.costs.passes import stream
from proteus.costs.work import BIASED, Family, Work


def test_host_time_counts_launches_once_per_op() -> None:
    eager = frameworks.load("ddp")
    works = (stream(1.0, kernels=3), stream(1.0))
    assert host_s(eager, works) == pytest.approx(eager.op_s + 4 * eager.launch_s)
    assert host_s(eager, ()) == 0.0


def test_a_grouped_gemm_costs_the_host_per_expert() -> None:
    nemo = frameworks.load("nemo")
    one, many = (gemm(experts, 64, 64, 64, "bf16", 2.0, 2.0, grouped=True) for experts in (1, 16))
    assert host_s(nemo, (many,)) - host_s(nemo, (one,)) == pytest.approx(15 * nemo.expert_s)
    assert host_s(nemo.given(cuda_graphs=True), (many,)) == 0.0


def test_biases_of_groups_are_slow_in_sixteen_bits_alone() -> None:
    slow = frameworks.load("nemo, biased_products=2")
    halves, bytes_ = (
        Work(family=Family.GROUPED_GEMM, dtype=dtype, shape=(2, 8, 8, 8), variant=BIASED) for dtype in ("bf16", "fp8")
    )
    assert (slowdown(slow, halves), slowdown(slow, bytes_)) == (2.0, 1.0)
