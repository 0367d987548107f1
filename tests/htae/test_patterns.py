"""Links that are left out decide nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from proteus.htae import patterns
from proteus.htae.build import GraphBuilder
from proteus.htae.engine import play
from proteus.htae.patterns import deciding_rows
from proteus.htae.tasks import TaskGraph
from tests.htae.random_graphs import task_graphs


def test_a_ring_alone_keeps_no_link() -> None:
    builder = GraphBuilder([12.0, 6.0, 9.0])
    streams = [builder.stream(device) for device in range(2)]
    for size in (1.0, 2.0):
        builder.comm(size, links={0: 1, 1: 2}, streams=streams, cap_Bps=size)
    found, rows = deciding_rows(builder.graph(), np.array([0, 0], "i4"))
    assert len(rows) == 0
    assert found["limit_Bps"].tolist() == [3.0, 3.0]
    assert found["cap_Bps"].tolist() == [1.0, 2.0]


def test_of_links_with_the_same_flows_the_narrowest_stays() -> None:
    builder = GraphBuilder([12.0, 6.0, 9.0, 1.0, 2.0])
    builder.comm(1.0, links={0: 1, 1: 1, 2: 1, 3: 1}, streams=[builder.stream(0)])
    builder.comm(1.0, links={0: 2, 1: 2, 2: 1}, streams=[builder.stream(1)])
    found, rows = deciding_rows(builder.graph(), np.array([0, 1], "i4"))
    # links 0 and 1 carry the same; link 2 carries another number of the second; 3 is private; 4 is not used
    assert rows["link"].tolist() == [1, 2, 1, 2]
    assert rows["count"].tolist() == [1, 1, 2, 1]
    assert found["limit_Bps"].tolist() == [1.0, np.inf]


@given(task_graphs())
def test_no_time_changes_by_a_bit(graph: TaskGraph) -> None:
    without = play(graph)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patterns, "narrowest", lambda graph, user: np.ones(len(user), bool))
        every = play(graph)
    assert without.start_s.tolist() == every.start_s.tolist()
    assert without.end_s.tolist() == every.end_s.tolist()
    assert without.rate.tolist() == every.rate.tolist()
