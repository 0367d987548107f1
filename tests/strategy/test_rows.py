"""The tree as rows: one for each path, parents first, every op found."""

from __future__ import annotations

import pytest

import proteus as pt
from proteus.strategy.rows import number_rows


@pytest.mark.parametrize("name", pt.models.names())
def test_every_path_has_one_row_and_every_op_its_own(name: str) -> None:
    tree = pt.StrategyTree(pt.models.load(name))
    rows, ids = number_rows(tree)
    paths = [row.path for row in rows]
    assert len(set(paths)) == len(paths)
    assert [row.id for row in rows] == list(range(len(rows)))
    assert all(row.parent < row.id for row in rows)
    for run in tree.runs():
        for op in run.block.ops:
            row = rows[ids[run.path, op.name]]
            assert (row.path, row.kind) == (f"{run.path}.{op.name}", "op")


def test_an_op_with_others_below_it_is_their_parent() -> None:
    rows, ids = number_rows(pt.StrategyTree(pt.models.load("vgg19")))
    relu = rows[ids["classifier", "fc1.relu"]]
    assert relu.parent == ids["classifier", "fc1"]
    assert rows[relu.parent].kind == "op"


@pytest.mark.parametrize("selector", ["layers.*.mlp", "layers.0-11.mlp", "*.*.mlp"])
def test_a_row_shows_what_was_said_of_its_node_by_any_selector(selector: str) -> None:
    tree = pt.StrategyTree(pt.models.load("gpt2")).set(selector, recompute="full")
    rows, ids = number_rows(tree)
    module = rows[rows[ids["layers.0-11", "mlp.fc1"]].parent]
    assert (module.path, module.kind, module.badges) == ("layers.0-11.mlp", "module", ("recompute full",))
    assert rows[module.parent].badges == ()  # the block says nothing itself


def test_an_op_shows_what_holds_for_it() -> None:
    tree = pt.StrategyTree(pt.models.load("gpt2")).set("layers", recompute="full")
    rows, ids = number_rows(tree)
    assert rows[ids["layers.0-11", ""]].badges == ("recompute full",)
    assert rows[ids["layers.0-11", "mlp.fc1"]].badges == ("recompute full",)
    assert rows[ids["head", ""]].badges == ()
