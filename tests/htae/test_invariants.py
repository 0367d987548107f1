"""The checks find what they are there to find: a timeline changed at one place is refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from proteus.htae.build import GraphBuilder
from proteus.htae.engine import play
from proteus.htae.invariants import alone_s, check_shares, check_timeline
from proteus.htae.tasks import TaskGraph


def busy_graph() -> TaskGraph:
    """Two rings share a NIC beside compute; a third task follows the first."""
    builder = GraphBuilder([12.0, 30.0], compute_slowdown=[[1.0]], comm_slowdown=[[0.5]])
    compute, ring = builder.stream(0), builder.stream(0)
    builder.compute(3.0, compute)
    first = builder.comm(12.0, links={0: 1, 1: 1}, streams=[ring], cap_Bps=20.0)
    builder.comm(18.0, links={0: 1}, streams=[builder.stream(1)])
    builder.compute(1.0, compute, after=[first])
    return builder.graph()


def test_the_true_timeline_passes() -> None:
    graph = busy_graph()
    check_timeline(graph, play(graph))


@pytest.mark.parametrize(
    ("column", "row", "change"),
    [
        ("start_s", 3, 0.5),
        ("start_s", 1, 0.5),
        ("end_s", 0, 0.5),
        ("end_s", 2, -0.5),
        ("cause", 3, -4),
        ("cause", 2, 1),
        ("rate", 0, 1.0),
        ("rate", -1, -1.0),
        ("rate_time_s", -1, 0.25),
    ],
)
def test_a_changed_timeline_fails(column: str, row: int, change: Any) -> None:
    graph = busy_graph()
    timeline = play(graph)
    values = getattr(timeline, column).copy()
    values[row] += change
    with pytest.raises(AssertionError):
        check_timeline(graph, dataclasses.replace(timeline, **{column: values}))


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_timeline_of_other_links_fails(factor: float) -> None:
    graph = busy_graph()
    changed = dataclasses.replace(graph, link_capacity_Bps=graph.link_capacity_Bps * factor)
    with pytest.raises(AssertionError):
        check_timeline(graph, play(changed))


@pytest.mark.parametrize("table", ["compute_slowdown", "comm_slowdown"])
def test_a_timeline_of_other_slowdowns_fails(table: str) -> None:
    graph = busy_graph()
    graph = dataclasses.replace(graph, pattern_cap_Bps=np.array([8.0, np.inf]))
    with pytest.raises(AssertionError):
        check_timeline(graph, play(dataclasses.replace(graph, **{table: getattr(graph, table) * 3})))


def test_shares() -> None:
    graph = busy_graph()
    check_shares(graph, {1: 4.0, 2: 8.0}, {1: 4.0, 2: np.inf})
    with pytest.raises(AssertionError, match=r"link 0 carries 14.0 of 12.0"):
        check_shares(graph, {1: 6.0, 2: 8.0}, {1: 6.0, 2: np.inf})
    with pytest.raises(AssertionError, match=r"nothing limits \{1\}"):
        check_shares(graph, {1: 4.0, 2: 8.0}, {1: 5.0, 2: np.inf})


def test_alone() -> None:
    assert alone_s(busy_graph()).tolist() == [3.0, 1.0, 1.5, 1.0]
