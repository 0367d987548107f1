"""A comparison names what changed, in the results and in the trees."""

from __future__ import annotations

import json

import proteus as pt
from tests.result.samples import result, small


def test_rows_are_the_differences() -> None:
    before, after = result("data"), result("tensor")
    table = before.compare(after)
    step = table.rows[0]
    assert (step.before, step.after) == (before.step_time_s, after.step_time_s)
    assert step.change == after.step_time_s - before.step_time_s
    ladder = [row for row in table.rows if row.unit == "s"][1:]
    assert abs(sum(row.change for row in ladder) - step.change) < 1e-12
    assert any("mesh" in line for line in table.changes)
    assert json.loads(json.dumps(table.to_dict()))["rows"][0]["before"] == before.step_time_s
    assert "step time" in str(table) and "<table>" in table._repr_mimebundle_()["text/html"]


def test_nothing_changed() -> None:
    outcome = result("data")
    table = outcome.compare(outcome)
    assert table.changes == ()
    assert {row[-1] for row in table.table()} == {"="}


def test_another_cluster_or_model_is_said() -> None:
    tree = pt.StrategyTree(small()).parallelize(dp=8, global_batch=16)
    outcome = pt.simulate(tree, pt.clusters.load("dgx-h100"))
    assert any(line.startswith("cluster:") for line in result("data").compare(outcome).changes)
    other = pt.simulate(pt.StrategyTree(pt.models.load("resnet50")).parallelize(dp=8, micro_batch=2, global_batch=16),
                        pt.clusters.load("dgx-a100"))  # fmt: skip
    assert any(line.startswith("model:") for line in result("data").compare(other).changes)
