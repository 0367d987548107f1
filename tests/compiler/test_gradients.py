"""Buckets of gradients, as the framework fills them."""

from __future__ import annotations

import pytest

import proteus as pt

HC1 = pt.clusters.load("hc1")


def step_s(model: str, framework: str, *, overlap: bool) -> float:
    tree = pt.StrategyTree(pt.models.load(model)).parallelize(
        dp=8, micro_batch=32, global_batch=256, precision="fp32", optimizer="sgd", framework=framework,
        overlap_gradients=overlap,
    )  # fmt: skip
    return pt.simulate(tree, HC1).step_time_s


@pytest.mark.parametrize("model", ["resnet50", "inception-v3"])
def test_ddp_reduces_gradients_beside_the_backward(model: str) -> None:
    assert step_s(model, "ddp", overlap=True) < 0.95 * step_s(model, "ddp", overlap=False)
    # all gradients fill one of Megatron-Core's buckets, so there is nothing to do early
    assert step_s(model, "megatron-core", overlap=True) == step_s(model, "megatron-core", overlap=False)


def test_the_first_bucket_may_be_smaller() -> None:
    tree = pt.StrategyTree(pt.models.load("resnet50")).parallelize(dp=8, global_batch=256, framework="ddp")

    def sizes(framework: str) -> list[float]:
        graph = pt.simulate(tree.with_training(framework=framework), HC1).graph
        return [row.size_bytes for row in graph.comm_rows if "all_reduce gradients" in row.name]

    small, alike = sizes("ddp"), sizes("ddp, first_bucket_bytes=0")
    assert sum(small) == pytest.approx(sum(alike))
    assert len(small) > len(alike)
    assert small[0] < alike[0]
