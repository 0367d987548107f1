"""Max-min fair rates: the twin, the kernel, and what defines the solution."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from proteus.htae.rates import INFINITE, max_min, max_min_reference
from tests.htae.random_graphs import CAPACITIES_BPS, CAPS_BPS

Flows = list[dict[int, int]]


@st.composite
def networks(draw: st.DrawFn) -> tuple[Flows, list[float], list[float]]:
    num_links = draw(st.integers(1, 6))
    flows = draw(st.lists(st.dictionaries(st.integers(0, num_links - 1), st.integers(1, 4)), min_size=1, max_size=8))
    caps = draw(st.lists(CAPS_BPS, min_size=len(flows), max_size=len(flows)))
    return flows, caps, draw(st.lists(CAPACITIES_BPS, min_size=num_links, max_size=num_links))


def with_kernel(flows: Flows, caps_Bps: list[float], capacities_Bps: list[float]) -> list[float]:
    ptr = np.cumsum([0, *map(len, flows)]).astype("i4")
    link = np.array([link for row in flows for link in row], "i4")
    count = np.array([count for row in flows for count in row.values()], "i4")
    rates: list[float] = max_min(ptr, link, count, np.array(caps_Bps), np.array(capacities_Bps)).tolist()
    return rates


@given(networks())
def test_kernel_equals_the_twin_to_the_bit(network: tuple[Flows, list[float], list[float]]) -> None:
    assert with_kernel(*network) == max_min_reference(*network)


@given(networks())
def test_nothing_can_be_raised_without_lowering_a_smaller_one(network: tuple[Flows, list[float], list[float]]) -> None:
    """The definition: each task is at its cap, or on a full link on which nobody has more."""
    flows, caps_Bps, capacities_Bps = network
    rates = with_kernel(*network)
    used = [
        sum(row[link] * rate for row, rate in zip(flows, rates) if link in row) for link in range(len(capacities_Bps))
    ]
    for load, capacity in zip(used, capacities_Bps, strict=True):
        assert load <= capacity * (1 + 1e-12)
    for row, rate, cap in zip(flows, rates, caps_Bps, strict=True):
        full = [link for link in row if used[link] >= capacities_Bps[link] * (1 - 1e-12)]
        most = [max(r for other, r in zip(flows, rates) if link in other) for link in full]
        assert rate == cap or any(rate >= largest * (1 - 1e-12) for largest in most)


@given(networks(), st.randoms())
def test_order_does_not_matter(network: tuple[Flows, list[float], list[float]], random: Random) -> None:
    flows, caps_Bps, capacities_Bps = network
    order = list(range(len(flows)))
    random.shuffle(order)
    shuffled = with_kernel([flows[i] for i in order], [caps_Bps[i] for i in order], capacities_Bps)
    assert shuffled == [with_kernel(*network)[i] for i in order]


def test_a_link_of_zero_gives_nothing() -> None:
    assert with_kernel([{0: 1}, {1: 1}], [INFINITE, INFINITE], [0.0, 3.0]) == [0.0, 3.0]


def test_a_link_without_limit_limits_nothing() -> None:
    assert with_kernel([{0: 1}, {0: 1, 1: 2}], [INFINITE, INFINITE], [INFINITE, 3.0]) == [INFINITE, 1.5]
