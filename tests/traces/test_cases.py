"""Real traces: totals equal to those of the index, and to HolisticTraceAnalysis, within 0.5 %."""

from __future__ import annotations

import ast
import csv
from pathlib import Path

import pytest

import proteus as pt

#: HolisticTraceAnalysis 0.5.0 on the same files: get_temporal_breakdown (idle, compute, non-compute) [us] and
#: get_comm_comp_overlap [%].  It counts cuda_sync events of K08 as kernels, which are no work of the GPU.
HTA = {
    "K01_128ranks_rank0.json.gz": (675191.0, 210320.0, 337336.0, 14.95),
    "K02_128ranks_rank1.json.gz": (651136.0, 271973.0, 308077.0, 19.93),
    "K07_v100_2rank_r1_df_1step.json.gz": (152358.0, 124235.0, 64207.0, 0.0),
}


def index(shared: Path) -> list[dict[str, str]]:
    with (shared / "cases" / "traces.csv").open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["file"].endswith(".json.gz")]


def test_totals_of_the_index(shared: Path) -> None:
    checked = 0
    for row in index(shared):
        if row["n_kernels"] == "0":
            continue
        measured = pt.read_trace(shared / "cases" / "traces" / row["file"])
        (times,) = measured.times
        assert times.compute_s * 1e6 == pytest.approx(float(row["compute_union_us"]), rel=0.005), row["file"]
        assert times.comm_s * 1e6 == pytest.approx(float(row["comm_union_us"]), rel=0.005), row["file"]
        assert times.overlapped_s * 1e6 == pytest.approx(float(row["comm_overlapped_us"]), rel=0.005, abs=1e-6)
        assert times.exposed_comm_s * 1e6 == pytest.approx(float(row["comm_exposed_us"]), rel=0.005, abs=1e-6)
        if row["rank"]:
            assert times.rank == int(row["rank"])
        if row["world_size"]:
            assert measured.world_size == int(row["world_size"])
        if row["gpu"]:
            assert measured.ranks[0].gpu == row["gpu"]
        steps = {f"ProfilerStep#{step}": t.window_s * 1e6 for step, t in measured.step_times}
        if row["steps_us"] != "[]":
            assert steps == pytest.approx(dict(ast.literal_eval(row["steps_us"])))
        assert measured.unknown_fraction < 0.01
        parts = times.compute_s + times.exposed_comm_s + times.copy_s + times.idle_s
        assert parts == pytest.approx(times.window_s)
        checked += 1
    assert checked >= 5


def test_a_trace_without_gpu_says_so(shared: Path) -> None:
    with pytest.raises(pt.InputError, match=r"holds no events of a GPU .*backend gloo"):
        pt.read_trace(shared / "cases" / "traces" / "K10_gloo_cpu_only.json.gz")


@pytest.mark.parametrize("name", HTA)
def test_equal_to_holistic_trace_analysis(name: str, shared: Path) -> None:
    idle_us, compute_us, other_us, overlap_percent = HTA[name]
    (times,) = pt.read_trace(shared / "cases" / "traces" / name).times
    assert times.idle_s * 1e6 == pytest.approx(idle_us, rel=0.005)
    assert times.compute_s * 1e6 == pytest.approx(compute_us, rel=0.005)
    assert (times.exposed_comm_s + times.copy_s) * 1e6 == pytest.approx(other_us, rel=0.005)
    assert times.overlapped_s / times.comm_s * 100 == pytest.approx(overlap_percent, abs=0.01)


@pytest.mark.parametrize("name", HTA)
def test_equal_to_holistic_trace_analysis_itself(name: str, shared: Path) -> None:
    analysis = pytest.importorskip("hta.trace_analysis", reason="HolisticTraceAnalysis is not installed")
    path = shared / "cases" / "traces" / name
    (times,) = pt.read_trace(path).times
    theirs = analysis.TraceAnalysis(trace_files={times.rank: str(path)}, include_last_profiler_step=True)
    row = theirs.get_temporal_breakdown(visualize=False).iloc[0]
    assert times.idle_s * 1e6 == pytest.approx(row["idle_time(us)"], rel=0.005)
    assert times.compute_s * 1e6 == pytest.approx(row["compute_time(us)"], rel=0.005)
    assert times.window_s * 1e6 == pytest.approx(row["kernel_time(us)"], rel=0.005)


def test_two_ranks_of_one_run(shared: Path) -> None:
    folder = shared / "cases" / "traces"
    measured = pt.read_trace([folder / "K01_128ranks_rank0.json.gz", folder / "K02_128ranks_rank1.json.gz"])
    assert [times.rank for times in measured.times] == [0, 1]
    assert any("126 of 128 ranks are missing" in warning for warning in measured.warnings)
