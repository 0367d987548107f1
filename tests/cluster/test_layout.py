"""What a layout refuses, and its nearest NICs."""

from __future__ import annotations

from typing import Any

import pytest

from proteus.cluster.layout import Layout, Slot
from proteus.errors import TopologyError


def layout(**changes: Any) -> Layout:
    """Two CPUs; GPU 0 and nic0 below a switch, GPU 1 on cpu0, GPU 2 on cpu1."""
    parts: dict[str, Any] = {
        "cpus": ("cpu0", "cpu1"),
        "switches": (Slot(name="pcie0", parent="cpu0", up_Bps=30e9),),
        "gpu_slots": (
            Slot(name="gpu0", parent="pcie0", up_Bps=30e9),
            Slot(name="gpu1", parent="cpu0", up_Bps=30e9),
            Slot(name="gpu2", parent="cpu1", up_Bps=30e9),
        ),
        "nics": (Slot(name="nic0", parent="pcie0", up_Bps=25e9), Slot(name="nic1", parent="cpu0", up_Bps=25e9)),
        "gpus": (None, None, None),
        "socket_Bps": 10e9,
        "memory_Bps": 100e9,
    }
    return Layout(**(parts | changes))


def test_nearest_by_the_deepest_common_ancestor() -> None:
    host = layout()
    assert [host.nearest_nics(gpu) for gpu in range(3)] == [("nic0",), ("nic0", "nic1"), ("nic0", "nic1")]


def test_nearest_stays_on_the_board() -> None:
    host = layout(cpus_per_board=1)
    assert host.nearest_nics(2) == ()
    assert host.nearest_nics(1) == ("nic0", "nic1")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nics": (Slot(name="nic0", parent="pcie9", up_Bps=1.0),)}, "nic0 hangs from 'pcie9'"),
        ({"nics": (Slot(name="gpu0", parent="cpu0", up_Bps=1.0),)}, "two parts of the host are called 'gpu0'"),
        ({"nics": (Slot(name="nic0", parent="cpu0", up_Bps=0.0),)}, "the link of nic0 has 0 B/s"),
        ({"direct": ((1, 0, 1.0),)}, "a direct link joins GPU 1 and 0"),
        ({"gpu_slots": (), "gpus": ()}, "the host has no GPU"),
    ],
)
def test_refusals(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        layout(**changes)
