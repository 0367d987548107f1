"""Spans: what ran when, in columns sorted by (lane, start)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from proteus.compiler.kinds import SpanKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One row of the timeline: a stream of a device.

    `multiplicity` counts the ranks that this device stands for (folding).
    """

    device: int
    stream: (
        str  # compute | tensor | context | expert | pipeline | gradient | parameter | to_host | from_host | host_update
    )
    label: str
    multiplicity: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """Columns of spans.

    Parameters
    ----------
    start_s, duration_s
        float64[n].
    kind
        uint8[n], :class:`SpanKind`.
    node
        int32[n]: row id in the strategy tree (:meth:`StrategyTree.rows`).
    name_id
        int32[n]: index into `names` (the op or collective).
    micro_batch
        int32[n], -1 where it has none.
    pattern
        int32[n]: row of the CSR `pattern_ptr`, `pattern_link`; -1 when the
        span crosses no link.
    lane_ptr
        int64[lanes + 1]: lane ``i`` owns rows ``lane_ptr[i]:lane_ptr[i+1]``.
    task
        int32[n]: the task of the graph that a span is, or is an op of.
    """

    start_s: np.ndarray
    duration_s: np.ndarray
    kind: np.ndarray
    node: np.ndarray
    name_id: np.ndarray
    micro_batch: np.ndarray
    pattern: np.ndarray
    lane_ptr: np.ndarray
    lanes: tuple[Lane, ...]
    names: tuple[str, ...]
    pattern_ptr: np.ndarray
    pattern_link: np.ndarray
    task: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))

    def __len__(self) -> int:
        return len(self.start_s)

    @property
    def lane(self) -> np.ndarray:
        """int64[n]: the lane of every span."""
        return np.repeat(np.arange(len(self.lanes)), np.diff(self.lane_ptr))

    def links_of(self, span: int) -> np.ndarray:
        """Ids of the links that a span crosses."""
        row = self.pattern[span]
        if row < 0:
            return np.empty(0, np.int32)
        return self.pattern_link[self.pattern_ptr[row] : self.pattern_ptr[row + 1]]


__all__ = ["Lane", "SpanKind", "Spans"]
