"""Traces with one defect each: repaired with a warning, or refused with the reason."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proteus as pt
from proteus.traces import KernelKind, Measured
from tests.traces.samples import ADAM, ADD, ALL_REDUCE, GEMM, copy, document, kernel, launch, op, step, write

GENERIC = "ncclDevKernel_Generic(ncclDevComm*, unsigned long, ncclWork*)"


def read(folder: Path, events: list[Any], **info: int) -> Measured:
    return pt.read_trace(write(folder / "trace.json", events, **info))


def warned(measured: Measured, text: str) -> bool:
    return any(text in warning for warning in measured.warnings)


def test_columns(tmp_path: Path) -> None:
    events = [
        op(0, 20, "aten::linear"), op(1, 10, "aten::addmm"), launch(2, 5), kernel(12, 6, correlation=5),
        op(30, 5, "aten::copy_"), launch(31, 6), {**copy(40, 2, 4096), "args": {"device": 0, "stream": 7, "bytes": 4096,
                                                                                  "correlation": 6}},
    ]  # fmt: skip
    columns = read(tmp_path, events, rank=3).to_columns()
    assert columns["device"].tolist() == [3, 3]
    assert columns["kind"].tolist() == ["gemm", "copy"]
    assert columns["name"].tolist() == [GEMM, "Memcpy HtoD (Pinned -> Device)"]
    assert columns["operator"].tolist() == ["aten::addmm", "aten::copy_"]
    assert columns["start_s"] == pytest.approx([0.0, 28e-6])
    assert columns["duration_s"] == pytest.approx([6e-6, 2e-6])
    assert columns["launch_s"] == pytest.approx([-10e-6, 19e-6])
    assert columns["bytes"].tolist() == [0.0, 4096.0]
    assert columns["correlation"].tolist() == [5, 6]


def test_table_of_pandas(tmp_path: Path) -> None:
    frame = read(tmp_path, [kernel(0, 5), kernel(5, 5, ADD)]).to_dataframe()
    assert frame.groupby("kind")["duration_s"].sum().to_dict() == pytest.approx({"gemm": 5e-6, "elementwise": 5e-6})


def test_old_names_of_the_same_things(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "Operator", "name": "aten::mm", "pid": 1, "tid": "1", "ts": 0, "dur": 9},
        {"ph": "X", "cat": "Runtime", "name": "hipLaunchKernel", "pid": 1, "tid": "1", "ts": 1, "dur": 2,
         "args": {"correlation": 4, "external id": 2}},
        {"ph": "X", "cat": "Kernel", "name": "Cijk_Ailk_Bljk_BBS", "pid": 0, "tid": "stream 3", "ts": 5, "dur": 5,
         "args": {"device": 0, "correlation": 4}},
    ]  # fmt: skip
    measured = read(tmp_path, events)
    assert measured.to_columns()["operator"].tolist() == ["aten::mm"]
    assert (measured.kind.tolist(), measured.stream.tolist()) == ([KernelKind.GEMM], [3])


def test_metadata_of_collectives(tmp_path: Path) -> None:
    metadata = {
        "Collective name": "_allgather_base",
        "In msg nelems": 1000,
        "Out msg nelems": 8000,
        "dtype": "BFloat16",
        "Group size": 8,
        "Process Group Name": "3",
        "Process Group Description": "mesh_tp",
    }
    measured = read(tmp_path, [kernel(0, 5, GENERIC, stream=20, **metadata)])
    columns = measured.to_columns()
    assert columns["kind"].tolist() == ["all_gather"]
    assert (columns["bytes"].tolist(), columns["group"].tolist()) == ([16000.0], ["mesh_tp"])
    (row,) = measured.collectives()
    assert (row["rank"], row["kind"], row["group"], row["count"]) == (0, "all_gather", "mesh_tp", 1)
    assert row["Bps"] == pytest.approx(16000 / 5e-6)
    assert "1 × all_gather of mesh_tp: " in str(measured) and "3.2 GB/s" in str(measured)


def test_annotation_tells_a_generic_collective(tmp_path: Path) -> None:
    events = [
        op(0, 20, "nccl:_reduce_scatter_base", "user_annotation"), op(1, 10, "record_param_comms"), launch(2, 5),
        kernel(12, 6, GENERIC, correlation=5), kernel(20, 1, GENERIC),
    ]  # fmt: skip
    assert read(tmp_path, events).to_columns()["kind"].tolist() == ["reduce_scatter", "unknown_comm"]


def test_unknown_kernels_are_listed_with_their_share(tmp_path: Path) -> None:
    measured = read(tmp_path, [kernel(0, 30), kernel(30, 12, "frobnicate"), kernel(42, 8, GENERIC)])
    assert measured.unknown_fraction == pytest.approx(0.4)
    assert measured.unknown_kernels() == (("frobnicate", pytest.approx(0.24)), (GENERIC, pytest.approx(0.16)))
    assert warned(measured, "40.00% of the kernels' time is of unknown kind")
    assert measured.times[0].compute_s == pytest.approx(42e-6)  # unknown computation is computation, as HTA counts it


def test_memory_where_recorded(tmp_path: Path) -> None:
    def memory(ts: float, allocated: int, kind: int = 1) -> dict[str, Any]:
        args = {"Device Type": kind, "Device Id": 0, "Total Allocated": allocated, "Bytes": 1}
        return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": ts, "args": args}

    measured = read(
        tmp_path, [kernel(0, 1), memory(0, 5000), memory(1, 9000), memory(2, 7000), memory(3, 10**9, kind=0)]
    )
    assert measured.ranks[0].peak_memory_bytes == 9000.0
    assert read(tmp_path, [kernel(0, 1)]).ranks[0].peak_memory_bytes is None


# -- defects -----------------------------------------------------------------------------


def test_cut(tmp_path: Path) -> None:
    text = json.dumps(document([kernel(i * 10, 5) for i in range(100)]))
    path = tmp_path / "cut.json"
    path.write_text(text[: len(text) // 2])
    measured = pt.read_trace(path)
    assert warned(measured, "is cut in event") and 40 < len(measured) < 60


def test_empty(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text("")
    with pytest.raises(pt.InputError, match=r"empty\.json: is empty"):
        pt.read_trace(path)


@pytest.mark.parametrize("events", [[], [op(0, 5, "aten::add")]])
def test_without_gpu(events: list[Any], tmp_path: Path) -> None:
    with pytest.raises(pt.InputError, match="holds no events of a GPU"):
        read(tmp_path, events)


def test_a_rank_without_gpu_events_is_named(tmp_path: Path) -> None:
    paths = [write(tmp_path / "a.json", [kernel(0, 5)], rank=0), write(tmp_path / "b.json", [op(0, 5, "x")], rank=1)]
    measured = pt.read_trace(paths)
    assert [rank.rank for rank in measured.ranks] == [0] and warned(measured, "b.json: holds no events of a GPU")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"dur": -5}, "1 events have a negative duration"),
        ({"ts": -5}, "1 events have a negative time"),
        ({"ts": "soon"}, "1 events lack a time"),
        ({"ts": math.nan}, "1 events lack a time"),
        ({"ts": 10**400}, "1 events lack a time"),
        ({"dur": None}, "1 events lack a time"),
        ({"name": 7}, "1 events lack a time"),
        ({"args": [1]}, "1 events lack a time"),
        ({"args": {"stream": "seven", "device": 0}}, "1 events lack a time"),
        ({"args": {"stream": 2**70, "device": 0}}, "1 events lack a time"),
        ({"ts": 9e14}, "1 kernels lie, or last, more than a day from the others"),
        ({"dur": 9e14}, "1 kernels lie, or last, more than a day from the others"),
    ],
)
def test_an_event_that_cannot_be_is_left_out(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    events = [kernel(i * 10, 5) for i in range(10)]
    events[4] = {**events[4], **change}
    measured = read(tmp_path, events)
    assert warned(measured, says), measured.warnings
    assert len(measured) == 9
    assert measured.times[0].compute_s == pytest.approx(45e-6)


def test_zero_length(tmp_path: Path) -> None:
    measured = read(tmp_path, [kernel(0, 5), kernel(5, 0), kernel(5, 0), kernel(7, 3)])
    assert len(measured) == 4 and warned(measured, "2 events last shorter than the profiler's clock")
    assert measured.times[0].compute_s == pytest.approx(8e-6)


def test_only_zero_length(tmp_path: Path) -> None:
    times = read(tmp_path, [kernel(5, 0)]).times[0]
    assert (times.window_s, times.compute_s, times.idle_s) == (0.0, 0.0, 0.0)


def test_doubled_events_count_once(tmp_path: Path) -> None:
    events = [kernel(i * 10, 5, correlation=i + 1) for i in range(4)]
    measured = read(tmp_path, events + events[1:3])
    assert len(measured) == 4 and warned(measured, "2 kernels stand there twice and count once")


def test_ids_that_repeat_take_the_last_launch_before_the_kernel(tmp_path: Path) -> None:
    events = [launch(0, 7), launch(50, 7), kernel(10, 5, correlation=7), kernel(60, 5, correlation=7)]
    measured = read(tmp_path, events)
    assert measured.start_s - measured.launch_s == pytest.approx([10e-6, 10e-6])
    assert warned(measured, "2 kernels have an id that several launches have")


def test_clock_of_the_host_behind_that_of_the_gpu(tmp_path: Path) -> None:
    """Every kernel seems to start 1 ms before its launch; the host's clock is shifted so that none does."""
    events = [event for i in range(20) for event in
              (launch(i * 100, i + 1), kernel(i * 100 - 1000 + 5000, 50, correlation=i + 1))]  # fmt: skip
    for event in events:
        event["ts"] += 6000 if event["cat"] == "cuda_runtime" else 0
    measured = read(tmp_path, events)
    assert warned(measured, "the host's clock was shifted")
    assert (measured.launch_s <= measured.start_s + 1e-9).all()


