"""The product curve: bounds that any machine obeys, and tile and wave steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proteus.costs.gemm import gemm_time_s

PEAK, MEMORY, SMS, SPLIT = 300e12, 2e12, 108.0, 32.0
CURVE = (0.9, 2e-6, 100.0, 20.0, 0.8, 0.5, 4.0, 2e-6)


def time_s(m: int, n: int, k: int, batch: int = 1, curve: tuple[float, ...] = CURVE, split: float = SPLIT) -> float:
    moved = 2.0 * batch * (m * k + k * n + m * n)
    return gemm_time_s(batch, m, n, k, moved, PEAK, MEMORY, SMS, split, *curve)


sizes = st.integers(1, 16384)


@given(sizes, sizes, sizes, st.integers(1, 64))
def test_no_faster_than_peak_and_memory(m: int, n: int, k: int, batch: int) -> None:
    floor = CURVE[1]
    assert time_s(m, n, k, batch) - floor >= 2.0 * batch * m * n * k / (PEAK * CURVE[0]) * 0.999
    assert time_s(m, n, k, batch) - floor >= 2.0 * batch * (m * k + k * n + m * n) / (MEMORY * CURVE[4]) * 0.999


@given(sizes, sizes, sizes)
def test_more_depth_never_costs_less(m: int, n: int, k: int) -> None:
    assert time_s(m, n, 2 * k) >= time_s(m, n, k) * 0.98  # a deeper product may split better


def test_time_is_a_staircase_of_waves() -> None:
    # 9 x 12 tiles of 256 x 128 fill the 108 SMs once; one row of tiles more starts a second wave
    staircase = (0.9, 2e-6, 100.0, 200.0, 0.8, 1.0, 12.0, 1.0)
    fits, inside, spills = (time_s(m, 128 * 12, 8192, curve=staircase, split=1.0) for m in (2304, 2244, 2305))
    assert inside == pytest.approx(fits, rel=1e-3)
    assert spills > 1.3 * fits


def test_splitting_helps_a_deep_and_narrow_product() -> None:
    assert time_s(256, 256, 65536) < 0.7 * time_s(256, 256, 65536, split=1.0)


def test_large_product_reaches_its_efficiency() -> None:
    rate = 2.0 * 8192**3 / time_s(8192, 8192, 8192)
    assert rate / PEAK == pytest.approx(CURVE[0] / (1 + 20 * (1 / 256 + 1 / 128)), rel=0.06)
