"""Busy, exposed, waiting and bubble against closed forms and against each other."""

from __future__ import annotations

import numpy as np
import pytest

import proteus as pt
from proteus.compiler.kinds import SpanKind
from tests.result.samples import STRATEGIES, ideal_pipeline, result, small


def union(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Disjoint intervals that cover the same time, sorted."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    head = np.concatenate([[True], start[1:] > end[:-1]])
    return start[head], end[np.flatnonzero(np.concatenate([head[1:], [True]]))]


def covered(start: np.ndarray, end: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Time covered by disjoint sorted intervals up to each of `at`."""
    done = np.concatenate([[0.0], np.cumsum(end - start)])
    row = np.searchsorted(start, at, side="right") - 1
    inside = np.clip(at - start[row], 0.0, (end - start)[row])
    return np.where(row >= 0, done[row] + inside, 0.0)


@pytest.mark.parametrize("name", STRATEGIES)
def test_parts_of_a_device_are_the_step(name: str) -> None:
    outcome = result(name)
    for times in outcome.devices:
        parts = times.busy_s + times.exposed_comm_s + times.host_s + times.waiting_s + times.bubble_s
        assert parts == pytest.approx(outcome.step_time_s, rel=1e-9)
        assert min(times.busy_s, times.host_s, times.waiting_s, times.bubble_s, times.overlapped_s) >= 0.0
    assert sum(times.multiplicity for times in outcome.devices) == outcome.num_devices


@pytest.mark.parametrize("name", STRATEGIES)
def test_exposed_is_what_no_compute_covers(name: str) -> None:
    """Sampled: at an instant of exposed communication of a device, its compute stream rests."""
    outcome = result(name)
    spans, device = outcome.spans, outcome.devices[0].device
    mine = np.array([lane.device == device for lane in spans.lanes])[spans.lane] & (spans.kind != SpanKind.HOST)
    compute = mine & (spans.kind <= SpanKind.OPTIMIZER)
    busy = union(spans.start_s[compute], (spans.start_s + spans.duration_s)[compute])
    comm = np.flatnonzero(mine & ~compute)
    beside = covered(*busy, (spans.start_s + spans.duration_s)[comm]) - covered(*busy, spans.start_s[comm])
    assert (outcome.exposed_s[comm] <= spans.duration_s[comm] - beside + 1e-12).all()
    union_s = np.subtract(*union(spans.start_s[mine], (spans.start_s + spans.duration_s)[mine])[::-1]).sum()
    busy_s = np.subtract(*busy[::-1]).sum()
    assert outcome.exposed_s[comm].sum() == pytest.approx(union_s - busy_s, abs=1e-12)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("ranks", "micro_batches"), [(2, 4), (4, 4), (4, 12)])
def test_bubble_is_the_closed_form(schedule: str, ranks: int, micro_batches: int) -> None:
    """(p - 1) / (m + p - 1): GPipe (arXiv 1811.06965) and PipeDream-flush (arXiv 2104.04473 section 2.2.1)."""
    outcome = ideal_pipeline(ranks, micro_batches, schedule=schedule)
    assert outcome.bubble_fraction == pytest.approx((ranks - 1) / (micro_batches + ranks - 1), rel=1e-9)
    assert outcome.exposed_comm_s == {} or sum(outcome.exposed_comm_s.values()) == 0.0


def test_interleaving_divides_the_bubble() -> None:
    """(p - 1) / (v m) of the ideal time: arXiv 2104.04473 section 2.2.2."""
    outcome = ideal_pipeline(4, 8, schedule="interleaved", virtual_stages=2)
    ideal = outcome.devices[0].busy_s
    assert outcome.step_time_s / ideal - 1.0 == pytest.approx(3 / (2 * 8), rel=1e-9)


def test_a_straggler_is_waited_for() -> None:
    tree = pt.StrategyTree(small()).parallelize(dp=8, global_batch=16, framework="ddp")  # not bound by the host
    cluster = pt.clusters.load("dgx-a100").slow_device(5, 1.5)
    outcome = pt.simulate(tree, cluster)
    slow = next(d for d in outcome.devices if d.multiplicity == 1)
    others = [d for d in outcome.devices if d is not slow]
    assert slow.device == 5
    assert slow.waiting_s == 0.0
    assert all(d.waiting_s > 0.2 * outcome.step_time_s for d in others)
    assert outcome.bubble_fraction == 0.0


@pytest.mark.parametrize("name", ["pipeline", "tensor"])
def test_folding_changes_no_mean(name: str) -> None:
    tree = pt.StrategyTree(small()).parallelize(**STRATEGIES[name])
    whole = pt.simulate(tree, pt.clusters.load("dgx-a100"), fold=False)
    folded = result(name)
    assert whole.bubble_fraction == pytest.approx(folded.bubble_fraction, rel=1e-9)
    assert whole.exposed_comm_s == pytest.approx(folded.exposed_comm_s, rel=1e-9)
