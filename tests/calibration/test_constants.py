"""Constants from measured runs."""

from __future__ import annotations

from pathlib import Path

import pytest

import proteus as pt
from proteus.calibration import Constants, calibrate
from proteus.errors import InputError

CLUSTER = pt.clusters.load("dgx-a100", nodes=2)
TREE = pt.StrategyTree(pt.models.load("gpt2", layers=4)).parallelize(dp=16, global_batch=256, micro_batch=8)
WIDE = pt.StrategyTree(pt.models.load("gpt2", layers=4)).parallelize(dp=4, tp=4, global_batch=256, micro_batch=8)


def test_several_runs_part_the_constants() -> None:
    truth = Constants(compute=1.3, network=2.0)
    measured = [
        (tree, pt.simulate(tree, CLUSTER, calibration=truth.calibration()).step_time_s) for tree in (TREE, WIDE)
    ]
    constants = calibrate(CLUSTER, measured)
    assert constants.compute == pytest.approx(1.3, rel=0.1)
    assert constants.network > 1.3


def test_a_calibrated_cluster_predicts_with_its_constants() -> None:
    measured_s = 1.2 * pt.simulate(TREE, CLUSTER).step_time_s
    taught = CLUSTER.calibrate([(TREE, measured_s)])
    assert taught == CLUSTER  # the same machine; what is known of it differs
    assert pt.simulate(TREE, taught).step_time_s == pytest.approx(measured_s, rel=0.02)
    assert pt.simulate(WIDE, taught.with_nodes(4)).step_time_s > pt.simulate(WIDE, CLUSTER).step_time_s


def test_constants_are_saved_and_loaded(tmp_path: Path) -> None:
    path = tmp_path / "dgx.json"
    Constants(compute=1.1, host=0.9, source="two runs").save(path)
    assert Constants.load(path) == Constants(compute=1.1, host=0.9, source="two runs")
    path.write_text('{"speed": 2}')
    with pytest.raises(InputError, match="compute"):
        Constants.load(path)
    path.write_text('{"compute": 1e9}')
    with pytest.raises(InputError, match="between"):
        Constants.load(path)


@pytest.mark.parametrize("measured_s", [0.0, -1.0, float("nan")])
def test_a_measured_time_is_above_zero(measured_s: float) -> None:
    with pytest.raises(InputError, match="above 0"):
        calibrate(CLUSTER, [(TREE, measured_s)])
