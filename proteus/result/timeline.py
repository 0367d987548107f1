"""From the engine's times to spans: one lane per device and stream."""

from __future__ import annotations

import numpy as np

from proteus.compiler.graph import ExecutionGraph
from proteus.compiler.kinds import SpanKind
from proteus.htae.segments import op_bounds
from proteus.htae.tasks import Timeline
from proteus.result.spans import Lane, Spans

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


def spans_of(graph: ExecutionGraph, timeline: Timeline) -> Spans:
    """All spans of the devices that were played, sorted by (lane, start).

    Ops of a segment are spans of their own; ops that take no time are left out.
    """
    names: dict[str, int] = {}
    parts: list[tuple[np.ndarray, ...]] = []
    lanes: list[Lane] = []
    bounds = op_bounds(graph.tasks, timeline)
    first_row = np.full(graph.tasks.num_tasks + 1, -1, np.int64)
    if len(bounds.task):
        heads = np.flatnonzero(np.diff(bounds.task, prepend=-1))
        first_row[bounds.task[heads]] = heads
    op_name = np.array([names.setdefault(row.name, len(names)) for row in graph.op_rows], np.int32)
    op_node = np.array([graph.node_of[row.node] for row in graph.op_rows], np.int32)
    op_kind = np.array([row.span for row in graph.op_rows], np.uint8)
    comm_name = np.array([names.setdefault(row.name, len(names)) for row in graph.comm_rows], np.int32)
    comm_node = np.array([graph.node_of[row.node] for row in graph.comm_rows], np.int32)
    comm_kind = np.array([row.span for row in graph.comm_rows], np.uint8)
    comm_stream = np.array([LANE_STREAMS.index(row.stream) for row in graph.comm_rows], np.int32)
    sends = _sends(graph, names)
    segment_ptr = graph.tasks.segment_ptr
    for number, rank in enumerate(graph.classes):
        plan = graph.plans[rank.plan]
        compute = np.flatnonzero(~plan.is_comm)
        tasks = rank.task_of[compute]
        rows = graph.tasks.segment[tasks]
        counts = segment_ptr[rows + 1] - segment_ptr[rows]
        op = _ranges(segment_ptr[rows], counts)
        bound = _ranges(first_row[tasks], counts)
        start, end = bounds.start_s[bound], bounds.end_s[bound]
        micro = np.repeat(plan.micro_batch[compute], counts)
        none = np.full(len(op), -1, np.int32)
        owner = np.repeat(tasks, counts)
        found: dict[int, list[tuple[np.ndarray, ...]]] = {}
        found[0] = [(start, end - start, op_kind[op], op_node[op], op_name[op], micro, none, owner)]
        comm = np.flatnonzero(plan.is_comm)
        tasks, ref = rank.task_of[comm], plan.ref[comm]
        start = timeline.start_s[tasks]
        columns: tuple[np.ndarray, ...] = (
            start, timeline.end_s[tasks] - start, comm_kind[ref], comm_node[ref], comm_name[ref],
            plan.micro_batch[comm], graph.tasks.pattern[tasks], tasks,
        )  # fmt: skip
        for stream in np.unique(comm_stream[ref]).tolist() if len(ref) else []:
            mine = comm_stream[ref] == stream
            found.setdefault(stream, []).append(tuple(c[mine] for c in columns))
        for end_class, tasks, send_node, send_name in sends:
            if end_class == number:
                start = timeline.start_s[tasks]
                n = len(tasks)
                found.setdefault(LANE_STREAMS.index("pipeline"), []).append(
                    (
                        start, timeline.end_s[tasks] - start, np.full(n, SpanKind.PIPELINE_COMM, np.uint8),
                        np.full(n, send_node, np.int32), np.full(n, send_name, np.int32), np.arange(n, dtype=np.int32),
                        graph.tasks.pattern[tasks], tasks,
                    )
                )  # fmt: skip
        for stream in sorted(found):
            columns = tuple(np.concatenate(column) for column in zip(*found[stream], strict=True))
            keep = columns[1] > 0
            order = np.argsort(columns[0][keep], kind="stable")
            parts.append(tuple(c[keep][order] for c in columns))
            label = f"GPU {rank.device} {LANE_STREAMS[stream]}"
            lanes.append(
                Lane(device=rank.device, stream=LANE_STREAMS[stream], label=label, multiplicity=rank.multiplicity)
            )
    joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
    dtypes = ("f8", "f8", "u1", "i4", "i4", "i4", "i4", "i4")
    start, duration, kind, node, name, micro, pattern, task = (c.astype(d) for c, d in zip(joined, dtypes, strict=True))
    return Spans(
        start_s=start,
        duration_s=duration,
        kind=kind,
        node=node,
        name_id=name,
        micro_batch=micro,
        pattern=pattern,
        task=task,
        lane_ptr=np.concatenate([[0], np.cumsum([len(p[0]) for p in parts])]).astype(np.int64),
        lanes=tuple(lanes),
        names=tuple(names),
        pattern_ptr=graph.tasks.pattern_ptr,
        pattern_link=graph.folding.link_first[graph.tasks.pattern_link].astype(np.int32),
    )


def _sends(graph: ExecutionGraph, names: dict[str, int]) -> list[tuple[int, np.ndarray, int, int]]:
    found = []
    for transfer in graph.transfers:
        what = "activations" if transfer.kind == 0 else "gradients"
        for end, verb in ((transfer.source, "send"), (transfer.target, "receive")):
            chunk = graph.chunks[transfer.chunk]
            node = graph.node_of[(chunk.links[-1].run.path, "")]
            found.append((end, transfer.tasks, node, names.setdefault(f"{verb} {what}", len(names))))
    return found


def _ranges(first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """``first[i] ... first[i] + counts[i] - 1`` one after another."""
    total = int(counts.sum())
    offsets = np.cumsum(counts) - counts
    ranges: np.ndarray = np.repeat(first - offsets, counts) + np.arange(total)
    return ranges
