"""What faults may be."""

from __future__ import annotations

import pytest

import proteus as pt
from proteus.cluster import Faults
from proteus.errors import TopologyError


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_a_slow_device_needs_a_positive_factor(factor: float) -> None:
    with pytest.raises(TopologyError, match="device 3 slower by the factor"):
        Faults(slow_devices=((3, factor),))


@pytest.mark.parametrize("fraction", [0.0, -0.5, 1.5, float("nan")])
def test_a_slow_link_needs_a_fraction(fraction: float) -> None:
    with pytest.raises(TopologyError, match=r"link 'nic0->net' at the fraction .*without_nic"):
        Faults(slow_links=(("nic0->net", fraction),))


def test_no_faults_are_false() -> None:
    assert not Faults() and Faults(slow_devices=((0, 2.0),))


def test_jitter_is_the_same_for_equal_seeds() -> None:
    cluster = pt.clusters.load("dgx-a100")
    one, same, other = (cluster.with_jitter(0.02, seed=seed).device_slowdown for seed in (1, 1, 2))
    assert (one == same).all() and (one != other).all() and (one >= 1).all() and one.max() < 1.2
    tree = pt.StrategyTree(pt.models.load("tiny-llama")).parallelize(dp=8, global_batch=8)
    even, uneven = (pt.simulate(tree, c).step_time_s for c in (cluster, cluster.with_jitter(0.3)))
    assert uneven > even
    with pytest.raises(pt.TopologyError, match="sigma=-1; it must be a finite number of at least 0"):
        cluster.with_jitter(-1)
