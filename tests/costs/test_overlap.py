"""Slow-down tables."""

from __future__ import annotations

import numpy as np
import pytest

from proteus.costs.overlap import CommClass, ComputeClass, compute_class, slowdowns
from proteus.costs.work import Family
from proteus.hardware import gpus


@pytest.mark.parametrize("name", ["titan-xp", "v100", "a100", "h100", "b200", "mi300x"])
def test_shape_and_order(name: str) -> None:
    compute, comm = slowdowns(gpus.load(name))
    assert compute.shape == (len(ComputeClass), len(CommClass))
    assert comm.shape == (len(CommClass), len(ComputeClass))
    assert (compute >= 0).all() and (comm >= 0).all()
    # a fast link disturbs more than a NIC, a NIC more than a copy engine
    order = [CommClass.INTRA, CommClass.INTER, CommClass.P2P, CommClass.COPY]
    assert (np.diff(compute[:, order], axis=1) <= 0).all()


def test_memory_bound_kernels_suffer_most() -> None:
    compute, _ = slowdowns(gpus.load("a100"))
    assert compute[ComputeClass.MEMORY, CommClass.INTRA] == compute[:, CommClass.INTRA].max()


def test_gemm_beside_all_reduce_on_a100() -> None:
    # Echo measured 1.269 for products beside the gradient all-reduce of one host
    compute, _ = slowdowns(gpus.load("a100"))
    assert compute[ComputeClass.GEMM, CommClass.INTRA] == pytest.approx(0.269, abs=0.01)


def test_tables_are_copies() -> None:
    first, _ = slowdowns(gpus.load("a100"))
    first[:] = 9.0
    assert (slowdowns(gpus.load("a100"))[0] < 9.0).all()


def test_classes() -> None:
    assert compute_class(Family.GROUPED_GEMM) is ComputeClass.GEMM
    assert compute_class(Family.EMBEDDING) is ComputeClass.MEMORY
