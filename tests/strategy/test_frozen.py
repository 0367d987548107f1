"""Frozen nodes: which parameters they hold, and what the backward then costs."""

from __future__ import annotations

import pytest

import proteus as pt
from proteus.strategy import StrategyTree
from proteus.strategy.frozen import frozen_paths, quantised_parameters, trained_parameters, training_flop

MODEL = pt.models.load("tiny-llama", layers=3, seq=8)
TREE = StrategyTree(MODEL).parallelize(global_batch=2)


def forward(tree: StrategyTree, *parts: str) -> float:
    """FLOP of the products whose path begins with one of `parts`."""
    return sum(
        op.flop()
        for block in tree.model.blocks
        for copy in range(block.count)
        for op in block.ops
        if any(f"{block.path(copy)}.{op.name}".startswith(part) for part in parts)
    )


def test_everything_is_trained_unless_told() -> None:
    assert frozen_paths(TREE) == frozenset()
    assert training_flop(TREE) == 3.0 * MODEL.flop()


def test_the_nearest_node_decides() -> None:
    tree = TREE.set("", frozen=True).set("layers.1.mlp", frozen=False).set("layers.*.mlp.fc2", frozen=True)
    trained = set(MODEL.parameter_paths()) - frozen_paths(tree)
    assert trained == {"layers.1.mlp.norm.weight", "layers.1.mlp.gate_up.weight"}


def test_a_frozen_product_saves_one_of_three_passes() -> None:
    tree = TREE.set("layers.*.mlp", frozen=True)
    saved = 3.0 * MODEL.flop() - training_flop(tree)
    mlps = [f"layers.{i}.mlp" for i in range(3)]
    assert saved == forward(tree, *mlps)


def test_before_the_first_trained_block_there_is_only_a_forward() -> None:
    tree = TREE.set("embedding", frozen=True).set("layers.0-1", frozen=True)
    saved = 3.0 * MODEL.flop() - training_flop(tree)
    assert saved == 2.0 * forward(tree, "layers.0", "layers.1")


def test_a_tied_parameter_is_one_parameter() -> None:
    tree = StrategyTree(pt.models.load("tiny-gpt", layers=1, seq=8)).set("embedding", frozen=True)
    assert "embedding.word.weight" in frozen_paths(tree)
    with pytest.raises(pt.StrategyError, match="only one of them is frozen"):
        pt.simulate(tree, pt.clusters.load("dgx-a100"))
    both = tree.set("head.head", frozen=True)
    assert pt.simulate(both, pt.clusters.load("dgx-a100")).step_time_s > 0


def test_something_must_be_trained() -> None:
    with pytest.raises(pt.StrategyError, match="every parameter is frozen"):
        pt.simulate(TREE.set("", frozen=True), pt.clusters.load("dgx-a100"))


def test_ids_are_no_parameters() -> None:
    run = TREE.runs()[0]
    assert trained_parameters(run.block, run.configs) == {"word.weight"}


def test_the_tree_shows_and_keeps_it() -> None:
    tree = TREE.set("", frozen=True).set("layers.*.mlp", frozen=False)
    assert StrategyTree.from_yaml(tree.to_yaml(), model=MODEL) == tree
    badges = {row.path: row.badges for row in tree.rows()}
    assert badges[""] == ("frozen",)
    assert badges["layers.0-2.mlp"] == ("trained",)
    assert badges["layers.0-2.attention.qkv"] == ("frozen",)
    assert badges["layers.0-2.attention.core"] == ()
    assert TREE.set("embedding", frozen=True).diff(TREE) == ["embedding: - → frozen"]


@pytest.mark.parametrize("value", ["sometimes", 2])
def test_frozen_is_true_or_false(value: object) -> None:
    with pytest.raises(pt.StrategyError, match="True, False or 'nf4'"):
        TREE.set("embedding", frozen=value)  # type: ignore[arg-type]
    text = TREE.set("embedding", frozen=True).to_yaml().replace("frozen: true", f"frozen: {value}")
    with pytest.raises(pt.InputError, match=r"nodes\.embedding\.frozen: expected true, false or nf4"):
        StrategyTree.from_yaml(text, model=MODEL)


def test_four_bits_are_for_weights_of_frozen_products() -> None:
    tree = TREE.set("layers.*", frozen="nf4").set("layers.*.mlp.fc2", frozen=False)
    run = tree.runs()[1]
    assert quantised_parameters(run.block, run.configs) == {
        "attention.qkv.weight.q", "attention.qkv.weight.kv", "attention.proj.weight", "mlp.gate_up.weight"
    }  # fmt: skip
    assert "layers.0.attention.norm.weight" in frozen_paths(tree)
    assert StrategyTree.from_yaml(tree.to_yaml(), model=MODEL) == tree
    assert {row.path: row.badges for row in tree.rows()}["layers.0-2.attention.proj"] == ("frozen in 4 bits",)
