"""Chrome traces that Perfetto opens: one process per device, one thread per stream.

Times are whole nanoseconds, so that neighbouring spans touch and never
overlap; spans of one stream that really do overlap (sends both ways) get
threads of their own, since a thread of a trace can only nest.
"""

from __future__ import annotations

import gzip
import heapq
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from proteus.cluster.kinds import LinkKind
from proteus.compiler.kinds import SpanKind
from proteus.htae import usage
from proteus.result.columns import task_bytes

if TYPE_CHECKING:
    from proteus.result.result import Result

#: process id of the counters of links: behind every device
_LINKS = 1 << 30
#: level of gzip: traces shrink to a tenth at the fastest
_LEVEL = 1
#: lines written at once
_CHUNK = 20_000


def write_chrome_trace(result: Result, path: str | Path) -> None:
    """Write a trace of the simulated devices.

    Parameters
    ----------
    path
        ``.json``, or ``.json.gz`` to compress.
    """
    target = Path(path)
    if target.suffix == ".gz":
        with gzip.open(target, "wt", encoding="utf-8", compresslevel=_LEVEL) as file:
            _write(result, file)
    else:
        with target.open("w", encoding="utf-8") as file:
            _write(result, file)


def _write(result: Result, file: TextIO) -> None:
    about = {
        "model": result.model.name,
        "cluster": repr(result.cluster),
        "strategy": repr(result.tree.mesh),
        "step_time_s": result.step_time_s,
    }
    file.write(f'{{"displayTimeUnit":"ms","otherData":{json.dumps(about)},"traceEvents":[\n')
    lines: list[str] = []
    is_first = True
    for line in _events(result):
        lines.append(line)
        if len(lines) == _CHUNK:
            file.write(("" if is_first else ",\n") + ",\n".join(lines))
            lines, is_first = [], False
    if lines:
        file.write(("" if is_first else ",\n") + ",\n".join(lines))
    file.write("\n]}\n")


def _events(result: Result) -> Iterator[str]:
    thread, names = _threads(result)
    yield from _metadata(result, names)
    yield from _spans(result, thread)
    yield from _arrows(result, thread)
    yield from _memory(result)
    yield from _links(result)


def _nanoseconds(time_s: np.ndarray) -> np.ndarray:
    return np.rint(time_s * 1e9).astype(np.int64)


def _threads(result: Result) -> tuple[np.ndarray, dict[tuple[int, int], str]]:
    """Thread of every span, and the name of every (device, thread)."""
    spans = result.spans
    begin, end = _nanoseconds(spans.start_s), _nanoseconds(spans.start_s + spans.duration_s)
    thread = np.zeros(len(spans), np.int64)
    names: dict[tuple[int, int], str] = {}
    for number, lane in enumerate(spans.lanes):
        rows = slice(int(spans.lane_ptr[number]), int(spans.lane_ptr[number + 1]))
        of = _rows_without_overlap(begin[rows], end[rows])
        base = len(names)
        thread[rows] = base + of
        for sub in range(int(of.max(initial=0)) + 1):
            names[(lane.device, base + sub)] = lane.stream if sub == 0 else f"{lane.stream} {sub + 1}"
    return thread, names


