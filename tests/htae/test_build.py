"""The builder fills the columns as the task graph describes them."""

from __future__ import annotations

from proteus.htae.build import GraphBuilder
from proteus.htae.tasks import TaskKind
from proteus.htae.validate import validate


def test_columns() -> None:
    builder = GraphBuilder([10.0, 20.0])
    compute, ring, other = builder.stream(3), builder.stream(3), builder.stream(4)
    launch = builder.host(0.5)
    op = builder.compute(1.0, compute, op_class=1, latency_s=0.25, after=[launch], priority=2)
    layer = builder.segment([(0, 1.0), (2, 2.0)], compute, release_s=4.0)
    reduce = builder.comm(7.0, links={1: 2, 0: 1}, streams=[ring, other], cap_Bps=5.0, after=[op, layer])
    again = builder.comm(8.0, links={0: 1, 1: 2}, streams=[ring], cap_Bps=5.0, kind=TaskKind.COPY, op_class=1)
    graph = builder.graph()
    validate(graph)
    assert graph.kind.tolist() == [TaskKind.HOST, TaskKind.COMPUTE, TaskKind.COMPUTE, TaskKind.COMM, TaskKind.COPY]
    assert graph.work.tolist() == [0.5, 1.0, 3.0, 7.0, 8.0]
    assert graph.latency_s.tolist() == [0.0, 0.25, 0.0, 0.0, 0.0]
    assert graph.release_s.tolist() == [0.0, 0.0, 4.0, 0.0, 0.0]
    assert graph.priority.tolist() == [0, 2, 0, 0, 0]
    assert graph.pred_ptr.tolist() == [0, 0, 1, 1, 3, 3]
    assert graph.pred.tolist() == [launch, op, layer]
    assert graph.stream_ptr.tolist() == [0, 2, 4, 5]
    assert graph.stream_task.tolist() == [op, layer, reduce, again, reduce]
    assert graph.stream_device.tolist() == [3, 3, 4]
    assert graph.segment.tolist() == [-1, -1, 0, -1, -1]
    assert (graph.segment_class.tolist(), graph.segment_work_s.tolist()) == ([0, 2], [1.0, 2.0])
    assert graph.pattern.tolist() == [-1, -1, -1, 0, 0]
    assert (graph.pattern_link.tolist(), graph.pattern_count.tolist()) == ([0, 1], [1, 2])
    assert graph.pattern_cap_Bps.tolist() == [5.0]
    assert graph.compute_slowdown.tolist() == [[0.0, 0.0]] * 3
    assert graph.comm_slowdown.tolist() == [[0.0] * 3] * 2


def test_empty() -> None:
    graph = GraphBuilder().graph()
    validate(graph)
    assert graph.num_tasks == graph.num_streams == 0
