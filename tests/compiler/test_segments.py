"""Segments where the host is held: what it launches in one go takes at least as long as the launches."""

from __future__ import annotations

import pytest

import proteus as pt
from proteus.compiler.compile import compile_tree
from proteus.compiler.graph import ExecutionGraph
from proteus.compiler.kinds import SpanKind

CLUSTER = pt.clusters.load("dgx-a100")


def graph(framework: str, **degrees: object) -> ExecutionGraph:
    tree = pt.StrategyTree(pt.models.load("gpt2", layers=4)).parallelize(
        framework=f"megatron-core, {framework}", **degrees
    )
    return compile_tree(tree, CLUSTER)


def seconds(outcome: ExecutionGraph, block: str) -> float:
    """Of the ops of a block's forward on a device, once each [s]."""
    rows = [row.node[0] == block and row.span is SpanKind.FORWARD for row in outcome.op_rows]
    return float(outcome.tasks.segment_work_s[rows].sum())


def test_a_host_that_waits_between_passes_sets_the_time_of_small_blocks() -> None:
    free, held = (graph(f"op_s=1e-3, host_waits_for_passes={text}") for text in ("false", "true"))
    layer = next(run for run in free.tree.runs() if run.path.startswith("layers")).path
    assert seconds(held, layer) > 10 * seconds(free, layer)
    assert held.segment_is_held.any() and not free.segment_is_held.any()


def test_a_block_that_keeps_the_device_busy_is_not_held() -> None:
    """Some of its ops are shorter than their launch; over the whole block the host runs ahead."""
    free, held = (graph(f"op_s=1e-6, host_waits_for_passes={text}", micro_batch=16) for text in ("false", "true"))
    assert seconds(held, "head") == pytest.approx(seconds(free, "head"))


def test_routing_holds_the_host_within_a_block() -> None:
    model = pt.models.load("tiny-moe", layers=2)
    free, held = (
        compile_tree(
            pt.StrategyTree(model).parallelize(dp=2, ep=2, framework=f"megatron, host_waits_for_routing={text}"),
            CLUSTER,
        )
        for text in ("false", "true")
    )
    assert held.tasks.segment_work_s.sum() > free.tasks.segment_work_s.sum()
