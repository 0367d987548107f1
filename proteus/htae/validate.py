"""Check a task graph before it is played, and say why one cannot finish."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from proteus.errors import SimulationError
from proteus.htae.columns import row_with_repeat
from proteus.htae.tasks import TaskGraph, TaskKind

#: dtypes of the columns, as the kernels are compiled for them
DTYPES = {
    "kind": "u1",
    "latency_s": "f8",
    "work": "f8",
    "release_s": "f8",
    "priority": "i4",
    "pred_ptr": "i4",
    "pred": "i4",
    "stream_ptr": "i4",
    "stream_task": "i4",
    "stream_device": "i4",
    "segment": "i4",
    "segment_ptr": "i4",
    "segment_work_s": "f8",
    "segment_class": "i2",
    "pattern": "i4",
    "pattern_ptr": "i4",
    "pattern_link": "i4",
    "pattern_count": "i4",
    "pattern_cap_Bps": "f8",
    "op_class": "i2",
    "link_capacity_Bps": "f8",
    "compute_slowdown": "f8",
    "comm_slowdown": "f8",
}

_NONE = np.empty(0)


def validate(graph: TaskGraph, describe: Callable[[int], str] = str) -> None:
    """Raise :class:`SimulationError` where a column breaks what :class:`TaskGraph` says of it.

    Linear in the size of the graph, and vectorised: it runs before every play.
    """
    n, num_streams = graph.num_tasks, graph.num_streams
    for name, dtype in DTYPES.items():
        column = getattr(graph, name)
        if column.dtype != dtype or not column.flags.c_contiguous:
            raise SimulationError(f"column {name} is {column.dtype}; it must be contiguous {np.dtype(dtype)}")
    for name in ("latency_s", "work", "release_s", "priority", "segment", "pattern", "op_class"):
        if len(getattr(graph, name)) != n:
            raise SimulationError(f"column {name} has {len(getattr(graph, name))} rows for {n} tasks")
    _check_csr("pred", graph.pred_ptr, graph.pred, n, n)
    _check_csr("stream", graph.stream_ptr, graph.stream_task, num_streams, n)
    _check_csr(
        "pattern", graph.pattern_ptr, graph.pattern_link, len(graph.pattern_cap_Bps), len(graph.link_capacity_Bps)
    )
    _check_csr(
        "segment", graph.segment_ptr, graph.segment_class, len(graph.segment_ptr) - 1, len(graph.compute_slowdown)
    )
    if num_streams and graph.stream_device.min() < 0:
        raise SimulationError("a stream has a negative device; number devices from 0")
    for name in ("latency_s", "work", "release_s"):
        column = getattr(graph, name)
        if n and not (column.min() >= 0 and column.max() < np.inf):
            task = int(np.flatnonzero(~((column >= 0) & (column < np.inf)))[0])
            raise SimulationError(
                f"task {describe(task)} has {name} {column[task]}; it must be finite and not negative"
            )
    if len(graph.segment_work_s) != len(graph.segment_class) or not np.all(graph.segment_work_s >= 0):
        raise SimulationError("segment_work_s must have one time >= 0 for every op of segment_class")
    if len(graph.pattern_count) != len(graph.pattern_link) or not np.all(graph.pattern_count > 0):
        raise SimulationError("pattern_count must have one count > 0 for every link of pattern_link")
    for name in ("pattern_cap_Bps", "link_capacity_Bps", "compute_slowdown", "comm_slowdown"):
        if not np.all(getattr(graph, name) >= 0):
            raise SimulationError(f"column {name} has a value that is not >= 0")
    repeat = row_with_repeat(graph.pattern_ptr, graph.pattern_link, len(graph.link_capacity_Bps))
    if repeat >= 0:
        raise SimulationError(f"pattern {repeat} names a link twice; sum its counts into one row")
    _check_kinds(graph, describe)


def _check_csr(name: str, ptr: np.ndarray, values: np.ndarray, num_rows: int, bound: int) -> None:
    if len(ptr) != num_rows + 1 or ptr[0] != 0 or ptr[-1] != len(values) or np.any(ptr[1:] < ptr[:-1]):
        raise SimulationError(f"CSR {name}: the pointer does not cut {len(values)} values in {num_rows} rows")
    if len(values) and (values.min() < 0 or values.max() >= bound):
        raise SimulationError(f"CSR {name}: values {values.min()}..{values.max()} are not in 0..{bound - 1}")


def _check_kinds(graph: TaskGraph, describe: Callable[[int], str]) -> None:
    kind, num_patterns, num_segments = graph.kind, len(graph.pattern_cap_Bps), len(graph.segment_ptr) - 1
    is_flow = (kind == TaskKind.COMM) | (kind == TaskKind.COPY)
    is_compute = kind == TaskKind.COMPUTE
    num_compute, num_comm = graph.compute_slowdown.shape
    if graph.comm_slowdown.shape != (num_comm, num_compute):
        raise SimulationError(
            f"compute_slowdown is {graph.compute_slowdown.shape} and comm_slowdown {graph.comm_slowdown.shape}; "
            "one must have the transposed shape of the other"
        )
    rules = (
        (kind > TaskKind.HOST, "has an unknown kind"),
        (is_flow & ((graph.pattern < 0) | (graph.pattern >= num_patterns)), "communicates and has no flow pattern"),
        (~is_flow & (graph.pattern >= 0), "has a flow pattern and does not communicate"),
        ((graph.segment < -1) | (graph.segment >= num_segments), "has a segment that is no row of segment_ptr"),
        (~is_compute & (graph.segment >= 0), "has a segment and does not compute"),
        (is_flow & ((graph.op_class < 0) | (graph.op_class >= num_comm)), "has a class outside comm_slowdown"),
        (
            is_compute & (graph.segment < 0) & ((graph.op_class < 0) | (graph.op_class >= num_compute)),
            "has a class outside compute_slowdown",
        ),
    )
    for is_broken, rule in rules:
        if is_broken.any():
            raise SimulationError(f"task {describe(int(is_broken.argmax()))} {rule}")
    tasks = np.flatnonzero(graph.segment >= 0)
    totals_s = np.add.reduceat(np.append(graph.segment_work_s, 0.0), graph.segment_ptr[:-1]) if num_segments else _NONE
    totals_s = np.where(np.diff(graph.segment_ptr) > 0, totals_s, 0.0)[graph.segment[tasks]]
    is_off = np.abs(graph.work[tasks] - totals_s) > 1e-9 * totals_s
    if is_off.any():
        task = int(tasks[is_off.argmax()])
        raise SimulationError(
            f"task {describe(task)} has work {graph.work[task]} and its segment {totals_s[is_off.argmax()]}; "
            "they must be equal"
        )


def explain_stuck(
    graph: TaskGraph, has_started: np.ndarray, end_s: np.ndarray, describe: Callable[[int], str] = str
) -> str:
    """Why the tasks that have not ended cannot: the cycle of waits, or the flow without bandwidth."""
    open_tasks = np.flatnonzero(np.isinf(end_s))
    running = open_tasks[has_started[open_tasks]]
    head = f"{len(open_tasks)} of {graph.num_tasks} tasks cannot finish: "
    if len(running):
        return f"{head}task {describe(int(running[0]))} runs at rate 0; a link that it crosses, or its cap, is 0 B/s"
    cycle = wait_cycle(graph, end_s)
    shown = [*cycle[:8], -1, *cycle[-3:]] if len(cycle) > 12 else cycle
    names = ["..." if task < 0 else describe(task) for task in (*shown, cycle[0])]
    return f"{head}they wait for each other, {' <- '.join(names)}; change the order of their streams or predecessors"


def wait_cycle(graph: TaskGraph, end_s: np.ndarray) -> list[int]:
    """Tasks that wait for each other: each one needs the end of the next, the last of the first."""
    is_open = np.isinf(end_s)
    blocker: dict[int, int] = {}
    for stream in range(graph.num_streams):
        row = graph.stream_task[graph.stream_ptr[stream] : graph.stream_ptr[stream + 1]]
        row = row[is_open[row]]
        blocker.update(zip(row[1:].tolist(), row[:-1].tolist(), strict=True))
    for task in np.flatnonzero(is_open).tolist():
        preds = graph.pred[graph.pred_ptr[task] : graph.pred_ptr[task + 1]]
        for pred in preds[is_open[preds]].tolist():
            blocker[task] = pred
            break
    seen: dict[int, int] = {}
    task, path = next(iter(blocker)), list[int]()
    while task not in seen:
        seen[task] = len(path)
        path.append(task)
        task = blocker[task]
    return path[seen[task] :]
