"""Warm predictions: one run of a table sets three constants."""

from __future__ import annotations

from proteus.validation.runs import parse_runs
from proteus.validation.score import PLAIN
from proteus.validation.validate import validate
from proteus.validation.warm import distance, learn, share, teachers, warm_scores, warm_tasks
from tests.validation.rows import table


def test_one_run_teaches_and_is_not_scored() -> None:
    runs = parse_runs(
        table(
            {"step_time_s": "0.9"},
            {"id": "a-2", "dp": "8", "tp": "1", "step_time_s": "0.8"},
            {"id": "b", "table_id": "b"},
        ),
        "t",
    )
    cold = validate(runs, workers=1)
    chosen = teachers(runs, cold)
    assert len(chosen) == 1  # a table of one run has nothing to predict
    warm = warm_scores(runs, cold, PLAIN, workers=1)
    taught = set(chosen.values())
    assert [score.id for score in warm] == [run.id for n, run in enumerate(runs[:2]) if n not in taught]
    before = next(score for score in cold if score.id == warm[0].id)
    assert abs(warm[0].time_error or 0.0) < abs(before.time_error or 0.0)


def test_the_most_central_run_teaches_whatever_was_measured() -> None:
    rows = [{"id": f"a-{mb}", "micro_batch": str(mb), "step_time_s": str(step_s)} for mb, step_s in MEASURED]
    runs = parse_runs(table(*rows), "t")
    (teacher,) = teachers(runs, validate(runs, workers=1)).values()
    assert runs[teacher].micro_batch == 4


MEASURED = ((1, 9.0), (4, 7.0), (8, 0.5))


def test_a_run_is_believed_less_by_runs_unlike_it() -> None:
    rows = [{"id": f"a-{mb}", "micro_batch": str(mb), "step_time_s": str(step_s)} for mb, step_s in MEASURED]
    runs = parse_runs(table(*rows, {"id": "moe", "micro_batch": "4", "moe_experts": "8", "moe_topk": "2"}), "t")
    one, four, eight, experts = runs
    assert share(four, four) > share(four, eight) > share(four, one) > 0.0
    assert share(four, four) == 1.0 and share(four, experts) < 0.7  # what experts are off by is rarely the machine's

    cold = validate(runs[:3], workers=1)
    learned = learn(four)
    by_id = {run.id: options.constants for run, options in warm_tasks(runs[:3], cold, PLAIN)}
    for run in (one, eight):
        assert by_id[run.id] == learned.believed(share(four, run))


def test_distance_counts_what_differs() -> None:
    (run, other) = parse_runs(table({}, {"tp": "8", "model": "another", "table_id": "b"}), "t")
    assert distance(run, run) == 0.0
    assert distance(run, other) == distance(other, run) == 4.0  # tp 2 and 8, and the model
