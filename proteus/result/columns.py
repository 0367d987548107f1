"""The spans of a result as plain columns, and as a table of pandas where that is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from proteus.compiler.graph import ExecutionGraph
from proteus.compiler.kinds import SpanKind
from proteus.errors import InputError

if TYPE_CHECKING:
    from proteus.result.result import Result


def task_bytes(graph: ExecutionGraph) -> np.ndarray:
    """float64[tasks]: size of every communication in the convention of its kind [bytes]; 0 for computations."""
    size = np.zeros(graph.tasks.num_tasks)
    row_bytes = np.array([row.size_bytes for row in graph.comm_rows])
    for rank in graph.classes:
        plan = graph.plans[rank.plan]
        size[rank.task_of[plan.is_comm]] = row_bytes[plan.ref[plan.is_comm]]
    for transfer in graph.transfers:
        size[transfer.tasks] = transfer.size_bytes
    return size


def to_columns(result: Result) -> dict[str, np.ndarray]:
    """One array per column, one row per span; names and paths are arrays of objects.

    ``device``, ``multiplicity``, ``stream``, ``kind``, ``name``, ``node``,
    ``micro_batch``, ``start_s``, ``duration_s``, ``exposed_s``, ``bytes``,
    ``task``, ``is_critical``.
    """
    spans = result.spans
    lane = spans.lane
    path = {row.id: row.path for row in result.tree.rows()}
    paths = np.array([path.get(i, "") for i in range(int(spans.node.max(initial=-1)) + 1)], object)
    is_critical = np.zeros(len(spans), bool)
    is_critical[result.critical_path.spans] = True
    return {
        "device": np.array([x.device for x in spans.lanes], np.int64)[lane],
        "multiplicity": np.array([x.multiplicity for x in spans.lanes], np.int64)[lane],
        "stream": np.array([x.stream for x in spans.lanes], object)[lane],
        "kind": np.array([kind.name.lower() for kind in SpanKind], object)[spans.kind],
        "name": np.array(spans.names, object)[spans.name_id],
        "node": paths[spans.node],
        "micro_batch": spans.micro_batch,
        "start_s": spans.start_s,
        "duration_s": spans.duration_s,
        "exposed_s": result.exposed_s,
        "bytes": task_bytes(result.graph)[spans.task],
        "task": spans.task,
        "is_critical": is_critical,
    }


def to_dataframe(result: Result) -> Any:
    """:func:`to_columns` as a ``pandas.DataFrame``.

    Raises
    ------
    InputError
        pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise InputError("to_dataframe needs pandas; install it (pip install pandas) or use to_columns()") from error
    return pandas.DataFrame(to_columns(result))
