"""The data file of fitted numbers."""

from __future__ import annotations

import pytest

from proteus.costs.collectives import Protocol
from proteus.costs.links import families, link_traits, protocol_traits
from proteus.errors import InputError


@pytest.mark.parametrize("family", families())
def test_every_family_is_physical_and_has_a_source(family: str):
    traits = link_traits(family)
    assert 0 < traits.base_s < 1e-3
    assert all(0 < hop_s < 1e-3 for hop_s in (*traits.hop_s.values(), traits.pair_s, traits.nvls_s))
    assert set(traits.hop_s) == set(Protocol)
    assert traits.hop_s["ll"] <= traits.hop_s["ll128"] <= traits.hop_s["simple"]
    assert all(0 < share < 1 for share in (*traits.efficiency.values(), *traits.protocol_share.values()))
    assert all(half > 0 for half in traits.half_bytes.values())
    assert 0 < traits.ramp_power < 1
    assert 0.05 < traits.sigma < 1
    assert traits.source


def test_protocols_carry_flags():
    assert protocol_traits("ll").efficiency == 4 / 8
    assert protocol_traits("ll128").efficiency == 120 / 128
    assert protocol_traits("simple").efficiency == 1


def test_unknown_family_is_named():
    with pytest.raises(InputError, match="unknown family of links 'nvlink9'; nearest: nvlink"):
        link_traits("nvlink9")
