"""Where the time of a device went: the definitions of HolisticTraceAnalysis.

::

    compute      union of all kernels that are no communication
    comm         union of the collectives and of the transfers between ranks
    overlapped   comm beside compute                   exposed   comm without compute
    copy         copies and memsets alone              idle      nothing runs on the device
    host-bound   idle until a kernel that the host launched only after the idle time began

    window = compute + exposed + copy + idle

HTA's ``compute_time`` is `compute_s`, its ``idle_time`` is `idle_s`, its
``non_compute_time`` is `exposed_comm_s` + `copy_s`, and its
``comp_comm_overlap_pctg`` is `overlapped_s` / `comm_s`
(hta/analyzers/breakdown_analysis.py, communication_analysis.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from proteus.traces.kinds import KernelKind

#: rank of each kind for the sweep: 0 compute, then each communication, and copies last
_COMM = [kind for kind in KernelKind if kind.is_comm]
_RANK_OF = np.zeros(len(KernelKind), np.int64)
_RANK_OF[_COMM] = np.arange(1, 1 + len(_COMM))
_RANK_OF[[KernelKind.COPY, KernelKind.MEMSET]] = 1 + len(_COMM)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTimes:
    """One rank over one window [s].

    Parameters
    ----------
    window_s
        From its first to its last event, or a step.
    exposed_s
        By kind of collective; where two run side by side, the first in the
        order of :class:`KernelKind` counts.
    copy_s
        Copies and memsets beside which neither compute nor communication runs.
    host_bound_s
        Part of `idle_s`.
    by_kind_s
        Sum of the events of each kind, overlapping ones counted twice.
    """

    rank: int
    window_s: float
    compute_s: float
    comm_s: float
    exposed_s: Mapping[str, float]
    copy_s: float
    idle_s: float
    host_bound_s: float
    by_kind_s: Mapping[str, float]

    @property
    def exposed_comm_s(self) -> float:
        """Communication of all kinds beside which no kernel computes [s]."""
        return sum(self.exposed_s.values())

    @property
    def overlapped_s(self) -> float:
        """Communication beside computation [s]."""
        return max(self.comm_s - self.exposed_comm_s, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRows:
    """The events of one rank, sorted by their starts."""

    start_s: np.ndarray
    end_s: np.ndarray
    kind: np.ndarray
    launch_s: np.ndarray


def rank_times(rank: int, rows: DeviceRows, begin_s: float, end_s: float) -> RankTimes:
    """What `rank` did between two times."""
    from proteus.result.kernels import sweep  # numba takes long to import

    start, stop = np.maximum(rows.start_s, begin_s), np.minimum(rows.end_s, end_s)
    inside = stop > start
    start, kind = start[inside], rows.kind[inside].astype(np.uint8)
    duration = stop[inside] - start
    lanes = np.array([[0, len(start)]], np.int64)
    by_rank, by_kind, busy_s, comm_s, both_s, on_s, off_s = sweep(
        lanes, start, duration, kind, _RANK_OF, 2 + len(_COMM), np.zeros(len(start))
    )
    running_s = float((off_s - on_s).sum())
    return RankTimes(
        rank=rank,
        window_s=end_s - begin_s,
        compute_s=float(busy_s),
        comm_s=float(comm_s),
        exposed_s={k.label: float(by_rank[_RANK_OF[k]]) for k in _COMM if by_kind[k] > 0.0},
        copy_s=max(running_s - float(both_s), 0.0),
        idle_s=max(end_s - begin_s - running_s, 0.0),
        host_bound_s=_host_bound(rows, begin_s, end_s),
        by_kind_s={KernelKind(k).label: float(by_kind[k]) for k in np.flatnonzero(by_kind).tolist()},
    )


def _host_bound(rows: DeviceRows, begin_s: float, end_s: float) -> float:
    """Idle time of a window that ends with an event launched after the idle time began [s].

    Idle time that began before the window is judged from where it truly began.
    """
    if not len(rows.start_s):
        return 0.0
    idle_from = np.concatenate([[min(begin_s, rows.start_s[0])], np.maximum.accumulate(rows.end_s)[:-1]])
    with np.errstate(invalid="ignore"):  # no launch is known: NaN is not later than anything
        is_host = rows.launch_s >= idle_from
    lost = np.minimum(rows.start_s, end_s) - np.maximum(idle_from, begin_s)
    return float(np.maximum(lost, 0.0)[is_host].sum())
