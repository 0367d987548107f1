"""Clocks of ranks: a collective ends on all its ranks at the same time.

The n-th collective of a kind on one rank is the n-th of that kind on another.
The median difference of their ends is the difference of the clocks, if the
differences agree; where they do not, nothing is shifted and a warning says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from proteus.traces.kinds import KernelKind

#: collectives that end together on all their ranks; sends and broadcasts may end on one rank before another
_TOGETHER = (KernelKind.ALL_REDUCE, KernelKind.ALL_GATHER, KernelKind.REDUCE_SCATTER, KernelKind.ALL_TO_ALL)
#: matched collectives needed
_MIN_MATCHES = 3
#: seconds; half of the matched collectives must agree so closely
_MAX_SPREAD_S = 200e-6
#: seconds; smaller differences are left alone
_MIN_SHIFT_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The collectives of one rank, sorted by start."""

    kind: np.ndarray
    start_s: np.ndarray
    end_s: np.ndarray


def matched(one: Ends, other: Ends) -> tuple[np.ndarray, np.ndarray]:
    """Rows of collectives that are the same on both ranks: kinds of which both have equally many."""
    rows, other_rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for kind in _TOGETHER:
        a, b = np.flatnonzero(one.kind == kind), np.flatnonzero(other.kind == kind)
        if len(a) == len(b):
            rows.append(a)
            other_rows.append(b)
    return np.concatenate(rows), np.concatenate(other_rows)


def clock_shift_s(reference: Ends, other: Ends) -> float | None:
    """What to add to the times of `other`; None where its collectives do not tell."""
    rows, other_rows = matched(reference, other)
    if len(rows) < _MIN_MATCHES:
        return None
    ahead = reference.end_s[rows] - other.end_s[other_rows]
    low, middle, high = np.quantile(ahead, (0.25, 0.5, 0.75))
    if high - low > _MAX_SPREAD_S:
        return None
    return float(middle) if abs(middle) > _MIN_SHIFT_S else 0.0


def ends_of(columns: Mapping[str, np.ndarray]) -> Ends:
    """The collectives among the events of a rank: columns ``kind``, ``start_s``, ``end_s``."""
    kind = columns["kind"]
    rows = np.flatnonzero((kind >= KernelKind.ALL_REDUCE) & (kind <= KernelKind.UNKNOWN_COMM))
    rows = rows[np.argsort(columns["start_s"][rows], kind="stable")]
    return Ends(kind=kind[rows], start_s=columns["start_s"][rows], end_s=columns["end_s"][rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class LateArrivals:
    """How often a rank is the last to reach a collective.

    Parameters
    ----------
    last, matched
        Collectives that it reached last, and those that all ranks share.
    waited_s
        Sum of the times from the second-last rank's arrival to its own.
    """

    rank: int
    last: int
    matched: int
    waited_s: float


def late_arrivals(ends: dict[int, Ends]) -> tuple[LateArrivals, ...]:
    """The ranks of a common clock by the time that the others wait for them, the longest first."""
    if len(ends) < 2:
        return ()
    ranks = list(ends)
    starts = [np.empty((len(ranks), 0))]
    for kind in _TOGETHER:
        rows = [ends[rank].start_s[ends[rank].kind == kind] for rank in ranks]
        if len({len(row) for row in rows}) == 1:
            starts.append(np.stack(rows))
    start_s = np.concatenate(starts, axis=1)
    matched_count = start_s.shape[1]
    if not matched_count:
        return ()
    last = start_s.argmax(axis=0)
    ordered = np.sort(start_s, axis=0)
    waited_s = np.bincount(last, ordered[-1] - ordered[-2], minlength=len(ranks))
    count = np.bincount(last, minlength=len(ranks))
    found = [
        LateArrivals(rank=rank, last=int(count[i]), matched=matched_count, waited_s=float(waited_s[i]))
        for i, rank in enumerate(ranks)
    ]
    return tuple(sorted(found, key=lambda row: (-row.waited_s, row.rank)))
