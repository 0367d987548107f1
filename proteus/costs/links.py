"""The fitted numbers of each family of links, from ``data/collectives.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from proteus.errors import InputError, unknown
from proteus.units import US

_FILE = "collectives.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTraits:
    """How collectives behave on one family of links.

    Parameters
    ----------
    base_s
        Start and end of a collective, launch on the device included [s].
    hop_s
        One step from rank to rank, per protocol [s].
    pair_s
        One more peer in an exchange of all pairs [s].
    nvls_s
        One pass through the reducing switch [s].
    efficiency
        Largest share of the nominal bandwidth that is data, per style:
        ``ring``, ``tree``, ``nvls``, ``pairs``, ``p2p``.
    half_bytes
        Per style: bytes per rank at which waiting for chunks has halved the
        rate of the Simple protocol.
    protocol_share
        Largest share of the rate that LL and LL128 keep up with.
    own_share
        Per style: time in which a rank copies its own share, by the time of
        one step; only where no network is crossed.
    ramp_power
        How slowly the ramp rises.
    sigma
        Relative error on measurements that were held out.
    source
        Where the measurements come from.
    """

    base_s: float
    hop_s: Mapping[str, float]
    pair_s: float
    nvls_s: float
    efficiency: Mapping[str, float]
    half_bytes: Mapping[str, float]
    protocol_share: Mapping[str, float]
    own_share: Mapping[str, float]
    ramp_power: float
    sigma: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolTraits:
    """What a protocol adds: flags between the data."""

    efficiency: float


@cache
def _file() -> Mapping[str, Any]:
    text = (resources.files("proteus.costs") / "data" / _FILE).read_text(encoding="utf-8")
    content = yaml.safe_load(text)
    assert isinstance(content, dict)
    return content


@cache
def families() -> tuple[str, ...]:
    """Names of the families of links."""
    return tuple(_file()["links"])


@cache
def link_traits(family: str) -> LinkTraits:
    """The numbers of one family of links, such as ``"nvlink4"`` or ``"ib"``."""
    links = _file()["links"]
    if family not in links:
        raise InputError(unknown("family of links", family, links))
    row = links[family]
    return LinkTraits(
        base_s=row["base_us"] * US,
        hop_s={name: value * US for name, value in row["hop_us"].items()},
        pair_s=row["pair_us"] * US,
        nvls_s=row.get("nvls_us", 0.0) * US,
        efficiency=row["efficiency"],
        half_bytes={name: float(value) for name, value in row["half_bytes"].items()},
        protocol_share=row["protocol_share"],
        own_share=row["own_share"],
        ramp_power=row["ramp_power"],
        sigma=row["sigma"],
        source=row["source"],
    )


@cache
def protocol_traits(protocol: str) -> ProtocolTraits:
    """The numbers of one protocol: ``"ll"``, ``"ll128"`` or ``"simple"``."""
    row = _file()["protocols"][protocol]
    return ProtocolTraits(efficiency=row["efficiency"])
