"""The inspector offers what a node may say, and an edit becomes a config."""

from __future__ import annotations

import pytest

import proteus as pt
from proteus.errors import StrategyError
from proteus.strategy import Memory, NodeConfig, TreeRow
from proteus_widgets.editors import INHERIT, editors, said_after


def row_of(tree: pt.StrategyTree, path: str) -> TreeRow:
    return next(row for row in tree.rows() if row.path == path and row.kind != "stage")


def fields(tree: pt.StrategyTree, path: str, own: NodeConfig | None = None) -> dict[str, dict]:
    return {e["field"]: e for e in editors(tree, row_of(tree, path), own or NodeConfig())}


def test_op_offers_its_dims(small_tree: pt.StrategyTree) -> None:
    path = next(row.path for row in small_tree.rows() if row.label == "fc1")
    found = fields(small_tree, path)
    assert {"partition.batch", "partition.ffn", "recompute", "memory.parameter"} <= set(found)
    assert found["partition.ffn"]["value"] == INHERIT
    assert found["partition.ffn"]["options"][0]["label"] == "as inherited (tp)"


def test_block_offers_recompute_and_memory_only(small_tree: pt.StrategyTree) -> None:
    path = next(row.path for row in small_tree.rows() if row.kind == "block" and row.count > 1)
    assert not any(name.startswith("partition") for name in fields(small_tree, path))


def test_own_value_is_shown(small_tree: pt.StrategyTree) -> None:
    path = next(row.path for row in small_tree.rows() if row.label == "fc1")
    assert fields(small_tree, path, NodeConfig(recompute="full"))["recompute"]["value"] == "full"
    assert fields(small_tree, path, NodeConfig(partition={"ffn": ()}))["partition.ffn"]["value"] == "-"


def test_stage_has_no_editor(small_tree: pt.StrategyTree) -> None:
    stage = next(row for row in small_tree.rows() if row.kind == "stage")
    assert editors(small_tree, stage, NodeConfig()) == []


def test_every_offer_of_every_row_is_a_valid_edit(small_tree: pt.StrategyTree) -> None:
    for row in small_tree.rows():
        for editor in editors(small_tree, row, NodeConfig()):
            for option in editor["options"]:
                assert isinstance(said_after(NodeConfig(), editor["field"], option["value"]), NodeConfig)


def test_edits_add_up_and_inherit_takes_back() -> None:
    config = said_after(NodeConfig(), "partition.ffn", "tp")
    config = said_after(config, "partition.seq", "-")
    config = said_after(config, "memory.optimizer", "S(dp)@host")
    assert config.partition == {"ffn": ("tp",), "seq": ()}
    assert config.memory == {"optimizer": Memory(axes=("dp",), offload=True)}
    for field in ("partition.ffn", "partition.seq", "memory.optimizer"):
        config = said_after(config, field, INHERIT)
    assert config == NodeConfig()


def test_weights_are_frozen_and_trained(small_tree: pt.StrategyTree) -> None:
    path = next(row.path for row in small_tree.rows() if row.label == "fc1")
    frozen = said_after(NodeConfig(), "frozen", "frozen")
    assert (frozen.frozen, said_after(frozen, "frozen", "trained").frozen) == (True, False)
    assert fields(small_tree, path, frozen)["frozen"]["value"] == "frozen"
    assert said_after(frozen, "frozen", INHERIT) == NodeConfig()


def test_unknown_field_is_refused() -> None:
    with pytest.raises(StrategyError, match="no field 'colour'"):
        said_after(NodeConfig(), "colour", "red")
