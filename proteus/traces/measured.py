"""A measured run: what a profiler saw, in the columns and words of a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from proteus.arguments import Maybe, Whole, takes
from proteus.errors import InputError
from proteus.traces.align import LateArrivals, ends_of, late_arrivals
from proteus.traces.kinds import KernelKind
from proteus.traces.times import DeviceRows, RankTimes, rank_times

#: operators that are listed
TOP = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRank:
    """Where the events of one rank come from.

    Parameters
    ----------
    clock_shift_s
        What was added to its times so that collectives end together.
    is_aligned
        Whether its clock is known to be that of the first rank.
    steps
        Number → begin and end on the common clock [s].
    peak_memory_bytes
        Most bytes allocated on its device; None where not recorded.
    """

    rank: int
    device: int
    source: str
    gpu: str | None = None
    clock_shift_s: float = 0.0
    is_aligned: bool = False
    steps: Mapping[int, tuple[float, float]]
    peak_memory_bytes: float | None = None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Events of devices in columns, sorted by (rank, stream, start).

    Parameters
    ----------
    rank, stream
        int32[n], int64[n].
    kind
        uint8[n], :class:`KernelKind`.
    name_id
        int32[n]: index into `names`, the kernel.
    operator_id
        int32[n]: index into `names`, the innermost operator on the host that
        launched it; -1 where unknown.
    start_s, end_s
        float64[n], from the first event of all.
    launch_s
        float64[n]: when the host launched it; NaN where unknown.
    bytes
        float64[n]: bytes copied, or the larger side of a collective; 0 where unknown.
    group
        object[n]: name of the process group of a collective, or empty.
    step
        int32[n]: the step in which it was launched, -1 outside of steps.
    correlation
        int64[n]: the profiler's id, -1 without.
    steps_from
        ``ProfilerStep``, ``periodicity`` or ``none``.
    warnings
        What was repaired, left out or guessed.
    """

    rank: np.ndarray
    stream: np.ndarray
    kind: np.ndarray
    name_id: np.ndarray
    operator_id: np.ndarray
    start_s: np.ndarray
    end_s: np.ndarray
    launch_s: np.ndarray
    bytes: np.ndarray
    group: np.ndarray
    step: np.ndarray
    correlation: np.ndarray
    names: tuple[str, ...]
    ranks: tuple[MeasuredRank, ...]
    world_size: int | None
    steps_from: str
    warnings: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.start_s)

    def __repr__(self) -> str:
        steps = len({step for rank in self.ranks for step in rank.steps})
        return f"Measured({len(self.ranks)} ranks, {steps} steps, {len(self)} events)"

    # -- time ------------------------------------------------------------------------

    def _rows(self, rank: int) -> DeviceRows:
        mine = np.arange(*np.searchsorted(self.rank, (rank, rank + 1)))
        mine = mine[np.argsort(self.start_s[mine], kind="stable")]
        return DeviceRows(
            start_s=self.start_s[mine], end_s=self.end_s[mine], kind=self.kind[mine], launch_s=self.launch_s[mine]
        )

    @cached_property
    def times(self) -> tuple[RankTimes, ...]:
        """Where the time of every rank went, from its first event to its last."""
        found = []
        for rank in self.ranks:
            rows = self._rows(rank.rank)
            found.append(rank_times(rank.rank, rows, float(rows.start_s.min()), float(rows.end_s.max())))
        return tuple(found)

    @cached_property
    def step_times(self) -> tuple[tuple[int, RankTimes], ...]:
        """Number of a step and where its time went on a rank, for all steps and ranks.

        The window of a step is the profiler's, on the host; a kernel that
        runs over its edge counts on both sides as far as it lies there.
        """
        found = []
        for rank in self.ranks:
            rows = self._rows(rank.rank)
            for step, (begin_s, end_s) in rank.steps.items():
                found.append((step, rank_times(rank.rank, rows, begin_s, end_s)))
        return tuple(found)

    @property
    def step_time_s(self) -> float:
        """Median over the steps of the longest rank [s]; NaN without steps."""
        longest: dict[int, float] = {}
        for step, times in self.step_times:
            longest[step] = max(longest.get(step, 0.0), times.window_s)
        return float(np.median(list(longest.values()))) if longest else float("nan")

    def late_arrivals(self) -> tuple[LateArrivals, ...]:
        """Which ranks reach collectives last, of those whose clocks are aligned; stragglers first."""
        ends = {}
        for rank in self.ranks:
            if rank.is_aligned:
                mine = self.rank == rank.rank
                columns = {"kind": self.kind[mine], "start_s": self.start_s[mine], "end_s": self.end_s[mine]}
                ends[rank.rank] = ends_of(columns)
        return late_arrivals(ends)

    # -- what ran --------------------------------------------------------------------

    @property
    def unknown_fraction(self) -> float:
        """Share of the kernels' time whose kind no table tells."""
        duration_s = self.end_s - self.start_s
        total_s = float(duration_s.sum())
        is_unknown = (self.kind == KernelKind.UNKNOWN) | (self.kind == KernelKind.UNKNOWN_COMM)
        return float(duration_s[is_unknown].sum()) / total_s if total_s > 0.0 else 0.0

    def unknown_kernels(self) -> tuple[tuple[str, float], ...]:
        """Names of kernels of unknown kind and their share of all kernels' time, the largest first."""
        duration_s = self.end_s - self.start_s
        total_s = float(duration_s.sum()) or 1.0
        is_unknown = (self.kind == KernelKind.UNKNOWN) | (self.kind == KernelKind.UNKNOWN_COMM)
        per_name = np.bincount(self.name_id[is_unknown], duration_s[is_unknown], minlength=1)
        order = np.argsort(-per_name, kind="stable")
        return tuple((self.names[i], float(per_name[i]) / total_s) for i in order.tolist() if per_name[i] > 0.0)

    @takes(InputError, rank=Whole(minimum=0), step=Maybe(Whole(minimum=0)), most=Whole(minimum=1))
    def top_operators(self, rank: int, step: int | None = None, most: int = TOP) -> list[dict[str, Any]]:
        """The kernels of a rank that take longest, summed by name and operator.

        Parameters
        ----------
        step
            Kernels launched in this step only.

        Returns
        -------
        list of dict
            ``name``, ``operator`` (None where unknown), ``kind``, ``count``,
            ``total_s``, ``fraction`` (of all kernels of the rank, or of the step).
        """
        rows = np.arange(*np.searchsorted(self.rank, (rank, rank + 1)))
        if step is not None:
            rows = rows[self.step[rows] == step]
        duration_s = self.end_s[rows] - self.start_s[rows]
        # a name may be of several kinds, where metadata tell what its name does not
        whole = (self.name_id[rows].astype(np.int64) * (len(self.names) + 1) + self.operator_id[rows] + 1) * 256
        unique, first, which = np.unique(whole + self.kind[rows], return_index=True, return_inverse=True)
        total_s = np.bincount(which, duration_s, minlength=len(unique))
        count = np.bincount(which, minlength=len(unique))
        all_s = float(duration_s.sum()) or 1.0
        found = []
        for i in np.argsort(-total_s, kind="stable")[:most].tolist():
            row = rows[first[i]]
            operator = int(self.operator_id[row])
            found.append(
                {
                    "name": self.names[self.name_id[row]],
                    "operator": self.names[operator] if operator >= 0 else None,
                    "kind": KernelKind(int(self.kind[row])).label,
                    "count": int(count[i]),
                    "total_s": float(total_s[i]),
                    "fraction": float(total_s[i]) / all_s,
                }
            )
        return found

    def collectives(self) -> list[dict[str, Any]]:
        """Communication per rank, kind and process group, the longest first.

        Returns
        -------
        list of dict
            ``rank``, ``kind``, ``group``, ``count``, ``total_s``, ``bytes`` (0 where
            the profiler did not record them) and ``Bps``, bytes over the time of
            those whose bytes are known (None without any).  The bytes are the
            larger of what goes in and what comes out of a rank, the time counts
            waiting for late ranks.
        """
        rows = np.flatnonzero((self.kind > KernelKind.UNKNOWN) & (self.kind < KernelKind.COPY))
        groups, group = np.unique(self.group[rows].astype(str), return_inverse=True)
        key = np.stack([self.rank[rows], self.kind[rows], group.reshape(-1)], axis=1).astype(np.int64)
        unique, which = np.unique(key, axis=0, return_inverse=True)
        which = which.reshape(-1)
        duration_s, size = self.end_s[rows] - self.start_s[rows], self.bytes[rows]
        total_s = np.bincount(which, duration_s, minlength=len(unique))
        known_s = np.bincount(which, np.where(size > 0.0, duration_s, 0.0), minlength=len(unique))
        moved = np.bincount(which, size, minlength=len(unique))
        count = np.bincount(which, minlength=len(unique))
        return [
            {
                "rank": int(unique[i, 0]),
                "kind": KernelKind(int(unique[i, 1])).label,
                "group": str(groups[unique[i, 2]]),
                "count": int(count[i]),
                "total_s": float(total_s[i]),
                "bytes": float(moved[i]),
                "Bps": float(moved[i] / known_s[i]) if known_s[i] > 0.0 else None,
            }
            for i in np.argsort(-total_s, kind="stable").tolist()
        ]

    # -- out -------------------------------------------------------------------------

    def to_columns(self) -> dict[str, np.ndarray]:
        """One array per column, one row per event, named as those of a result where they mean the same."""
        texts = np.array([*self.names, ""], object)
        return {
            "device": self.rank,
            "stream": self.stream,
            "kind": np.array([kind.label for kind in KernelKind], object)[self.kind],
            "name": texts[self.name_id],
            "operator": texts[self.operator_id],
            "start_s": self.start_s,
            "duration_s": self.end_s - self.start_s,
            "bytes": self.bytes,
            "group": self.group,
            "step": self.step,
            "correlation": self.correlation,
            "launch_s": self.launch_s,
        }

    def to_dataframe(self) -> Any:
        """:meth:`to_columns` as a ``pandas.DataFrame``.

        Raises
        ------
        InputError
            pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise InputError(
                "to_dataframe needs pandas; install it (pip install pandas) or use to_columns()"
            ) from error
        return pandas.DataFrame(self.to_columns())

    def to_dict(self) -> dict[str, Any]:
        """What ``proteus trace --json`` prints."""
        return {
            "ranks": [self._row(times, None) for times in self.times],
            "steps": [
                {"step": step, "step_time_s": times.window_s, **self._row(times, step)}
                for step, times in self.step_times
            ],
            "unknown_fraction": self.unknown_fraction,
            "warnings": list(self.warnings),
        }

    def _row(self, times: RankTimes, step: int | None) -> dict[str, Any]:
        return {
            "rank": times.rank,
            "compute_s": times.compute_s,
            "comm_s": times.comm_s,
            "overlapped_s": times.overlapped_s,
            "exposed_comm_s": dict(times.exposed_s),
            "idle_s": times.idle_s,
            "host_bound_s": times.host_bound_s,
            "top_operators": self.top_operators(times.rank, step),
        }

    def __str__(self) -> str:
        from proteus.traces.report import table

        return table(self)
