"""The error seen in predictions."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from proteus.costs import curves, residuals
from proteus.costs.residuals import Spread, StepKind
from proteus.hardware import gpus


@pytest.fixture
def fit(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that made the numbers."""
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    return importlib.import_module("fit_residuals")


def of_gpu(family: str, key: str, gpu_name: str) -> Spread:
    return curves.find(family, key, gpus.load(gpu_name)).spread


def test_kernels_are_off_by_what_the_scores_of_held_out_sources_say(fit: ModuleType) -> None:
    """Else a curve was fitted again and `benchmarks/fit_residuals.py --write` was not run."""
    assert residuals.table()["kernels"] == fit.kernels()


def test_sources_and_shapes_part(fit: ModuleType) -> None:
    """Two sources, each 10 % to its side and exact but for that; one without bias whose shapes differ."""
    apart = {"error": 0.1 / fit.BY_MEAN_ERROR, "bias": 0.1}
    sides = fit.spread([apart, {**apart, "bias": -0.1}])
    assert sides["own"] == 0.0 and sides["shared"] == pytest.approx(0.1, abs=0.01)
    shapes = fit.spread([{"error": 0.1, "bias": 0.0}])
    assert shapes["shared"] == 0.0 and shapes["own"] == pytest.approx(0.1253, abs=1e-4)


def test_a_table_counts_once(fit: ModuleType) -> None:
    rows = [("long", float(i)) for i in range(100)] + [("short", 1000.0)]
    assert fit.quantile(rows, 0.4) == pytest.approx(80.0, abs=1.0)
    assert fit.quantile(rows, 0.6) == 1000.0


def test_a_curve_of_another_chip_is_less_sure() -> None:
    own, borrowed = of_gpu("attention", "flash2", "a100-80gb"), of_gpu("attention", "flash2", "l40s")
    assert own.shared < borrowed.shared


def test_a_curve_that_misses_its_own_sources_is_not_surer_than_they_are() -> None:
    usual = residuals.table()["kernels"]["gemm"]["own"]["half"]
    twice = residuals.of_curve("gemm", "half", 2.0 * usual["mean_error"], is_borrowed=False)
    assert twice == Spread(2.0 * usual["shared"], 2.0 * usual["own"])


def test_the_band_holds_what_it_says_on_tables_left_out() -> None:
    for kind in StepKind:
        assert 0.0 <= residuals.step_sigma(kind) < 0.5
        coverage = residuals.table()["checked"][kind]["held_out"]
        assert 0.7 <= coverage["tables"] <= 0.9
