"""Fused attention: its FLOP, the causal half, and the limits of the curve."""

from __future__ import annotations

import pytest

from proteus.costs.attention import attention_flop, attention_time_s
from proteus.hardware.curves import AttentionCurve

SHEET = (2.0, 300e12, 2e12, 108.0)
CURVE = AttentionCurve(
    eff=0.9, floor_s=5e-6, score_s=40e-12, fill_kv=100.0, memory_eff=0.9, wave=0.5, backward_eff=0.7, wide_cost=0.2,
    tail=0.5, backward_fill=2.0,
)  # fmt: skip


def time_s(
    batch: int,
    heads: int,
    seq: int,
    dim: int,
    causal: int,
    backward: int,
    kv_heads: int | None = None,
    curve: AttentionCurve = CURVE,
) -> float:
    shape = (batch, heads, kv_heads or heads, seq, seq, dim, dim, causal, backward)
    return attention_time_s(*shape, *SHEET, *curve)


def test_flop_by_hand() -> None:
    # two products of 2 s^2 d each; the triangle has s (s + 1) / 2 pairs; backward makes five of them
    assert attention_flop(1, 1, 4, 4, 8, 8, 0, 0) == 2 * 2 * 16 * 8
    assert attention_flop(1, 1, 4, 4, 8, 8, 1, 0) == 2 * 2 * 10 * 8
    assert attention_flop(1, 1, 4, 4, 8, 8, 0, 1) == 5 * 2 * 16 * 8


def test_causal_costs_half_when_long_and_many() -> None:
    assert time_s(1, 96, 32768, 128, 1, 0) / time_s(1, 96, 32768, 128, 0, 0) == pytest.approx(0.5, rel=0.02)


def test_the_last_long_block_of_a_causal_kernel_leaves_others_idle() -> None:
    # 16 heads x 128 blocks on 108 SMs: 19 blocks for each; the longest is two mean ones
    even, uneven = (time_s(1, 16, 16384, 128, 1, 0, curve=CURVE._replace(tail=tail)) for tail in (0.01, 0.5))
    assert uneven / even == pytest.approx(1.0 + 0.49 * 2.0 * 108 / (16 * 128), rel=0.01)
    # one block for each SM: the kernel ends with its longest block, whatever waits for it
    assert time_s(1, 1, 4096, 128, 1, 0) == time_s(1, 1, 4096, 128, 1, 0, curve=CURVE._replace(tail=0.01))


def test_queries_of_the_end_of_a_sequence_meet_nearly_all_keys() -> None:
    # the last 8,192 of 16,384 tokens: three quarters of the pairs, whether blocks are of queries or of keys
    shape = (4, 64, 64, 8192, 16384, 128, 128)
    for backward in (0, 1):
        causal, whole = (attention_time_s(*shape, causal, backward, *SHEET, *CURVE) for causal in (1, 0))
        assert causal / whole == pytest.approx(0.75, rel=0.02)


def test_short_causal_costs_more_than_half() -> None:
    assert time_s(32, 16, 512, 128, 1, 0) / time_s(32, 16, 512, 128, 0, 0) > 0.55


def test_rate_grows_with_the_head() -> None:
    narrow = attention_flop(4, 16, 4096, 4096, 64, 64, 1, 0) / time_s(4, 16, 4096, 64, 1, 0)
    wide = attention_flop(4, 16, 4096, 4096, 128, 128, 1, 0) / time_s(4, 16, 4096, 128, 1, 0)
    assert narrow < wide < 300e12


def test_fewer_kv_heads_never_cost_more() -> None:
    assert time_s(4, 32, 1024, 128, 1, 0, kv_heads=4) <= time_s(4, 32, 1024, 128, 1, 0)


def test_filling_a_block_costs_the_backward_more() -> None:
    plain = CURVE._replace(backward_fill=1.0)
    assert time_s(32, 16, 512, 128, 0, 0) == time_s(32, 16, 512, 128, 0, 0, curve=plain)
    assert time_s(32, 16, 512, 128, 0, 1) > 1.1 * time_s(32, 16, 512, 128, 0, 1, curve=plain)


def test_backward_takes_two_and_a_half_forwards_or_more() -> None:
    assert time_s(4, 16, 4096, 128, 1, 1) > 2.0 * time_s(4, 16, 4096, 128, 1, 0)
