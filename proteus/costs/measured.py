"""Times that were measured on the machine itself, for what is no single kernel.

Kernels have their own table, ``Calibration.measured_s``.  Here are
collectives, as a curve of seconds over bytes, and how much computation and
communication slow each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from proteus.costs.collective_types import Algorithm, Collective, GroupShape, Terms
from proteus.costs.collectives import payload_bytes
from proteus.costs.overlap import CommClass, ComputeClass
from proteus.errors import InputError

#: relative error of a measured collective: run-to-run spread, and what lies between measured sizes
MEASURED_COLLECTIVE_SIGMA = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTimes:
    """Measured times of one collective in groups of one size on one host.

    Parameters
    ----------
    size_bytes
        Sizes as :class:`Collective` counts them, rising [bytes].
    time_s
        Time of each [s].

    Examples
    --------
    >>> times = CollectiveTimes(kind=Collective.ALL_REDUCE, num_ranks=2, size_bytes=(1e3, 2e3, 4e3),
    ...                         time_s=(1e-4, 1.2e-4, 2e-4))
    >>> f"{times.at(3e3):.3g} {times.at(6e3):.3g} {times.at(10.0):.3g}"
    '0.00016 0.0003 0.0001'
    """

    kind: Collective
    num_ranks: int
    size_bytes: tuple[float, ...]
    time_s: tuple[float, ...]

    def __post_init__(self) -> None:
        collective = f"{self.kind} of {self.num_ranks} ranks"
        if len(self.size_bytes) != len(self.time_s) or len(self.time_s) < 2:
            raise InputError(
                f"{collective}: {len(self.size_bytes)} sizes, {len(self.time_s)} times; give two or more of both"
            )
        if self.size_bytes[0] <= 0 or any(b <= a for a, b in zip(self.size_bytes[:-1], self.size_bytes[1:])):
            raise InputError(f"{collective}: the sizes must be above 0 and rise; they are {self.size_bytes}")
        if min(self.time_s) <= 0:
            raise InputError(f"{collective}: a time of {min(self.time_s):g} s; all must be above 0")

    @property
    def latency_s(self) -> float:
        """Time of the smallest size: what a collective takes however small it is [s]."""
        return self._rising()[0]

    def at(self, size_bytes: float) -> float:
        """Time at a size: linear between the measured ones, and beyond the last at its rate [s]."""
        sizes, times = self.size_bytes, self._rising()
        if size_bytes <= sizes[-1]:
            return float(np.interp(size_bytes, sizes, times))
        return times[-1] * size_bytes / sizes[-1]

    def terms(self, shape: GroupShape, algorithm: Algorithm, size_bytes: float) -> Terms:
        """The measured time, as latency and work for the links."""
        time_s = self.at(size_bytes)
        data = payload_bytes(self.kind, shape, algorithm, size_bytes)
        # what grows with the bytes keeps the links busy; no flow is faster than they are
        busy_s = max(time_s - self.latency_s, data / shape.limit(algorithm).rate_Bps)
        source = "measured on this machine"
        latency_s = max(time_s - busy_s, 0.0)
        return Terms(latency_s, data, data / busy_s, MEASURED_COLLECTIVE_SIGMA, source, shape.intra)

    def _rising(self) -> list[float]:
        """The times without dips: a larger collective is never faster, a smaller measurement was disturbed."""
        rising: list[float] = np.minimum.accumulate(np.array(self.time_s)[::-1])[::-1].tolist()
        return rising


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOverlap:
    """Extra time, as a share, while a kernel and a collective of one host run side by side.

    Parameters
    ----------
    compute
        Of a kernel, by what bounds it.
    comm
        Of the collective, by what bounds the kernel beside it.
    """

    compute: Mapping[ComputeClass, float] = field(default_factory=dict)
    comm: Mapping[ComputeClass, float] = field(default_factory=dict)

    def apply(self, compute: np.ndarray, comm: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The tables of :func:`~proteus.costs.overlap.slowdowns` with what was measured in them."""
        compute, comm = compute.copy(), comm.copy()
        for name in (CommClass.INTRA, CommClass.P2P):
            for kind, share in self.compute.items():
                compute[kind, name] = share
            for kind, share in self.comm.items():
                comm[name, kind] = share
        return compute, comm
