"""How much a kernel and a communication slow each other on one GPU.

A collective takes SMs (its channels), memory bandwidth (NCCL stores and
re-reads what it moves, 2 to 3 bytes of traffic per byte on the wire) and
cache; a kernel beside it gets the rest, and the other way round.  The tables
say how much longer each takes while both run, by what the kernel is bound by
and by where the communication goes.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from proteus.costs.work import Family
from proteus.hardware import Gpu


class ComputeClass(IntEnum):
    """What a kernel is bound by."""

    GEMM = 0
    ATTENTION = 1
    CONV = 2
    MEMORY = 3


class CommClass(IntEnum):
    """Where a communication goes and who moves it."""

    INTRA = 0  # NVLink, xGMI: all channels, most SMs
    INTER = 1  # NIC: rate-limited, few SMs busy
    P2P = 2  # send and receive: few channels
    COPY = 3  # copy engine: no SMs


_CLASS = {
    Family.GEMM: ComputeClass.GEMM,
    Family.GROUPED_GEMM: ComputeClass.GEMM,
    Family.ATTENTION: ComputeClass.ATTENTION,
    Family.CONV: ComputeClass.CONV,
}

#: class of the time in which a device waits for its host, after those of kernels: nothing beside it slows it
WAITS = len(ComputeClass)


def compute_class(family: Family) -> ComputeClass:
    """The class of the kernels of a family.

    >>> compute_class(Family.OPTIMIZER)
    <ComputeClass.MEMORY: 3>
    """
    return _CLASS.get(family, ComputeClass.MEMORY)


def slowdowns(gpu: Gpu) -> tuple[np.ndarray, np.ndarray]:
    """How much longer each takes while both run, as a share of its time alone.

    Returns
    -------
    compute
        float64[ComputeClass, CommClass]: a kernel of class c beside a
        communication of class k takes ``1 + compute[c, k]`` times as long.
    comm
        float64[CommClass, ComputeClass]: likewise the communication.

    Notes
    -----
    Source: the file of the chip.  Not modelled: the size of the kernel's
    grid; one that fills every SM exactly loses a whole wave (a GEMM of 132
    blocks on H100 nearly doubles).
    """
    overlap = gpu.chip.overlap
    return np.array(overlap.compute, np.float64), np.array(overlap.comm, np.float64)


def with_waits(compute: np.ndarray, comm: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The tables of :func:`slowdowns` with :data:`WAITS` as one more class of compute.

    >>> compute, comm = with_waits(np.ones((4, 4)), np.ones((4, 4)))
    >>> compute[WAITS].max(), comm[:, WAITS].max()
    (np.float64(0.0), np.float64(0.0))
    """
    return np.pad(compute, ((0, 1), (0, 0))), np.pad(comm, ((0, 0), (0, 1)))