def _rows_without_overlap(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The fewest rows on which sorted intervals do not overlap: the row of each.

    >>> _rows_without_overlap(np.array([0, 1, 2, 5]), np.array([2, 4, 5, 6])).tolist()
    [0, 1, 0, 0]
    """
    row = np.zeros(len(begin), np.int64)
    if not len(begin) or (begin[1:] >= np.maximum.accumulate(end)[:-1]).all():
        return row
    busy: list[tuple[int, int]] = []  # (end, row) of rows in use
    free: list[int] = []
    num_rows = 0
    for i, (b, e) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        while busy and busy[0][0] <= b:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            mine = heapq.heappop(free)
        else:
            mine, num_rows = num_rows, num_rows + 1
        row[i] = mine
        heapq.heappush(busy, (e, mine))
    return row


def _metadata(result: Result, names: dict[tuple[int, int], str]) -> Iterator[str]:
    def meta(kind: str, pid: int, tid: int, **args: Any) -> str:
        return json.dumps({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args})

    for times in result.devices:
        copies = f" x {times.multiplicity}" if times.multiplicity > 1 else ""
        yield meta("process_name", times.device, 0, name=f"GPU {times.device}{copies}")
        yield meta("process_sort_index", times.device, 0, sort_index=times.device)
    for (device, thread), name in names.items():
        yield meta("thread_name", device, thread, name=name)
        yield meta("thread_sort_index", device, thread, sort_index=thread)
    yield meta("process_name", _LINKS, 0, name="links")
    yield meta("process_sort_index", _LINKS, 0, sort_index=_LINKS)


def _spans(result: Result, thread: np.ndarray) -> Iterator[str]:
    spans = result.spans
    size = task_bytes(result.graph)[spans.task]
    path = {row.id: row.path for row in result.tree.rows()}
    key = np.empty(len(spans), [("thread", "i8"), ("name", "i4"), ("kind", "u1"), ("node", "i4"), ("bytes", "f8")])
    key["thread"], key["name"], key["kind"], key["node"], key["bytes"] = (
        thread,
        spans.name_id,
        spans.kind,
        spans.node,
        size,
    )
    unique, first, which = np.unique(key, return_index=True, return_inverse=True)
    lane = spans.lane
    heads = []
    for row, at in zip(unique.tolist(), first.tolist(), strict=True):
        tid, name, kind, node, moved = row
        args: dict[str, Any] = {"node": path.get(node, "")}
        if moved > 0:
            args["bytes"] = moved
        event = {
            "ph": "X",
            "name": spans.names[name],
            "cat": SpanKind(kind).name.lower(),
            "pid": spans.lanes[lane[at]].device,
        }
        heads.append(json.dumps({**event, "tid": tid, "args": args})[:-2])  # without the last two braces
    begin, end = _nanoseconds(spans.start_s), _nanoseconds(spans.start_s + spans.duration_s)
    columns = (which.tolist(), (begin / 1e3).tolist(), ((end - begin) / 1e3).tolist(), spans.micro_batch.tolist())
    for head, ts, duration, micro in zip(*columns, strict=True):
        if micro >= 0:
            yield f'{heads[head]}, "micro_batch": {micro}}}, "ts": {ts:.3f}, "dur": {duration:.3f}}}'
        else:
            yield f'{heads[head]}}}, "ts": {ts:.3f}, "dur": {duration:.3f}}}'


def _arrows(result: Result, thread: np.ndarray) -> Iterator[str]:
    """From every send to its receive: two spans of one task."""
    spans, graph = result.spans, result.graph
    order = np.argsort(spans.task, kind="stable")
    sorted_tasks = spans.task[order]
    device = np.array([lane.device for lane in spans.lanes], np.int64)[spans.lane]
    for transfer in graph.transfers:
        ends = (graph.classes[transfer.source].device, graph.classes[transfer.target].device)
        for task in transfer.tasks.tolist():
            mine = order[np.searchsorted(sorted_tasks, task) : np.searchsorted(sorted_tasks, task, side="right")]
            from_, to = (mine[device[mine] == end] for end in ends)
            if not len(from_) or not len(to) or ends[0] == ends[1]:
                continue
            for phase, row, part in (("s", from_[0], 0.0), ("f", to[0], 1.0 - 1e-3)):
                ts = (spans.start_s[row] + part * spans.duration_s[row]) * 1e6
                bind = ', "bp": "e"' if phase == "f" else ""
                yield (
                    f'{{"ph": "{phase}", "id": {task}, "name": "send", "cat": "flow", "pid": {device[row]}, '
                    f'"tid": {thread[row]}, "ts": {ts:.3f}{bind}}}'
                )


def _memory(result: Result) -> Iterator[str]:
    for device, steps in result.memory_over_time.items():
        head = f'{{"ph": "C", "name": "memory", "pid": {device}, "ts": '
        yield f'{head}0.000, "args": {{"bytes": {steps.static_bytes:.0f}}}}}'
        for ts, live in zip((steps.time_s * 1e6).tolist(), steps.bytes.tolist(), strict=True):
            yield f'{head}{ts:.3f}, "args": {{"bytes": {live:.0f}}}}}'


def _links(result: Result) -> Iterator[str]:
    """Utilisation over time of the busiest link of every kind."""
    graph, line = result.graph, result.timeline
    used = usage.link_utilisation(graph.tasks, line)
    first = graph.folding.link_first
    kinds = result.cluster.link_kind[first]
    pieces = usage.flow_pieces(graph.tasks, line)
    for kind in LinkKind:
        mine = np.flatnonzero((kinds == kind) & (used > 0))
        if not len(mine):
            continue
        link = int(mine[used[mine].argmax()])
        steps = usage.link_steps(graph.tasks, line, link, pieces)
        name = json.dumps(f"{kind.name.lower()} {result.cluster.link_name(int(first[link]))}")
        head = f'{{"ph": "C", "name": {name}, "pid": {_LINKS}, "ts": '
        share = steps.value / graph.tasks.link_capacity_Bps[link]
        for ts, value in zip((steps.time_s * 1e6).tolist(), share.tolist(), strict=True):
            yield f'{head}{ts:.3f}, "args": {{"utilisation": {value:.4f}}}}}'