def test_one_kernel_before_its_launch_loses_the_launch_only(tmp_path: Path) -> None:
    events = [
        event for i in range(50) for event in (launch(i * 100, i + 1), kernel(i * 100 + 5, 50, correlation=i + 1))
    ]
    events.append(launch(9000, 99))
    events.append(kernel(8000, 50, correlation=99))
    measured = read(tmp_path, events)
    assert warned(measured, "1 kernels start before the launch of their id")
    assert np.isnan(measured.launch_s).sum() == 1


# -- steps and ranks -----------------------------------------------------------------------


def test_steps_by_period(tmp_path: Path) -> None:
    events, ts = [], 0.0
    for _ in range(4):
        for name, dur in [(GEMM, 10), (ADD, 3), (GEMM, 10), (ADD, 3), (GEMM, 20), (ALL_REDUCE, 5), (ADAM, 4)]:
            events.append(kernel(ts, dur, name))
            ts += dur + 1
    measured = read(tmp_path, events)
    assert measured.steps_from == "periodicity" and warned(measured, "guessed from the period")
    windows = [times.window_s for _, times in measured.step_times]
    assert windows[:3] == pytest.approx([62e-6] * 3) and len(windows) == 4
    assert np.bincount(measured.step).tolist() == [7] * 4


def test_no_period(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    measured = read(tmp_path, [kernel(i * 10, 5, f"gemm_{rng.integers(1000)}") for i in range(100)])
    assert measured.steps_from == "none" and not measured.step_times and math.isnan(measured.step_time_s)


def test_kernels_belong_to_the_step_that_launched_them(tmp_path: Path) -> None:
    events = [step(1, 0, 100), step(2, 100, 100), launch(90, 1), kernel(120, 5, correlation=1), kernel(150, 5)]
    assert read(tmp_path, events).step.tolist() == [1, 2]


def collectives(shift: float, delay: float = 0.0) -> list[dict[str, Any]]:
    """Ten all-reduces that end at the same time on all ranks; `delay` is how late this rank reaches them."""
    events = []
    for i in range(10):
        ts = 1000 * i + shift
        events += [kernel(ts + 10, 500 + delay), kernel(ts + 600 + delay, 300 - delay, ALL_REDUCE, stream=20)]
    return events


def test_clocks_of_ranks_are_aligned_by_collectives(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "r0.json", collectives(5000), rank=0, world_size=2),
        write(tmp_path / "r1.json", collectives(77000, delay=120), rank=1, world_size=2),
    ]
    measured = pt.read_trace(paths)
    assert warned(measured, "its clock differs from that of rank 0 by 72.000 ms")
    ends = measured.end_s[measured.kind == KernelKind.ALL_REDUCE].reshape(2, 10)
    assert ends[0] == pytest.approx(ends[1])
    late = measured.late_arrivals()
    assert (late[0].rank, late[0].last, late[0].matched) == (1, 10, 10)
    assert late[0].waited_s == pytest.approx(10 * 120e-6)
    assert "rank 1 reaches 10 of 10 matched collectives last" in str(measured)
    apart = pt.read_trace(paths, align=False)
    assert apart.late_arrivals() == () and not warned(apart, "clock")


