"""The network between hosts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from proteus.errors import TopologyError

#: InfiniBand, RoCE, Amazon's EFA, Google's GPUDirect-TCPXO, and TCP over Ethernet
NetworkFamily = Literal["ib", "roce", "efa", "tcpxo", "ethernet"]

#: hosts under one set of leaf switches: a scalable unit of NVIDIA's SuperPOD reference designs
HOSTS_PER_LEAF = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """Leaf switches and a spine above them.

    Parameters
    ----------
    kind
        ``"rail"``: NIC ``r`` of every host of a unit goes to leaf ``r`` of that
        unit.  ``"leaf"``: all NICs of a host go to the same leaf.
    oversubscription
        Rate of the NICs below a leaf by the rate of its uplinks.  At 1 the
        fabric never limits, and leaf and spine have no links.
    hosts_per_leaf
        Hosts of one unit.
    family
        What the NICs speak; the collective costs have a row for each.

    Examples
    --------
    >>> Fabric(kind="rail", oversubscription=2.0).has_links
    True
    """

    kind: Literal["rail", "leaf"] = "rail"
    oversubscription: float = 1.0
    hosts_per_leaf: int = HOSTS_PER_LEAF
    family: NetworkFamily = "ib"

    def __post_init__(self) -> None:
        if self.kind not in ("rail", "leaf"):
            raise TopologyError(f"fabric kind {self.kind!r} is not known; it is 'rail' or 'leaf'")
        if not self.oversubscription >= 1:
            raise TopologyError(f"fabric oversubscription {self.oversubscription:g} is below 1; 1 means none")
        if self.family not in get_args(NetworkFamily):
            raise TopologyError(
                f"fabric family {self.family!r} is not known; known: {', '.join(get_args(NetworkFamily))}"
            )
        if self.hosts_per_leaf < 1:
            raise TopologyError(f"fabric hosts_per_leaf {self.hosts_per_leaf} is below 1")

    @property
    def has_links(self) -> bool:
        """Whether leaf and spine can limit, and so are links."""
        return self.oversubscription > 1
