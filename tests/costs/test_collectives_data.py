"""The shipped numbers against published measurements."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from proteus.costs.links import link_traits


@pytest.fixture(scope="module")
def fit(root: Path) -> ModuleType:
    """The script that made the numbers; it knows which machine each source measured on."""
    spec = importlib.util.spec_from_file_location("fit_collectives", root / "benchmarks/fit_collectives.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# Mean absolute error of messages of 1 MB and more, two points above what the fit reports; sources of
# one family differ among themselves by as much.
LIMITS = {
    "nvlink2": 0.18,
    "nvlink3": 0.13,
    "nvlink4": 0.10,
    "nvlink5": 0.09,
    "pcie5": 0.17,
    "socket": 0.09,
    "efa": 0.07,
    "roce": 0.08,
    "tcpxo": 0.13,
    "ib": 0.05,
}


@pytest.fixture(scope="module")
def rows(fit: ModuleType, shared: Path) -> list[object]:
    found: list[object] = fit.read(shared / "data/kernels/collectives.csv")
    return found


@pytest.mark.parametrize("family", LIMITS)
def test_mean_error_of_a_family(family: str, fit: ModuleType, rows: list):
    inside = {name: link_traits(name) for name in LIMITS}
    error = fit.errors([row for row in rows if row.family == family], link_traits(family), inside)
    assert len(error) and np.abs(error).mean() < LIMITS[family]


def test_busbw_of_nvls_grows_with_the_group(fit: ModuleType, rows: list):
    """473, 460, 436 and 414 GB/s on 8, 7, 6 and 5 H200: the switch carries (n+1)/n S for a busbw of 2(n-1)/n S."""
    found = [row for row in rows if "sharp-gpucount" in row.source and row.family == "nvlink4" and row.forced == "nvls"]
    assert sorted(row.shape.num_ranks for row in found) == [5, 6, 7, 8]
    for row in found:
        assert fit.predict(row, link_traits("nvlink4"), {}) == pytest.approx(row.time_s, rel=0.05)
