"""What the log of rates says of the links."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from proteus.htae.build import GraphBuilder
from proteus.htae.engine import play
from proteus.htae.tasks import TaskGraph
from proteus.htae.usage import flow_pieces, link_bytes, link_steps, link_utilisation
from tests.htae.random_graphs import task_graphs


@given(task_graphs())
def test_the_area_under_the_steps_is_the_bytes(graph: TaskGraph) -> None:
    timeline = play(graph)
    pieces = flow_pieces(graph, timeline)
    for link, expected in enumerate(link_bytes(graph)):
        steps = link_steps(graph, timeline, link, pieces)
        assert np.all(steps.value <= graph.link_capacity_Bps[link] * (1 + 1e-9))
        assert np.all(steps.value >= -1e-9)
        area = np.sum(steps.value[:-1] * np.diff(steps.time_s))
        np.testing.assert_allclose(area, expected, rtol=1e-9, atol=1e-9)
        assert len(steps.value) == 0 or steps.value[-1] == 0.0


@given(task_graphs())
def test_utilisation_is_a_part(graph: TaskGraph) -> None:
    utilisation = link_utilisation(graph, play(graph))
    assert np.all((utilisation >= 0) & (utilisation <= 1 + 1e-9))


def test_by_hand() -> None:
    builder = GraphBuilder(capacity_Bps=[12.0, 5.0])
    builder.comm(8.0, links={0: 2}, streams=[builder.stream(0)])  # 4 B/s for each of its flows
    builder.comm(20.0, links={0: 1}, streams=[builder.stream(1)])
    graph = builder.graph()
    timeline = play(graph)
    assert link_bytes(graph).tolist() == [36.0, 0.0]
    assert timeline.end_s.tolist() == [2.0, 3.0]
    assert link_utilisation(graph, timeline).tolist() == [1.0, 0.0]
    steps = link_steps(graph, timeline, 0)
    assert (steps.time_s.tolist(), steps.value.tolist()) == ([0.0, 2.0, 3.0], [12.0, 12.0, 0.0])
    assert link_steps(graph, timeline, 1).time_s.tolist() == []
    pieces = flow_pieces(graph, timeline)
    assert pieces.task.tolist() == [0, 1, 1]
    assert pieces.end_s.tolist() == [2.0, 2.0, 3.0]
    assert pieces.rate_Bps.tolist() == [4.0, 4.0, 12.0]
