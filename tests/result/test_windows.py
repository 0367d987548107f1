"""Steps of ranks that do not wait for each other at the end."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import proteus as pt
from proteus.compiler.kinds import SpanKind
from proteus.result.result import Result
from tests.result.samples import ideal_pipeline, played, small

MICRO_BATCHES = 8


@cache
def overlapped(schedule: str, overlap_steps: bool = True) -> Result:
    tree = pt.StrategyTree(small()).parallelize(
        pp=2, tp=4, global_batch=MICRO_BATCHES, schedule=schedule, overlap_steps=overlap_steps
    )
    return pt.simulate(tree, pt.clusters.load("dgx-a100"))


def even_pipeline(ranks: int, schedule: str) -> Result:
    """An ideal pipeline in which a stage takes a second for each of forward, input and weight gradients."""
    outcome = ideal_pipeline(ranks, MICRO_BATCHES, schedule=schedule, overlap_steps=True)
    graph, tasks = outcome.graph, outcome.graph.tasks
    span = np.array([row.span for row in graph.op_rows])
    work_s = tasks.segment_work_s.copy()
    for kind in (SpanKind.FORWARD, SpanKind.BACKWARD, SpanKind.WEIGHT_GRAD):
        work_s[span == kind] *= MICRO_BATCHES / outcome.devices[0].by_kind_s[kind.name.lower()]
    work = np.where(tasks.segment >= 0, np.add.reduceat(work_s, tasks.segment_ptr[:-1])[tasks.segment], tasks.work)
    return played(replace(graph, tasks=replace(tasks, segment_work_s=work_s, work=work)))


def test_two_ranks_by_hand() -> None:
    """Both work without a pause, the second from the first forward on: a parallelogram (arXiv 2401.10241, figure 3)."""
    outcome = even_pipeline(2, "zb-h2")
    assert outcome.timeline.makespan_s == pytest.approx(3 * MICRO_BATCHES + 1)
    assert outcome.step_time_s == pytest.approx(3 * MICRO_BATCHES)
    assert outcome.windows.begin_s == pytest.approx([0.0, 1.0])
    assert outcome.windows.end_s == pytest.approx([3 * MICRO_BATCHES, 3 * MICRO_BATCHES + 1])
    assert outcome.bubble_fraction == pytest.approx(0.0, abs=1e-9)


def test_the_first_zero_bubble_schedule_keeps_a_third_of_the_bubble() -> None:
    """(p - 1)(F + B - W) of every rank, p - 1 of these seconds."""
    outcome = even_pipeline(4, "zb-h1")
    assert outcome.step_time_s == pytest.approx(3 * MICRO_BATCHES + 3)


def test_one_forward_one_backward_gains_nothing() -> None:
    """The first rank begins first and ends last: its step is the whole timeline."""
    outcome = ideal_pipeline(4, MICRO_BATCHES, schedule="1f1b", overlap_steps=True)
    assert outcome.step_time_s == pytest.approx(outcome.timeline.makespan_s)
    assert outcome.bubble_fraction == pytest.approx(3 / (MICRO_BATCHES + 3))
    alone = ideal_pipeline(4, MICRO_BATCHES, schedule="1f1b")
    assert outcome.step_time_s == pytest.approx(alone.step_time_s)


def test_ranks_that_meet_share_one_window() -> None:
    outcome = overlapped("zb-h2", False)
    assert outcome.step_time_s == outcome.timeline.makespan_s == outcome.windows.end_s.max()
    assert (outcome.windows.begin_s == 0.0).all()


@pytest.mark.parametrize("schedule", ["zb-h1", "zb-h2", "zb-v", "1f1b"])
def test_the_next_step_fits_behind(schedule: str) -> None:
    """Shifted by the step, no rank begins before it has ended; one begins at once."""
    outcome = overlapped(schedule)
    line, graph = outcome.timeline, outcome.graph
    free_s = []
    for number, rank in enumerate(graph.classes):
        sends = [t.tasks for t in graph.transfers if number in (t.source, t.target)]
        rank_tasks = np.concatenate([rank.task_of, *sends])
        rank_tasks = rank_tasks[line.end_s[rank_tasks] > line.start_s[rank_tasks]]
        free_s.append(line.start_s[rank_tasks].min() + outcome.step_time_s - line.end_s[rank_tasks].max())
    assert min(free_s) == pytest.approx(0.0, abs=1e-12)
    assert outcome.step_time_s <= line.makespan_s


@pytest.mark.parametrize("schedule", ["zb-h1", "zb-h2", "1f1b"])
def test_all_that_is_read_from_it_speaks_of_one_step(schedule: str) -> None:
    outcome = overlapped(schedule)
    for times in outcome.devices:
        parts = times.busy_s + times.exposed_comm_s + times.host_s + times.waiting_s + times.bubble_s
        assert parts == pytest.approx(outcome.step_time_s, rel=1e-9)
        assert min(times.host_s, times.waiting_s, times.bubble_s) >= 0.0
    explained = outcome.explain(sensitivities=True)
    assert math.fsum(rung.seconds for rung in explained.steps) == outcome.step_time_s
    for lever in explained.levers:
        assert lever.step_time_s + lever.gain_s == pytest.approx(outcome.step_time_s)
    gains = {lever.label: lever.gain_s for lever in explained.levers}
    assert gains["no communication latency"] < 0.5 * outcome.step_time_s  # of the step, not of the timeline
    band = outcome.step_time_band
    assert band.low_s < outcome.step_time_s < band.high_s
    assert band.sigma == pytest.approx(overlapped(schedule, False).step_time_band.sigma, rel=0.1)
    path = outcome.critical_path
    np.testing.assert_array_equal(path.end_s[:-1], path.start_s[1:])
    assert sum(path.seconds_by_kind().values()) == pytest.approx(outcome.step_time_s)
    for link in np.flatnonzero(outcome.link_utilisation)[:3].tolist():
        steps = outcome.link_use(link)
        lasts = np.diff(np.append(steps.time_s, outcome.timeline.makespan_s))
        assert (steps.value * lasts).sum() / outcome.step_time_s == pytest.approx(
            outcome.link_utilisation[link], rel=1e-6
        )
