"""What a board's power leaves of the clock."""

from __future__ import annotations

import pytest

from proteus.costs import curves
from proteus.costs.ops import OpCosts
from proteus.costs.work import Family, Work
from proteus.hardware import gpus

N = 8192


def product_s(gpu: str) -> float:
    work = Work(family=Family.GEMM, flop=2.0 * N**3, bytes=6.0 * N**2, dtype="bf16", shape=(1, N, N, N))
    return OpCosts(gpus.load(gpu)).time(work).time_s


def test_the_board_of_the_curve_keeps_its_clock() -> None:
    assert curves.power_factor(gpus.load("h100").chip, 700.0, 989e12) == pytest.approx(1.0, abs=0.01)
    unheard_of, _ = gpus.unmeasured("unheard of", "next")
    assert curves.power_factor(unheard_of, 700.0, 989e12) == 1.0


def test_a_board_with_less_power_is_slower_and_one_with_more_faster() -> None:
    # torchtitan's Hopper boards of 500 W: as much slower as their power is less
    assert product_s("h100-sxm-96gb-hbm2e") / product_s("h100-sxm") == pytest.approx(700 / 500, rel=0.05)
    assert product_s("gb300") < product_s("gb200") < product_s("b200")


def test_more_power_lifts_no_board_above_its_sheet() -> None:
    gpu = gpus.load("gb300")
    assert product_s("gb300") >= 2.0 * N**3 / gpu.peak_flops["bf16"]
