"""What a fabric may be."""

from __future__ import annotations

from typing import Any

import pytest

from proteus.cluster import Fabric
from proteus.errors import TopologyError


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "torus"}, "fabric kind 'torus' is not known; it is 'rail' or 'leaf'"),
        ({"oversubscription": 0.5}, "oversubscription 0.5 is below 1"),
        ({"hosts_per_leaf": 0}, "hosts_per_leaf 0 is below 1"),
        ({"family": "carrier pigeon"}, "family 'carrier pigeon' is not known; known: ib, roce"),
    ],
)
def test_refusals(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        Fabric(**wrong)


def test_links_only_when_they_can_limit() -> None:
    assert not Fabric().has_links and Fabric(oversubscription=1.5).has_links
