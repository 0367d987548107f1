"""The ladder adds up to the step and its rungs are what they say."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import proteus as pt
from proteus.result.ladder import Rung, to_the_bit
from tests.result.samples import STRATEGIES, ideal_pipeline, result, small


def rungs(outcome: pt.simulate) -> dict[str, float]:  # type: ignore[valid-type]
    return {rung.label: rung.seconds for rung in outcome.explain().steps}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", STRATEGIES)
def test_adds_up_to_the_bit(name: str) -> None:
    outcome = result(name)
    explained = outcome.explain()
    assert math.fsum(rung.seconds for rung in explained.steps) == outcome.step_time_s
    assert explained.steps[0].seconds == pytest.approx(outcome.mfu * outcome.step_time_s)
    negative = [rung.label for rung in explained.steps if rung.seconds < 0]
    assert set(negative) <= {"extra or skipped FLOP"}


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=20))
def test_rounding_goes_to_the_largest(seconds: list[float]) -> None:
    total = math.fsum(seconds) * (1.0 + 1e-12)
    rungs_ = to_the_bit([Rung(label=str(i), seconds=s, note="") for i, s in enumerate(seconds)], total)
    assert math.fsum(r.seconds for r in rungs_) == pytest.approx(total, rel=1e-15)
    assert [r.seconds for r in rungs_] == pytest.approx(seconds, rel=1e-6)


def test_equal_stages_have_only_the_schedules_bubble() -> None:
    outcome = ideal_pipeline(4, 8, schedule="1f1b")
    ladder = rungs(outcome)
    assert ladder["pipeline bubble"] == pytest.approx(3 / 11 * outcome.step_time_s)
    assert ladder.get("uneven stages", 0.0) == pytest.approx(0.0, abs=1e-12)
    assert "host" not in ladder


def test_uneven_stages_are_told_from_the_bubble() -> None:
    model = pt.models.load("gpt2", layers=8)
    cluster = pt.clusters.load("dgx-a100")
    even, uneven = (
        rungs(pt.simulate(pt.StrategyTree(model).parallelize(pp=2, global_batch=16, layers_per_stage=layers), cluster))
        for layers in ((7, 1), (2, 6))  # the head weighs as much as several layers
    )
    assert uneven["uneven stages"] > even["uneven stages"]


def test_scales_by_row_have_the_peak_of_their_products() -> None:
    cluster = pt.clusters.load("dgx-h100")
    by_tensor, by_row = (
        pt.simulate(pt.StrategyTree(small()).parallelize(dp=8, global_batch=16, precision=name), cluster)
        for name in ("fp8", "fp8-rowwise")
    )
    assert rungs(by_tensor)["ideal compute"] == rungs(by_row)["ideal compute"]
    assert 0.0 < by_row.mfu < by_tensor.mfu


def test_what_is_asked_for_shows_as_a_rung() -> None:
    tree = pt.StrategyTree(small())
    cluster = pt.clusters.load("dgx-a100")
    plain = rungs(pt.simulate(tree.parallelize(dp=8, global_batch=16), cluster))
    full = rungs(pt.simulate(tree.parallelize(dp=8, global_batch=16, recompute="full"), cluster))
    slow = rungs(pt.simulate(tree.parallelize(dp=8, global_batch=16), cluster.slow_device(0, 1.5)))
    overlapped = tree.parallelize(dp=8, global_batch=16, bucket_bytes=1e7, overlap_gradients=True)
    beside, alone = (rungs(pt.simulate(overlapped, cluster, overlap=overlap)) for overlap in (True, False))
    assert "recomputation" not in plain
    assert full["recomputation"] > 0.1 * (plain["kernels below peak"] + plain["ideal compute"])
    assert slow["slow devices"] == pytest.approx(
        0.5 / 8 * (plain["ideal compute"] + plain["extra or skipped FLOP"] + plain["kernels below peak"]
                   + plain["memory-bound ops"] + plain["optimizer"]), rel=1e-6,
    )  # fmt: skip
    assert slow["waiting for ranks"] > 0 and "waiting for ranks" not in plain
    assert beside["overlap slow-down"] > 0 and "overlap slow-down" not in alone
