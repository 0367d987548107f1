"""Write a task graph by hand, task by task: for examples, tests and small studies.

The compiler fills the columns with numpy instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from proteus.htae.tasks import TaskGraph, TaskKind


class GraphBuilder:
    """Collects tasks and gives the :class:`TaskGraph`.

    The tasks of a stream run in the order in which they are added.

    Parameters
    ----------
    capacity_Bps
        Capacity of every link.
    compute_slowdown, comm_slowdown
        The tables of :class:`TaskGraph`; nothing is slowed without them.

    Examples
    --------
    A forward pass and the message that waits for it:

    >>> builder = GraphBuilder(capacity_Bps=[10.0])
    >>> compute, pipeline = builder.stream(0), builder.stream(0)
    >>> forward = builder.compute(2.0, compute)
    >>> send = builder.comm(50.0, links={0: 1}, streams=[pipeline], after=[forward])
    >>> builder.graph().num_tasks
    2
    """

    def __init__(
        self,
        capacity_Bps: Sequence[float] = (),
        compute_slowdown: Sequence[Sequence[float]] | None = None,
        comm_slowdown: Sequence[Sequence[float]] | None = None,
    ) -> None:
        self._capacity_Bps = list(capacity_Bps)
        self._compute_slowdown = compute_slowdown
        self._comm_slowdown = comm_slowdown
        self._devices: list[int] = []
        self._streams: list[list[int]] = []
        self._rows: list[tuple[int, float, float, float, int, int, int, int]] = []
        self._preds: list[list[int]] = []
        self._segments: list[list[tuple[int, float]]] = []
        self._patterns: list[tuple[tuple[tuple[int, int], ...], float]] = []

    def stream(self, device: int) -> int:
        """A new stream of `device`; returns its id."""
        self._devices.append(device)
        self._streams.append([])
        return len(self._devices) - 1

    def compute(
        self,
        work_s: float,
        stream: int,
        *,
        op_class: int = 0,
        latency_s: float = 0.0,
        after: Sequence[int] = (),
        release_s: float = 0.0,
        priority: int = 0,
    ) -> int:
        """One compute op of `work_s` seconds at full speed; returns the task's id."""
        row = (int(TaskKind.COMPUTE), latency_s, work_s, release_s, priority, -1, -1, op_class)
        return self._add(row, [stream], after)

    def segment(
        self,
        ops: Sequence[tuple[int, float]],
        stream: int,
        *,
        latency_s: float = 0.0,
        after: Sequence[int] = (),
        release_s: float = 0.0,
        priority: int = 0,
    ) -> int:
        """A run of compute ops ``(class, seconds)`` as one task; returns its id."""
        self._segments.append(list(ops))
        work_s = sum(seconds for _, seconds in ops)
        segment = len(self._segments) - 1
        return self._add(
            (int(TaskKind.COMPUTE), latency_s, work_s, release_s, priority, segment, -1, 0), [stream], after
        )

    def comm(
        self,
        work_bytes: float,
        *,
        links: Mapping[int, int],
        streams: Sequence[int],
        cap_Bps: float = float("inf"),
        op_class: int = 0,
        latency_s: float = 0.0,
        after: Sequence[int] = (),
        release_s: float = 0.0,
        priority: int = 0,
        kind: TaskKind = TaskKind.COMM,
    ) -> int:
        """A communication of `work_bytes` per flow, with ``links[l]`` flows over link ``l``; returns its id."""
        pattern = (tuple(sorted(links.items())), cap_Bps)
        if pattern not in self._patterns:
            self._patterns.append(pattern)
        row = (int(kind), latency_s, work_bytes, release_s, priority, -1, self._patterns.index(pattern), op_class)
        return self._add(row, streams, after)

    def host(
        self, work_s: float, streams: Sequence[int] = (), *, after: Sequence[int] = (), release_s: float = 0.0
    ) -> int:
        """Work on the host; returns the task's id."""
        return self._add((int(TaskKind.HOST), 0.0, work_s, release_s, 0, -1, -1, 0), streams, after)

    def _add(
        self, row: tuple[int, float, float, float, int, int, int, int], streams: Sequence[int], after: Sequence[int]
    ) -> int:
        task = len(self._rows)
        self._rows.append(row)
        self._preds.append(list(after))
        for stream in streams:
            self._streams[stream].append(task)
        return task

    def graph(self) -> TaskGraph:
        """The columns of all tasks added so far."""
        columns = list(zip(*self._rows, strict=True)) or [()] * 8
        patterns = [[link for link, _ in links] for links, _ in self._patterns]
        counts = [[count for _, count in links] for links, _ in self._patterns]
        pred_ptr, pred = _csr(self._preds)
        stream_ptr, stream_task = _csr(self._streams)
        pattern_ptr, pattern_link = _csr(patterns)
        segment_ptr, segment_class = _csr([[c for c, _ in ops] for ops in self._segments], "i2")
        return TaskGraph(
            kind=np.array(columns[0], "u1"),
            latency_s=np.array(columns[1], "f8"),
            work=np.array(columns[2], "f8"),
            release_s=np.array(columns[3], "f8"),
            priority=np.array(columns[4], "i4"),
            pred_ptr=pred_ptr,
            pred=pred,
            stream_ptr=stream_ptr,
            stream_task=stream_task,
            stream_device=np.array(self._devices, "i4"),
            segment=np.array(columns[5], "i4"),
            segment_ptr=segment_ptr,
            segment_work_s=_csr([[w for _, w in ops] for ops in self._segments], "f8")[1],
            segment_class=segment_class,
            pattern=np.array(columns[6], "i4"),
            pattern_ptr=pattern_ptr,
            pattern_link=pattern_link,
            pattern_count=_csr(counts)[1],
            pattern_cap_Bps=np.array([cap for _, cap in self._patterns], "f8"),
            op_class=np.array(columns[7], "i2"),
            link_capacity_Bps=np.array(self._capacity_Bps, "f8"),
            compute_slowdown=self._table(self._compute_slowdown, False),
            comm_slowdown=self._table(self._comm_slowdown, True),
        )

    def _table(self, table: Sequence[Sequence[float]] | None, is_of_comm: bool) -> np.ndarray:
        if table is not None:
            return np.array(table, "f8")
        classes = [0, 0]  # the largest compute and comm class in use
        for kind, _, _, _, _, _, _, op_class in self._rows:
            index = int(kind in (TaskKind.COMM, TaskKind.COPY))
            classes[index] = max(classes[index], op_class)
        classes[0] = max([classes[0]] + [c for ops in self._segments for c, _ in ops])
        return np.zeros((classes[is_of_comm] + 1, classes[not is_of_comm] + 1))


def _csr(rows: Sequence[Sequence[float]], dtype: str = "i4") -> tuple[np.ndarray, np.ndarray]:
    ptr = np.cumsum([0, *map(len, rows)]).astype("i4")
    return ptr, np.array([value for row in rows for value in row], dtype)
