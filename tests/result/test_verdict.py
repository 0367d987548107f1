"""Out of memory is a verdict with numbers and with remedies that were simulated."""

from __future__ import annotations

import pytest

import proteus as pt
from proteus.result.verdict import edits

MODEL = pt.models.load("llama3-8b", layers=16)


def test_fits_says_who_holds_what() -> None:
    outcome = pt.simulate(
        pt.StrategyTree(MODEL).parallelize(dp=8, global_batch=8, zero=1), pt.clusters.load("dgx-a100")
    )
    verdict = outcome.memory_verdict()
    assert verdict.fits and verdict.missing_bytes == 0.0 and verdict.remedies == ()
    assert str(verdict).startswith("fits: GPU 0 needs ")
    assert sum(size for _, size in verdict.owners) == pytest.approx(verdict.needed_bytes)


def test_missing_bytes_and_remedies() -> None:
    cluster = pt.clusters.load("dgx-a100")
    tree = pt.StrategyTree(MODEL).parallelize(dp=8, global_batch=16, micro_batch=2)
    outcome = pt.simulate(tree, cluster)
    verdict = outcome.memory_verdict()
    assert not outcome.fits and not verdict.fits
    assert verdict.missing_bytes == pytest.approx(outcome.missing_bytes)
    assert "out of memory" in str(verdict) and "missing" in str(verdict)
    fitting = [r for r in verdict.remedies if not r.missing_bytes]
    assert fitting and verdict.remedies[: len(fitting)] == tuple(fitting)
    best = fitting[0]
    again = pt.simulate(best.tree, cluster)
    assert again.fits
    assert again.step_time_s == best.step_time_s
    assert again.peak_memory_bytes == best.peak_bytes


def test_edits_only_offer_what_is_not_done() -> None:
    tree = pt.StrategyTree(MODEL).parallelize(dp=8, global_batch=8, zero=3, recompute="full")
    assert list(edits(tree)) == []
    labels = [label for label, _ in edits(pt.StrategyTree(MODEL).parallelize(dp=8, global_batch=8, zero=1))]
    assert "zero=1" not in labels and "zero=2" in labels and "recompute=full" in labels
    assert all("zero" not in label for label, _ in edits(pt.StrategyTree(MODEL).parallelize(tp=8, global_batch=1)))
