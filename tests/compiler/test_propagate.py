"""From the configs of a few nodes to the cut of every op."""

from __future__ import annotations

import pytest

import proteus as pt
from proteus.compiler.chain import chain
from proteus.compiler.program import Compute
from proteus.errors import StrategyError
from proteus.mesh import Mesh
from proteus.model.graph import Model
from proteus.strategy import StrategyTree
from proteus.strategy.config import Stage


def on(model: Model, **axes: int) -> StrategyTree:
    mesh = Mesh(tuple(axes.items()))
    stage = Stage(blocks=(0, model.num_blocks), rank=0, mesh=mesh, first_device=0)
    return StrategyTree(model).with_mesh(Mesh((("pp", 1), *mesh.axes)), (stage,))


def cuts(tree: StrategyTree, block: str) -> dict[str, tuple[str | None, ...]]:
    (chunk,) = chain(tree, element_bytes=2.0, fused_attention=True)
    program = next(link.program for link in chunk.links if link.run.block.name == block)
    return {i.op.name: i.cut for i in program.forward if isinstance(i, Compute)}


LLAMA = pt.models.load("tiny-llama", layers=2, seq=8)
MOE = pt.models.load("tiny-moe", layers=1, seq=8)


def test_what_nobody_said_flows_along_the_data() -> None:
    """One marked node: the cut of its output goes on until an op needs the whole dim."""
    tree = on(LLAMA, x=2).with_training(micro_batch=2, global_batch=2)
    cuts_of_op = cuts(tree.set("embedding.word", partition={"batch": "x"}), "layers")
    assert set(cuts_of_op.values()) == {("batch",)}
    cuts_of_op = cuts(tree.set("layers.*.mlp.gate_up", partition={"ffn": "x"}), "layers")
    assert cuts_of_op["mlp.gate_up"] == cuts_of_op["mlp.activation"] == cuts_of_op["mlp.fc2"] == ("ffn",)
    assert cuts_of_op["mlp.residual"] == cuts_of_op["attention.qkv"] == (None,)


def test_an_empty_tuple_stops_it() -> None:
    tree = on(LLAMA, x=2).with_training(micro_batch=2, global_batch=2)
    tree = tree.set("embedding.word", partition={"batch": "x"}).set("layers.*.mlp.norm", partition={"batch": ()})
    cuts_of_op = cuts(tree, "layers")
    assert cuts_of_op["attention.residual"] == ("batch",) and cuts_of_op["mlp.norm"] == (None,)


def test_a_conflict_names_both_nodes() -> None:
    tree = on(LLAMA, x=2).with_training(micro_batch=2, global_batch=2)
    tree = tree.set("layers.*.attention.proj", partition={"seq": "x"}).set("embedding", partition={"batch": "x"})
    tree = tree.set("layers.*.attention.core", partition={"batch": ()})
    with pytest.raises(StrategyError, match=r"layers.0.*axis x arrives cutting .* from .* and .* from attention\.proj"):
        cuts(tree, "layers")


def test_more_parts_than_indices() -> None:
    tree = on(LLAMA, x=16).set("layers.*.attention.core", partition={"kv_heads": "x"})
    with pytest.raises(StrategyError, match="x cuts kv_heads=8 into 16 parts; possible: 1 to 8"):
        cuts(tree, "layers")


def test_tokens_of_experts_are_cut_evenly() -> None:
    tree = on(MOE, x=3).with_training(micro_batch=4, global_batch=4)
    with pytest.raises(StrategyError, match="unequal parts; possible: 1, 2, 4"):
        cuts(tree.set("layers.*.mlp", partition={"batch": "x"}), "layers")


def test_dispatch_and_combine_cut_tokens_alike() -> None:
    tree = on(MOE, x=2).with_training(micro_batch=2, global_batch=2)
    tree = tree.set("layers.*.mlp.dispatch", partition={"batch": "x"})
    tree = tree.set("layers.*.mlp.combine", partition={"seq": "x"})
    with pytest.raises(StrategyError, match=r"mlp\.combine: axis x cuts seq, in mlp\.dispatch batch"):
        cuts(tree, "layers")


def test_slots_are_never_cut_by_themselves() -> None:
    tree = on(MOE, x=2).with_training(micro_batch=2, global_batch=2)
    cuts_of_op = cuts(tree.set("layers.*.mlp", partition={"slots": "x"}), "layers")
    assert cuts_of_op["mlp.dispatch"] == (None,) and cuts_of_op["mlp.experts.fc2"] == ("slots",)
