"""Bounds are never above what a simulation finds."""

from __future__ import annotations

import pytest

import proteus as pt
from proteus.search.bounds import guessed_time, least_flop, least_memory, least_time
from proteus.search.space import Shape, shapes

MODEL, CLUSTER = pt.models.load("gpt2"), pt.clusters.load("dgx-a100")
SHAPES = shapes(MODEL, CLUSTER, 16, ("1f1b", "interleaved", "zb-h1"))


@pytest.mark.parametrize("shape", SHAPES[::7], ids=str)
def test_bounds_hold(shape: Shape) -> None:
    result = pt.simulate(pt.StrategyTree(MODEL).parallelize(**shape.settings()), CLUSTER)
    assert least_time(MODEL, CLUSTER, shape, "bf16") <= result.step_time_s
    assert least_memory(result.tree, CLUSTER) <= result.peak_memory_bytes
    assert guessed_time(MODEL, CLUSTER, shape, "bf16") > 0


def test_memory_bound_counts_micro_batches_in_flight() -> None:
    trees = [pt.StrategyTree(MODEL).parallelize(pp=4, global_batch=batch) for batch in (2, 4, 8)]
    two, four, many = (least_memory(tree, CLUSTER) for tree in trees)
    assert two < four == many  # the first of four stages keeps four micro-batches however many there are


def test_least_flop_leaves_out_scores() -> None:
    assert 2.0 * MODEL.flop() < least_flop(MODEL) < 3.0 * MODEL.flop()


def test_bounds_hold_for_adapters() -> None:
    """Weights that are frozen have no gradient: what bounds the training of all would be too high."""
    adapted = pt.with_lora(MODEL, pt.Lora(rank=8))
    shape = SHAPES[0]
    result = pt.simulate(pt.StrategyTree(adapted).parallelize(**shape.settings()), CLUSTER)
    assert least_flop(adapted) < result.model_flop / shape.global_batch < least_flop(MODEL)
    assert least_time(adapted, CLUSTER, shape, "bf16") <= result.step_time_s
    assert least_memory(result.tree, CLUSTER) <= result.peak_memory_bytes
