"""Every operator lies below the roof, and the points are those of the result."""

from __future__ import annotations

import pytest

import proteus as pt
from proteus.result.spans import SpanKind
from proteus_widgets.roofline import roofline


def test_points_lie_below_the_roof_and_count_the_work(small_tree: pt.StrategyTree, box: pt.Cluster) -> None:
    result = pt.simulate(small_tree, box)
    found = roofline(result)
    assert {point.kind for point in found.points} >= {SpanKind.FORWARD, SpanKind.BACKWARD, SpanKind.WEIGHT_GRAD}
    for point in found.points:
        assert 0 < point.flops <= 1.001 * min(found.peak_flops, point.intensity * found.memory_Bps), point
    assert 0.3 < sum(point.share for point in found.points) <= 1.0
    names = set(result.spans.names)
    assert {point.name for point in found.points} <= names


def test_a_larger_micro_batch_raises_the_intensity(small_tree: pt.StrategyTree, box: pt.Cluster) -> None:
    def intensity(micro_batch: int) -> float:
        tree = pt.StrategyTree(small_tree.model).parallelize(dp=2, tp=2, pp=2, micro_batch=micro_batch, global_batch=16)
        points = roofline(pt.simulate(tree, box)).points
        return next(p.intensity for p in points if p.kind is SpanKind.FORWARD and p.name.endswith("fc1"))

    assert intensity(4) > intensity(1)


def test_the_chart_draws_them(small_tree: pt.StrategyTree, box: pt.Cluster) -> None:
    pytest.importorskip("bokeh")
    from proteus_widgets import figures

    result = pt.simulate(small_tree, box)
    plot = figures.roofline(result)
    drawn = sum(len(glyphs.data_source.data["name"]) for glyphs in plot.select(name="ops"))
    assert drawn == len(roofline(result).points)
