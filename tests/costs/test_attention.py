"""Fused attention: its FLOP, the causal half, and the limits of the curve."""

from __future__ import annotations

import pytest

from proteus.costs.attention import attention_flop, attention_time_s

SHEET = (2.0, 300e12, 2e12, 108.0)
CURVE = (0.9, 5e-6, 40e-12, 100.0, 0.9, 0.5, 0.7, 0.2)


def time_s(
    batch: int, heads: int, seq: int, dim: int, causal: int, backward: int, kv_heads: int | None = None
) -> float:
    shape = (batch, heads, kv_heads or heads, seq, seq, dim, dim, causal, backward)
    return attention_time_s(*shape, *SHEET, *CURVE)


def test_flop_by_hand() -> None:
    # two products of 2 s^2 d each; the triangle has s (s + 1) / 2 pairs; backward makes five of them
    assert attention_flop(1, 1, 4, 4, 8, 8, 0, 0) == 2 * 2 * 16 * 8
    assert attention_flop(1, 1, 4, 4, 8, 8, 1, 0) == 2 * 2 * 10 * 8
    assert attention_flop(1, 1, 4, 4, 8, 8, 0, 1) == 5 * 2 * 16 * 8


def test_causal_costs_half_when_long() -> None:
    assert time_s(1, 16, 32768, 128, 1, 0) / time_s(1, 16, 32768, 128, 0, 0) == pytest.approx(0.5, rel=0.02)


def test_short_causal_costs_more_than_half() -> None:
    assert time_s(32, 16, 512, 128, 1, 0) / time_s(32, 16, 512, 128, 0, 0) > 0.55


def test_rate_grows_with_the_head() -> None:
    narrow = attention_flop(4, 16, 4096, 4096, 64, 64, 1, 0) / time_s(4, 16, 4096, 64, 1, 0)
    wide = attention_flop(4, 16, 4096, 4096, 128, 128, 1, 0) / time_s(4, 16, 4096, 128, 1, 0)
    assert narrow < wide < 300e12


def test_fewer_kv_heads_never_cost_more() -> None:
    assert time_s(4, 32, 1024, 128, 1, 0, kv_heads=4) <= time_s(4, 32, 1024, 128, 1, 0)


def test_backward_takes_two_and_a_half_forwards_or_more() -> None:
    assert time_s(4, 16, 4096, 128, 1, 1) > 2.0 * time_s(4, 16, 4096, 128, 1, 0)
