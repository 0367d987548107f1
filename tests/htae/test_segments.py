"""Ops inside segments lie where they would as tasks of their own."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from proteus.htae.build import GraphBuilder
from proteus.htae.engine import play
from proteus.htae.reference import play_reference
from proteus.htae.segments import op_bounds
from proteus.htae.tasks import TaskGraph
from tests.htae.random_graphs import task_graphs, without_segments


@settings(max_examples=200)
@given(task_graphs())
def test_as_if_every_op_were_a_task(graph: TaskGraph) -> None:
    apart, first = without_segments(graph)
    expected = play_reference(apart)
    timeline = play(graph)
    bounds = op_bounds(graph, timeline)
    rows = first[bounds.task] + bounds.op
    begin_s = expected.start_s + apart.latency_s
    np.testing.assert_allclose(bounds.start_s, begin_s[rows], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(bounds.end_s, expected.end_s[rows], rtol=1e-12, atol=1e-12)


@given(task_graphs())
def test_ops_fill_their_task(graph: TaskGraph) -> None:
    timeline = play(graph)
    task, op, start_s, end_s = op_bounds(graph, timeline)
    is_first, is_last = op == 0, np.append(op[1:] == 0, True)[: len(op)]
    sizes = np.diff(graph.segment_ptr)[graph.segment[graph.segment >= 0]]
    assert np.bincount(task, minlength=graph.num_tasks)[graph.segment >= 0].tolist() == sizes.tolist()
    np.testing.assert_array_equal(start_s[is_first], (timeline.start_s + graph.latency_s)[task[is_first]])
    np.testing.assert_array_equal(end_s[is_last], timeline.end_s[task[is_last]])
    np.testing.assert_array_equal(end_s[~is_last], start_s[~is_first])
    assert np.all(end_s >= start_s)


def test_by_hand() -> None:
    """Class 1 runs at half speed beside the message, which runs from 1 s to 4 s."""
    builder = GraphBuilder([8.0], compute_slowdown=[[0.0], [1.0]], comm_slowdown=[[0.0, 0.0]])
    task = builder.segment([(0, 1.5), (0, 0.5), (1, 0.5), (1, 1.5)], builder.stream(0))
    builder.comm(24.0, links={0: 1}, streams=[builder.stream(0)], latency_s=1.0)
    graph = builder.graph()
    bounds = op_bounds(graph, play(graph))
    assert bounds.task.tolist() == [task] * 4
    assert bounds.op.tolist() == [0, 1, 2, 3]
    assert bounds.start_s.tolist() == [0.0, 1.5, 2.0, 3.0]
    assert bounds.end_s.tolist() == [1.5, 2.0, 3.0, 5.0]


def test_without_segments_there_are_no_ops() -> None:
    builder = GraphBuilder()
    builder.compute(1.0, builder.stream(0))
    graph = builder.graph()
    assert len(op_bounds(graph, play(graph)).task) == 0
