"""From the engine's times to spans: one lane per device and stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from proteus.compiler.graph import ExecutionGraph, RankClass
from proteus.compiler.kinds import SpanKind
from proteus.compiler.tables import CommRow, OpRow
from proteus.htae.segments import op_bounds
from proteus.htae.tasks import Timeline
from proteus.result.spans import Lane, Spans

if TYPE_CHECKING:
    from proteus.result.kernels import Source

LANE_STREAMS = (
    "compute",
    "tensor",
    "context",
    "expert",
    "pipeline",
    "gradient",
    "parameter",
    "to_host",
    "from_host",
    "host_update",
)
PIPELINE = LANE_STREAMS.index("pipeline")


def spans_of(graph: ExecutionGraph, timeline: Timeline) -> Spans:
    """All spans of the simulated devices, sorted by (lane, start).

    Ops of a segment are spans of their own; ops that take no time are left out.
    """
    from proteus.result import kernels  # numba takes long to import

    names: dict[str, int] = {}
    source = _source(graph, timeline, names)
    sends = _sends(graph, names)
    count = np.zeros((len(graph.classes), len(LANE_STREAMS)), np.int64)
    has_lane = np.zeros(count.shape, bool)
    has_lane[:, 0] = True
    for number, rank in enumerate(graph.classes):
        plan = graph.plans[rank.plan]
        kernels.count_spans(source, rank.task_of, plan.is_comm, plan.ref, count[number])
        has_lane[number, np.unique(source.comm_stream[plan.ref[plan.is_comm]])] = True
    for end_class, tasks, _, _ in sends:
        count[end_class, PIPELINE] += np.count_nonzero(timeline.end_s[tasks] > timeline.start_s[tasks])
        has_lane[end_class, PIPELINE] = True
    lane_ptr = np.concatenate([[0], np.cumsum(count[has_lane])])
    place = np.zeros_like(count)
    place[has_lane] = lane_ptr[:-1]
    dtypes = ("f8", "f8", "u1", "i4", "i4", "i4", "i4", "i4")
    out = kernels.Columns(*(np.empty(int(lane_ptr[-1]), dtype) for dtype in dtypes))
    for number, rank in enumerate(graph.classes):
        plan = graph.plans[rank.plan]
        kernels.put_spans(out, source, rank.task_of, plan.is_comm, plan.ref, plan.micro_batch, place[number])
    for end_class, tasks, node, name in sends:
        keep = np.flatnonzero(timeline.end_s[tasks] > timeline.start_s[tasks])
        mine = slice(place[end_class, PIPELINE], place[end_class, PIPELINE] + len(keep))
        place[end_class, PIPELINE] = mine.stop
        start_s = timeline.start_s[tasks[keep]]
        columns = (
            start_s, timeline.end_s[tasks[keep]] - start_s, SpanKind.PIPELINE_COMM, node, name, keep,
            graph.tasks.pattern[tasks[keep]], tasks[keep],
        )  # fmt: skip
        for column, values in zip(out, columns, strict=True):
            column[mine] = values
    for lane in kernels.unsorted_lanes(out.start_s, lane_ptr):
        mine = slice(lane_ptr[lane], lane_ptr[lane + 1])
        order = np.argsort(out.start_s[mine], kind="stable")
        for column in out:
            column[mine] = column[mine][order]
    return Spans(
        **out._asdict(),
        lane_ptr=lane_ptr,
        lanes=tuple(_lane(graph.classes[number], LANE_STREAMS[stream]) for number, stream in np.argwhere(has_lane)),
        names=tuple(names),
        pattern_ptr=graph.tasks.pattern_ptr,
        pattern_link=graph.folding.link_first[graph.tasks.pattern_link].astype(np.int32),
    )


def _lane(rank: RankClass, stream: str) -> Lane:
    return Lane(device=rank.device, stream=stream, label=f"GPU {rank.device} {stream}", multiplicity=rank.multiplicity)


def _source(graph: ExecutionGraph, timeline: Timeline, names: dict[str, int]) -> Source:
    """What the spans are read from; new names are added to `names`."""
    from proteus.result.kernels import Source

    tasks, node_of = graph.tasks, graph.node_of
    bounds = op_bounds(tasks, timeline)
    num_ops = np.where(tasks.segment >= 0, np.diff(tasks.segment_ptr)[tasks.segment], 0)

    def names_of(rows: Iterable[OpRow | CommRow]) -> np.ndarray:
        return np.array([names.setdefault(row.name, len(names)) for row in rows], np.int32)

    return Source(
        start_s=timeline.start_s,
        end_s=timeline.end_s,
        pattern=tasks.pattern,
        segment=tasks.segment,
        segment_ptr=tasks.segment_ptr,
        first_op=np.cumsum(num_ops) - num_ops,
        op_start_s=bounds.start_s,
        op_end_s=bounds.end_s,
        op_kind=np.array([row.span for row in graph.op_rows], np.uint8),
        op_node=np.array([node_of[row.node] for row in graph.op_rows], np.int32),
        op_name=names_of(graph.op_rows),
        comm_kind=np.array([row.span for row in graph.comm_rows], np.uint8),
        comm_node=np.array([node_of[row.node] for row in graph.comm_rows], np.int32),
        comm_name=names_of(graph.comm_rows),
        comm_stream=np.array([LANE_STREAMS.index(row.stream) for row in graph.comm_rows], np.int32),
    )


def _sends(graph: ExecutionGraph, names: dict[str, int]) -> list[tuple[int, np.ndarray, int, int]]:
    sends = []
    for transfer in graph.transfers:
        payload = "activations" if transfer.kind == 0 else "gradients"
        for end, verb in ((transfer.source, "send"), (transfer.target, "receive")):
            chunk = graph.chunks[transfer.chunk]
            node = graph.node_of[(chunk.links[-1].run.path, "")]
            sends.append((end, transfer.tasks, node, names.setdefault(f"{verb} {payload}", len(names))))
    return sends
