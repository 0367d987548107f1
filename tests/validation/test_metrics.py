"""Errors, rank correlation and verdicts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from proteus.validation.metrics import by_table, kendall_tau, summarize
from proteus.validation.score import Score


def score(predicted: float, measured: float, **more: object) -> Score:
    return Score(id="1", table_id="t", status="scored", step_time_s=predicted, measured_step_time_s=measured, **more)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=12))
def test_tau_is_scipys(pairs: list[tuple[int, int]]) -> None:
    a, b = [float(x) for x, _ in pairs], [float(y) for _, y in pairs]
    ours = kendall_tau(a, b)
    if ours is None:
        assert len(set(a)) == 1 or len(set(b)) == 1
    else:
        assert ours == pytest.approx(kendalltau(a, b).statistic)


def test_errors_are_relative_to_the_measurement() -> None:
    summary = summarize([score(1.1, 1.0), score(0.8, 1.0), score(1.0, 1.0)])
    assert summary.median_error == pytest.approx(0.1)
    assert summary.mean_error == pytest.approx(0.1)
    assert summary.bias == pytest.approx(0.0)


def test_coverage_is_over_rows_with_a_band_and_a_measurement() -> None:
    ends = {"step_time_low_s": 0.9, "step_time_high_s": 1.2}
    assert summarize([score(1.0, 1.1, **ends), score(1.0, 1.3, **ends), score(1.0, 1.0)]).coverage == 0.5
    assert summarize([score(1.0, 1.0)]).coverage is None


def test_tau_ranks_by_throughput_and_not_by_batch() -> None:
    rows = [score(1.0, 1.0, global_batch=8), score(3.0, 3.0, global_batch=12), score(2.5, 2.4, global_batch=16)]
    assert summarize(rows).tau == 1.0


def test_verdicts() -> None:
    rows = [
        Score(id="1", table_id="t", status="scored", fits=True, measured_fits=True),
        Score(id="2", table_id="t", status="scored", fits=True, measured_fits=False),
        Score(id="3", table_id="t", status="scored", fits=False, measured_fits=True),
        Score(id="4", table_id="u", status="not_expressible", measured_fits=True),
    ]
    summary = summarize(rows)
    assert (summary.verdicts, summary.right_verdicts, summary.missed_oom, summary.false_oom) == (3, 1, 1, 1)
    assert summary.not_expressible == 1
    assert list(by_table(rows)) == ["t", "u"]


def test_memory_counts_only_what_the_allocator_said() -> None:
    exact = score(1.0, 1.0, peak_memory_bytes=9.0, measured_peak_memory_bytes=10.0, memory_is_exact=True)
    other = score(1.0, 1.0, peak_memory_bytes=5.0, measured_peak_memory_bytes=10.0)
    assert summarize([exact, other]).memory_error == pytest.approx(0.1)


def test_nothing_gives_nothing() -> None:
    assert summarize([]).median_error is None