def test_clocks_that_do_not_match_are_left_alone(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    random = [kernel(float(ts), 10, ALL_REDUCE) for ts in np.sort(rng.uniform(0, 1e5, 10))]
    measured = pt.read_trace([
        write(tmp_path / "r0.json", collectives(0), rank=0), write(tmp_path / "r1.json", random, rank=1)
    ])  # fmt: skip
    assert warned(measured, "the clocks of ranks 1 were not aligned with rank 0")
    assert measured.late_arrivals() == ()


def test_missing_ranks(tmp_path: Path) -> None:
    measured = read(tmp_path, [kernel(0, 5)], rank=5, world_size=8)
    assert measured.world_size == 8 and warned(measured, "7 of 8 ranks are missing")


def test_one_rank_twice_is_refused(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, [kernel(0, 5)], rank=1) for name in ("a.json", "b.json")]
    with pytest.raises(pt.InputError, match=r"b\.json: says that it is rank 1, as does .*a\.json"):
        pt.read_trace(paths)
    with pytest.raises(pt.InputError, match="given twice"):
        pt.read_trace([paths[0], paths[0]])


def test_several_ranks_in_one_file(tmp_path: Path) -> None:
    measured = read(tmp_path, [kernel(0, 5), kernel(0, 7, device=1), kernel(10, 4, device=1)])
    assert [rank.rank for rank in measured.ranks] == [0, 1]
    assert [times.compute_s for times in measured.times] == pytest.approx([5e-6, 11e-6])
    assert warned(measured, "ranks numbered here")


def test_ranks_by_the_names_of_files_in_a_folder(tmp_path: Path) -> None:
    for rank in (10, 2):
        (tmp_path / f"rank-{rank}.pt.trace.json").write_text(json.dumps({"traceEvents": [kernel(0, rank)]}))
    (tmp_path / "notes.txt").write_text("x")
    measured = pt.read_trace(tmp_path)
    assert [times.rank for times in measured.times] == [2, 10]
    assert [times.compute_s for times in measured.times] == pytest.approx([2e-6, 10e-6])


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(pt.InputError, match="holds no trace"):
        pt.read_trace(tmp_path)


def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    """40 MB of events that nobody keeps cost a few chunks."""
    import tracemalloc

    path = tmp_path / "long.json"
    stack = {"ph": "X", "cat": "python_function", "name": "f" * 4000, "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    with path.open("w") as file:
        file.write('{"traceEvents": [' + json.dumps(kernel(0, 5)))
        for _ in range(10_000):
            file.write(",\n" + json.dumps(stack))
        file.write("]}")
    tracemalloc.start()
    pt.read_trace(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 40e6 and peak < 20e6
