"""Link use at a moment, and what every flow gets, against the step functions of the result."""

from __future__ import annotations

import re

import numpy as np
import pytest

import proteus as pt
from proteus.result.result import Result
from proteus_widgets.sharing import Sharing


@pytest.fixture(scope="module")
def result(small_tree: pt.StrategyTree, box: pt.Cluster) -> Result:
    return pt.simulate(small_tree, box)


def test_use_at_a_moment_is_that_of_every_link(result: Result) -> None:
    sharing = Sharing(result)
    for part in (0.1, 0.37, 0.62, 0.98):
        time_s = part * result.step_time_s
        expected = []
        for link in range(result.cluster.num_links):
            steps = result.link_use(link)
            at = int(np.searchsorted(steps.time_s, time_s, side="right")) - 1
            expected.append(float(steps.value[at]) if at >= 0 else 0.0)
        np.testing.assert_allclose(sharing.use_at(time_s), expected, atol=1e-9)


def test_use_over_time_averages_to_the_use_of_the_step(result: Result) -> None:
    link = int(result.link_utilisation.argmax())
    steps = result.link_use(link)
    middles = (steps.time_s[1:] + steps.time_s[:-1]) / 2
    use = np.array([Sharing(result).use_at(t)[link] for t in middles[:40]])
    np.testing.assert_allclose(use, steps.value[:40], atol=1e-9)


def test_flows_of_a_moment_fill_what_the_link_carries(result: Result) -> None:
    sharing = Sharing(result)
    link = int(result.link_utilisation.argmax())
    steps = result.link_use(link)
    busiest = int(steps.value.argmax())
    time_s = float(steps.time_s[busiest] + steps.time_s[busiest + 1]) / 2
    head, *lines = sharing.describe(link, time_s)
    assert f"{steps.value[busiest]:.1%} used at" in head
    found = [re.search(r"(\d+) flows? · each flow gets ([\d.e+]+) GB/s", line) for line in lines]
    carried_Bps = sum(int(match[1]) * float(match[2]) * 1e9 for match in found if match)
    assert carried_Bps == pytest.approx(steps.value[busiest] * result.cluster.link_capacity_Bps[link], rel=0.02)


def test_a_link_over_the_step_names_operations_and_rates(result: Result) -> None:
    head, *lines = Sharing(result).describe(int(result.link_utilisation.argmax()))
    assert "used" in head and lines
    assert all("together · each flow gets" in line for line in lines)


def test_an_idle_link_says_so(result: Result) -> None:
    idle = int(np.setdiff1d(np.arange(result.cluster.num_links), result.graph.folding.links)[0])
    assert Sharing(result).describe(idle)[1:] == ["no operation crosses it"]
    used = int(result.link_utilisation.argmax())
    assert Sharing(result).describe(used, 2 * result.step_time_s)[1:] == ["nothing crosses it now"]
