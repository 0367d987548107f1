"""One run simulated beside what was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proteus.calibration import Constants
from proteus.validation.runs import Run, parse_runs, shipped_runs
from proteus.validation.score import Options, score_run
from proteus.validation.validate import answer, validate
from tests.validation.rows import table


def one(**changes: str) -> Run:
    (run,) = parse_runs(table(dict(changes)), "t")
    return run


def test_a_run_is_scored() -> None:
    scored = score_run(one())
    assert scored.status == "scored"
    assert scored.step_time_s is not None and 0.05 < scored.step_time_s < 5
    assert scored.fits and scored.measured_fits
    assert scored.time_error == pytest.approx(scored.step_time_s / 0.5 - 1)


def test_out_of_memory_is_a_verdict() -> None:
    scored = score_run(
        one(
            outcome="oom",
            step_time_s="",
            micro_batch="64",
            seq_len="8192",
            gpu="T4",
            tp="1",
            dp="8",
            global_batch="512",
        )
    )
    assert (scored.status, scored.fits, scored.measured_fits) == ("scored", False, False)


def test_reasons() -> None:
    assert score_run(one(task="lora")).status == "not_expressible"
    assert "adapters" in score_run(one(task="lora")).reason
    failed = score_run(one(outcome="error:Kernel not available"))
    assert failed.status == "no_measurement"


def test_a_band_holds_the_measurement_or_not() -> None:
    scored = score_run(one())
    assert scored.step_time_low_s is not None and scored.step_time_high_s is not None
    assert scored.step_time_low_s < scored.step_time_s < scored.step_time_high_s
    assert set(scored.unsure) >= {"gemm", "nvlink3", "whole step"}
    low, high = scored.step_time_low_s, scored.step_time_high_s
    assert [replace(scored, measured_step_time_s=s).is_in_band for s in (0.99 * low, 1.01 * low, 0.99 * high)] == [
        False, True, True,
    ]  # fmt: skip
    assert score_run(one(), Options(analytic=True)).is_in_band is None


def test_the_band_holds_four_of_five_published_runs() -> None:
    """Of an even sample over all tables; as stable as 80 draws of 80 % can be."""
    runs = [run for run in shipped_runs() if run.step_time_s is not None]
    inside = [found for run in runs[:: len(runs) // 80] if (found := score_run(run).is_in_band) is not None]
    assert len(inside) > 70 and 0.7 <= sum(inside) / len(inside) <= 0.95


def test_options_reach_the_simulation() -> None:
    plain = score_run(one()).step_time_s
    slow = score_run(one(), Options(constants=Constants(compute=1.5))).step_time_s
    paleo = score_run(one(), Options(analytic=True))
    assert plain is not None and slow is not None and slow > 1.2 * plain
    assert paleo.step_time_s is not None and paleo.fits is None


def test_the_answer_has_the_promised_shape() -> None:
    runs = parse_runs(
        table({}, {"id": "a-2", "dp": "8", "tp": "1"}, {"id": "b-1", "table_id": "b", "task": "lora"}), "t"
    )
    document = answer(validate(runs, workers=1))
    assert set(document) == {"overall", "tables", "rows"}
    assert set(document["tables"]) == {"a", "b"}
    promised = {
        "id", "table_id", "status", "reason", "step_time_s", "measured_step_time_s", "fits", "measured_fits",
        "peak_memory_bytes", "measured_peak_memory_bytes",
    }  # fmt: skip
    assert all(promised <= set(row) for row in document["rows"])
    assert {"step_time_low_s", "step_time_high_s", "unsure"} <= set(document["rows"][0])
    assert document["overall"]["coverage"] == document["overall"]["mean_table_coverage"] in (0.0, 0.5, 1.0)
    assert document["overall"]["rows"] == 3 and document["overall"]["not_expressible"] == 1
