"""What nobody decided is simulated both ways."""

from __future__ import annotations

import pytest

import proteus as pt
from proteus.result.result import Result
from proteus.result.switches import MIN_WORTH

CLUSTER = pt.clusters.load("dgx-h100")
LLAMA = pt.StrategyTree(pt.models.load("llama3-8b"))
RECIPE = {"dp": 2, "tp": 4, "global_batch": 16, "sequence_parallel": True, "zero": 1}


def run(**more: object) -> Result:
    return pt.simulate(LLAMA.parallelize(**RECIPE, **more), CLUSTER)


def test_a_framework_that_is_named_decides() -> None:
    named = run(framework="megatron-core")
    assert named.step_time_band.switches == () and named.step_time_band == named.kernel_band


def test_without_one_the_band_holds_both_ways() -> None:
    open_ = run()
    band = open_.step_time_band
    assert {"attention kernel", "tensor overlap"} <= {switch.name for switch in band.switches}
    for switch in band.switches:
        assert band.low_s <= switch.step_time_s <= band.high_s
        assert abs(switch.worth(open_.step_time_s)) >= MIN_WORTH
    assert band.low_s <= open_.kernel_band.low_s and open_.kernel_band.high_s <= band.high_s
    assert "undecided: " in str(band)
    assert open_.to_dict()["undecided"][0]["switch"] == band.switches[0].name


def test_the_other_way_is_what_saying_it_gives() -> None:
    switch = next(s for s in run().step_time_band.switches if s.name == "attention kernel")
    assert run(attention=switch.other).step_time_s == pytest.approx(switch.step_time_s, rel=1e-12)


def test_a_word_of_the_plan_decides_its_own_switch() -> None:
    names = {switch.name for switch in run(attention="cudnn", overlap_tensor="none").step_time_band.switches}
    assert not names & {"attention kernel", "tensor overlap"}


def test_what_hardly_matters_is_not_told() -> None:
    tree = LLAMA.parallelize(tp=8, sequence_parallel=True, attention="cudnn", overlap_tensor="all")
    band = pt.simulate(tree, CLUSTER).step_time_band
    assert all(switch.name != "overlap of gradients" for switch in band.switches)  # dp is 1
