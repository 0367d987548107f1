"""What faults may be."""

from __future__ import annotations

import pytest

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
