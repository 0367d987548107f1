"""Better machines: each lever changes what it says, and none makes a step of equal order slower."""

from __future__ import annotations

import numpy as np
import pytest

from proteus.compiler.kinds import SpanKind
from proteus.htae.engine import play
from proteus.result import levers as lv
from tests.result.samples import ideal_pipeline, result


def test_compute_twice_as_fast_halves_a_step_of_compute() -> None:
    outcome = ideal_pipeline(2, 4)
    faster = play(lv.faster_compute(outcome.graph)).makespan_s
    assert faster == pytest.approx(outcome.step_time_s / 2, rel=1e-12)


def test_links_of_one_kind() -> None:
    tasks = result("tensor").graph.tasks
    is_faster = np.zeros(len(tasks.link_capacity_Bps), bool)
    is_faster[0] = True
    better = lv.faster_links(tasks, is_faster)
    ratio = better.link_capacity_Bps / tasks.link_capacity_Bps
    assert ratio[0] == 2.0 and (ratio[1:] == 1.0).all()
    grown = np.flatnonzero(better.pattern_cap_Bps > tasks.pattern_cap_Bps)
    for pattern in grown.tolist():
        assert 0 in tasks.pattern_link[tasks.pattern_ptr[pattern] : tasks.pattern_ptr[pattern + 1]]


def test_without_recompute_leaves_the_rest() -> None:
    graph = result("context").graph
    better = lv.without_recompute(graph)
    again = np.array([row.span == SpanKind.RECOMPUTE for row in graph.op_rows])
    assert again.any() and (better.segment_work_s[again] == 0).all()
    np.testing.assert_array_equal(better.segment_work_s[~again], graph.tasks.segment_work_s[~again])
    assert better.work.sum() < graph.tasks.work.sum()


@pytest.mark.parametrize("name", ["data", "tensor", "pipeline"])
def test_gains_are_differences_of_steps(name: str) -> None:
    outcome = result(name)
    levers = outcome.explain(sensitivities=True).levers
    assert levers and [v.gain_s for v in levers] == sorted((v.gain_s for v in levers), reverse=True)
    for lever in levers:
        assert lever.step_time_s + lever.gain_s == pytest.approx(outcome.step_time_s)
    assert {v.label: v for v in levers}["compute twice as fast"].gain_s > 0
    assert outcome.explain().levers == ()
