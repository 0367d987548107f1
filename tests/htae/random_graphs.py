"""Random task graphs for Hypothesis: small, connected and full of ties."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import strategies as st

from proteus.htae.build import GraphBuilder
from proteus.htae.tasks import TaskGraph, TaskKind

INFINITE = float("inf")
#: few round values make tasks end together; odd ones make rounding visible
TIMES_S = st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.0, 0.1, 1 / 3, 0.7])
SIZES_BYTES = st.sampled_from([0.0, 6.0, 12.0, 12.0, 7.3, 100 / 3])
CAPACITIES_BPS = st.sampled_from([1.0, 3.0, 12.0, 12.0, 5.7])
CAPS_BPS = st.sampled_from([INFINITE, INFINITE, 2.0, 4.0, 1.1])
SLOWDOWNS = st.sampled_from([0.0, 0.0, 0.5, 1.0, 0.3])
LATENCIES_S = st.sampled_from([0.0, 0.0, 0.5, 0.25])


@st.composite
def task_graphs(draw: st.DrawFn, *, segments: bool = True, overlap: bool = True, max_tasks: int = 24) -> TaskGraph:
    """A graph that can finish: tasks join their streams in the order of their ids."""
    num_links, num_devices = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    num_compute, num_comm = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    slow = SLOWDOWNS if overlap else st.just(0.0)
    builder = GraphBuilder(
        draw(st.lists(CAPACITIES_BPS, min_size=num_links, max_size=num_links)),
        [[draw(slow) for _ in range(num_comm)] for _ in range(num_compute)],
        [[draw(slow) for _ in range(num_compute)] for _ in range(num_comm)],
    )
    streams = [[builder.stream(device) for _ in range(draw(st.integers(1, 3)))] for device in range(num_devices)]
    every = [stream for own in streams for stream in own]
    for task in range(draw(st.integers(1, max_tasks))):
        timing = {
            "after": draw(st.lists(st.integers(0, task - 1), max_size=2)) if task else [],
            "release_s": draw(st.sampled_from([0.0, 0.0, 0.0, 1.5])),
        }
        task_kind = draw(st.sampled_from(["compute", "comm", "comm", "copy", "segment", "segment", "host"]))
        own = draw(st.sampled_from(streams))
        if task_kind == "host":
            builder.host(draw(TIMES_S), draw(st.sampled_from([[], [own[-1]]])), **timing)
            continue
        timing |= {"latency_s": draw(LATENCIES_S), "priority": draw(st.integers(0, 1))}
        if task_kind == "segment" and segments:
            ops = st.lists(st.tuples(st.integers(0, num_compute - 1), TIMES_S), min_size=1, max_size=5)
            builder.segment(draw(ops), own[0], **timing)
        elif task_kind in ("compute", "segment"):
            builder.compute(draw(TIMES_S), own[0], op_class=draw(st.integers(0, num_compute - 1)), **timing)
        else:
            builder.comm(
                draw(SIZES_BYTES),
                links=draw(st.dictionaries(st.integers(0, num_links - 1), st.integers(1, 3), max_size=num_links)),
                streams=draw(st.lists(st.sampled_from(every), unique=True, max_size=4)),
                cap_Bps=draw(CAPS_BPS),
                op_class=draw(st.integers(0, num_comm - 1)),
                kind=TaskKind.COPY if task_kind == "copy" else TaskKind.COMM,
                **timing,
            )
    return builder.graph()


def without_segments(graph: TaskGraph) -> tuple[TaskGraph, np.ndarray]:
    """The same graph with every op of a segment as a task of its own.

    Also returns int[tasks + 1]: task ``i`` has become tasks ``first[i]:first[i + 1]``.
    """
    is_segment = graph.segment >= 0
    sizes = np.where(is_segment, np.diff(graph.segment_ptr, append=0)[graph.segment], 1)
    first = np.concatenate(([0], np.cumsum(sizes)))
    origin = np.repeat(np.arange(graph.num_tasks), sizes)
    is_first = first[origin] == np.arange(len(origin))
    row = graph.segment_ptr[graph.segment[origin]] + np.arange(len(origin)) - first[origin]
    row = np.where(is_segment[origin], row, 0)
    padded_work, padded_class = np.append(graph.segment_work_s, 0.0), np.append(graph.segment_class, 0)
    preds = [
        first[graph.pred[graph.pred_ptr[t] : graph.pred_ptr[t + 1]] + 1] - 1 if starts else np.array([i - 1])
        for i, (t, starts) in enumerate(zip(origin, is_first, strict=True))
    ]
    queues = [graph.stream_task[a:b] for a, b in zip(graph.stream_ptr[:-1], graph.stream_ptr[1:], strict=True)]
    queues = [np.concatenate([np.arange(first[t], first[t + 1]) for t in queue] or [[]]) for queue in queues]
    expanded = dataclasses.replace(
        graph,
        kind=graph.kind[origin],
        latency_s=np.where(is_first, graph.latency_s[origin], 0.0),
        work=np.where(is_segment[origin], padded_work[row], graph.work[origin]),
        release_s=np.where(is_first, graph.release_s[origin], 0.0),
        priority=graph.priority[origin],
        pred_ptr=np.cumsum([0, *map(len, preds)]).astype("i4"),
        pred=np.concatenate(preds).astype("i4"),
        stream_ptr=np.cumsum([0, *map(len, queues)]).astype("i4"),
        stream_task=np.concatenate(queues).astype("i4"),
        segment=np.full(len(origin), -1, "i4"),
        pattern=graph.pattern[origin],
        op_class=np.where(is_segment[origin], padded_class[row], graph.op_class[origin]).astype("i2"),
    )
    return expanded, first


def copies(graph: TaskGraph, num_copies: int, is_shared: np.ndarray) -> TaskGraph:
    """`num_copies` of a graph side by side; they share the links of `is_shared` and have the others each."""
    num_links, num_devices = len(is_shared), int(graph.stream_device.max(initial=-1)) + 1
    link = np.where(is_shared[graph.pattern_link], 0, num_links)[None, :] * np.arange(num_copies)[:, None]

    def rows(values: np.ndarray, step: int) -> np.ndarray:
        """Values that name rows of another column, which has `step` rows per copy; -1 stays."""
        moved = np.where(values >= 0, values + step * np.arange(num_copies)[:, None], -1)
        return moved.ravel().astype(values.dtype)

    def ptr(values: np.ndarray) -> np.ndarray:
        return np.cumsum(np.concatenate(([0], np.tile(np.diff(values), num_copies)))).astype("i4")

    def tile(values: np.ndarray) -> np.ndarray:
        return np.tile(values, num_copies)

    return dataclasses.replace(
        graph,
        kind=tile(graph.kind),
        latency_s=tile(graph.latency_s),
        work=tile(graph.work),
        release_s=tile(graph.release_s),
        priority=tile(graph.priority),
        pred_ptr=ptr(graph.pred_ptr),
        pred=rows(graph.pred, graph.num_tasks),
        stream_ptr=ptr(graph.stream_ptr),
        stream_task=rows(graph.stream_task, graph.num_tasks),
        stream_device=rows(graph.stream_device, num_devices),
        segment=tile(graph.segment),
        pattern=rows(graph.pattern, len(graph.pattern_cap_Bps)),
        pattern_ptr=ptr(graph.pattern_ptr),
        pattern_link=(graph.pattern_link + link).ravel().astype("i4"),
        pattern_count=tile(graph.pattern_count),
        pattern_cap_Bps=tile(graph.pattern_cap_Bps),
        op_class=tile(graph.op_class),
        link_capacity_Bps=tile(graph.link_capacity_Bps),
    )
