"""Breakdowns of small traces, added up by hand in the definitions of HolisticTraceAnalysis."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import proteus as pt
from proteus.traces.times import DeviceRows, rank_times
from tests.traces.samples import ADD, ALL_REDUCE, copy, kernel, launch, step, write

SEND = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def test_two_streams_by_hand(tmp_path: Path) -> None:
    """::

    us       0    10   20   30   40   50   60   70   80
    compute  |=========|         |====|         |====|
    comm          |==============|         |====|
    copy                                             |==| (to 85)
    """
    events = [
        kernel(1000, 20), kernel(1040, 10, ADD), kernel(1070, 10),
        kernel(1010, 30, ALL_REDUCE, stream=20), kernel(1060, 10, SEND, stream=21),
        copy(1080, 5),
    ]  # fmt: skip
    times = pt.read_trace(write(tmp_path / "a.json", events)).times[0]
    us = 1e-6
    assert times.window_s == pytest.approx(85 * us)
    assert times.compute_s == pytest.approx(40 * us)
    assert times.comm_s == pytest.approx(40 * us)
    assert times.overlapped_s == pytest.approx(10 * us)
    assert times.exposed_s == pytest.approx({"all_reduce": 20 * us, "send_recv": 10 * us})
    assert times.copy_s == pytest.approx(5 * us)
    assert times.idle_s == pytest.approx(10 * us)


def test_two_collectives_at_once_count_once(tmp_path: Path) -> None:
    events = [kernel(0, 10), kernel(10, 10, ALL_REDUCE, stream=20), kernel(15, 10, SEND, stream=21)]
    times = pt.read_trace(write(tmp_path / "a.json", events)).times[0]
    assert times.comm_s == pytest.approx(15e-6)
    assert times.exposed_s == pytest.approx({"all_reduce": 10e-6, "send_recv": 5e-6})


@pytest.mark.parametrize(("launched_us", "host_us"), [(12.0, 20.0), (5.0, 0.0)])
def test_idle_time_is_the_hosts_where_the_launch_came_late(launched_us: float, host_us: float, tmp_path: Path) -> None:
    events = [
        launch(0, 1), kernel(2, 8, correlation=1),
        launch(launched_us, 2), kernel(30, 5, correlation=2),
    ]  # fmt: skip
    times = pt.read_trace(write(tmp_path / "a.json", events)).times[0]
    assert times.idle_s == pytest.approx(20e-6)
    assert times.host_bound_s == pytest.approx(host_us * 1e-6)


def test_a_step_is_the_window_of_the_profiler(tmp_path: Path) -> None:
    events = [step(3, 0, 100), step(4, 100, 50), kernel(10, 40), kernel(90, 30)]
    measured = pt.read_trace(write(tmp_path / "a.json", events))
    (first, one), (second, two) = measured.step_times
    assert (first, second) == (3, 4)
    assert (one.window_s, one.compute_s, one.idle_s) == pytest.approx((100e-6, 50e-6, 50e-6))
    assert (two.window_s, two.compute_s, two.idle_s) == pytest.approx((50e-6, 20e-6, 30e-6))
    assert measured.step_time_s == pytest.approx(75e-6)  # the median of two


def test_parts_add_up_to_the_window_at_random() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        n = int(rng.integers(1, 40))
        start = np.sort(rng.uniform(0, 100, n))
        kind = rng.choice([0, 5, 15, 16, 17, 20, 27, 28], n).astype(np.uint8)
        rows = DeviceRows(start_s=start, end_s=start + rng.uniform(0, 9, n), kind=kind, launch_s=start - 5)
        times = rank_times(0, rows, 10.0, 90.0)
        parts = times.compute_s + times.exposed_comm_s + times.copy_s + times.idle_s
        assert parts == pytest.approx(times.window_s)
        assert 0.0 <= times.host_bound_s <= times.idle_s + 1e-9
        # the union, by a grid instead of by intervals
        grid = np.linspace(10.0, 90.0, 80_001)[:-1] + 0.0005
        on = np.zeros((3, len(grid)), bool)
        for a, b, k in zip(rows.start_s, rows.end_s, kind, strict=True):
            on[0 if k < 17 else 1 if k < 27 else 2] |= (grid >= a) & (grid < b)
        assert times.compute_s == pytest.approx(on[0].mean() * 80, abs=0.05)
        assert times.comm_s == pytest.approx(on[1].mean() * 80, abs=0.05)
        assert times.overlapped_s == pytest.approx((on[0] & on[1]).mean() * 80, abs=0.05)
        assert times.idle_s == pytest.approx((~on.any(axis=0)).mean() * 80, abs=0.05)
