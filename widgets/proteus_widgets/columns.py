"""Spans as the binary columns that the timeline reads."""

from __future__ import annotations

from typing import Any

import numpy as np

from proteus.result.spans import Spans

#: above this many spans only a level of detail is sent
WHOLE_LIMIT = 100_000


def buffer(values: np.ndarray, dtype: str) -> memoryview:
    """Bytes of a column, without a copy when it has the dtype already."""
    return memoryview(np.ascontiguousarray(values, dtype=dtype).data).cast("B")


def lanes(spans: Spans) -> list[dict[str, Any]]:
    return [
        {"device": lane.device, "stream": lane.stream, "label": f"GPU {lane.device}", "multiplicity": lane.multiplicity}
        for lane in spans.lanes
    ]


def frame(spans: Spans, rows: np.ndarray | slice = slice(None)) -> dict[str, Any]:
    """The columns of `rows`."""
    return {
        "start": buffer(spans.start_s[rows], "f8"),
        "duration": buffer(spans.duration_s[rows], "f4"),
        "kind": buffer(spans.kind[rows], "u1"),
        "node": buffer(spans.node[rows], "i4"),
        "name": buffer(spans.name_id[rows], "i4"),
        "micro": buffer(spans.micro_batch[rows], "i4"),
        "pattern": buffer(spans.pattern[rows], "i4"),
    }
