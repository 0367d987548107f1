"""Programs of copies: shared where configs are equal, handed over by place."""

from __future__ import annotations

import dataclasses

import pytest

import proteus as pt
from proteus.compiler.chain import chain
from proteus.compiler.program import Move
from proteus.errors import StrategyError
from proteus.mesh import Mesh
from proteus.strategy import StrategyTree


def compiled(tree: StrategyTree) -> list[tuple[str, int, int]]:
    """(block, first copy, copies) of every link."""
    return [
        (link.run.block.name, link.copy, link.count)
        for chunk in chain(tree, element_bytes=2.0, fused_attention=True)
        for link in chunk.links
    ]


def test_equal_layers_are_one_program() -> None:
    tree = pt.StrategyTree(pt.models.load("tiny-llama")).parallelize(tp=2)
    assert compiled(tree) == [("embedding", 0, 1), ("layers", 0, 4), ("head", 0, 1)]


def test_an_edited_layer_is_a_program_of_its_own() -> None:
    tree = pt.StrategyTree(pt.models.load("tiny-llama")).parallelize(tp=2)
    tree = tree.set("layers.1", recompute="full")
    assert [(copy, count) for name, copy, count in compiled(tree) if name == "layers"] == [(0, 1), (1, 1), (2, 2)]


def test_layouts_cross_blocks_by_place() -> None:
    """The same dim has another name in the next block: no collective where nothing changes."""
    tree = pt.StrategyTree(pt.models.load("tiny-cnn")).parallelize(dp=4)
    moves = [
        instruction
        for chunk in chain(tree, element_bytes=2.0, fused_attention=True)
        for link in chunk.links
        for instruction in (*link.program.forward, *link.program.backward)
        if isinstance(instruction, Move)
    ]
    assert moves == []


def test_chunks_of_one_rank_share_its_devices() -> None:
    tree = pt.StrategyTree(pt.models.load("tiny-llama")).parallelize(pp=2, schedule="zb-v", global_batch=4)
    other = dataclasses.replace(tree.stages[3], mesh=Mesh((("dp", 1), ("tp", 1), ("cp", 1))))
    with pytest.raises(StrategyError, match="chunks 0 and 3 are both on pipeline rank 0"):
        chain(tree.with_mesh(tree.mesh, (*tree.stages[:3], other)), element_bytes=2.0, fused_attention=True)


def test_the_first_trained_copy_hands_no_gradient_back() -> None:
    """Nothing before it is trained, so its program lacks the gradient of its input."""
    tree = pt.StrategyTree(pt.models.load("tiny-llama")).parallelize(lora=2, lora_targets=("attention.qkv",))
    embedding, first, others, head = (
        link.program for link in chain(tree, element_bytes=2.0, fused_attention=True)[0].links
    )
    assert compiled(tree) == [("embedding", 0, 1), ("layers", 0, 1), ("layers", 1, 3), ("head", 0, 1)]
    assert (embedding.backward, embedding.saved) == ((), ())
    assert [program.input_grads[0] >= 0 for program in (first, others, head)] == [False, True, True]


def test_a_frozen_product_keeps_no_input() -> None:
    """The norm keeps its own input; what the norm makes is kept for the product's weight alone."""
    tree = pt.StrategyTree(pt.models.load("tiny-llama")).parallelize()
    frozen = tree.set("layers.*.mlp.gate_up", frozen=True)
    kept = [
        {name for name, _, _ in chain(each, element_bytes=2.0, fused_attention=True)[0].links[1].program.saved}
        for each in (tree, frozen)
    ]
    assert kept[0] - kept[1] == {"mlp.norm.out"}
    assert kept[1] <= kept[0]
