"""The critical path is one chain from time zero to the end of the step."""

from __future__ import annotations

import numpy as np
import pytest

from proteus.compiler.kinds import SpanKind
from tests.result.samples import STRATEGIES, ideal_pipeline, result


@pytest.mark.parametrize("name", STRATEGIES)
def test_rows_join_and_span_the_step(name: str) -> None:
    outcome = result(name)
    path = outcome.critical_path
    assert path.start_s[0] == 0.0
    assert path.end_s[-1] == outcome.step_time_s
    np.testing.assert_array_equal(path.end_s[:-1], path.start_s[1:])
    assert sum(path.seconds_by_kind().values()) == pytest.approx(outcome.step_time_s)
    assert {int(d) for d in path.device} <= {times.device for times in outcome.devices}


@pytest.mark.parametrize("name", STRATEGIES)
def test_spans_of_the_path_are_those_of_its_tasks(name: str) -> None:
    outcome = result(name)
    path, spans = outcome.critical_path, outcome.spans
    assert set(spans.task[path.spans].tolist()) == set(path.task[path.task >= 0].tolist())
    assert spans.duration_s[path.spans].sum() == pytest.approx(float((path.end_s - path.start_s)[path.task >= 0].sum()))


def test_path_of_a_pipeline_by_hand() -> None:
    """Forward of micro-batch 0 down the stages, all of the last stage's work, backward up again."""
    outcome = ideal_pipeline(2, 3, schedule="1f1b")
    path = outcome.critical_path
    stage_f = outcome.devices[0].by_kind_s["forward"] / 3
    stage_b = (outcome.devices[0].busy_s - outcome.devices[0].by_kind_s["forward"]) / 3
    assert outcome.step_time_s == pytest.approx(4 * (stage_f + stage_b))
    assert path.seconds_by_kind()["forward"] == pytest.approx(4 * stage_f)
    assert path.seconds_by_kind()["backward"] + path.seconds_by_kind()["weight_grad"] == pytest.approx(4 * stage_b)
    assert not np.isin(path.kind, [SpanKind.PIPELINE_COMM, SpanKind.HOST]).any()
