"""Layouts follow from the cut of an op, as the table in compiler.layout says."""

from __future__ import annotations

import pytest

import proteus as pt
from proteus.compiler.layout import (
    gradient_of,
    input_grad_layout,
    input_layout,
    largest_shape,
    local_chunk,
    output_grad_layout,
    output_layout,
    renamed,
    show,
)
from proteus.mesh import Mesh
from proteus.model.graph import Block, Op
from proteus.placement import Partial, Placement, Replicate, Shard

R, P = Replicate(), Partial()
BLOCK = pt.models.load("tiny-llama", layers=1).blocks[1]
HEAD = pt.models.load("tiny-llama", layers=1).blocks[2]
EXPERTS = pt.models.load("tiny-moe", layers=1).blocks[1]


def op_of(block: Block, name: str) -> Op:
    return next(op for op in block.ops if op.name == name)


@pytest.mark.parametrize(
    ("op", "dim", "inputs", "outputs"),
    [
        # inputs and outputs: (layout, layout of the gradient) of each operand
        ("mlp.fc2", "batch", [(Shard("batch"), Shard("batch")), (R, P)], [(Shard("batch"), Shard("batch"))]),
        ("mlp.fc2", "hidden", [(R, P), (Shard("hidden"), Shard("hidden"))], [(Shard("hidden"), Shard("hidden"))]),
        ("mlp.fc2", "ffn", [(Shard("ffn"), Shard("ffn")), (Shard("ffn"), Shard("ffn"))], [(P, R)]),
        ("mlp.fc2", None, [(R, R), (R, R)], [(R, R)]),
        # kv has no q_per_kv: every part makes the same kv, and a term of its gradient
        (
            "attention.qkv",
            "q_per_kv",
            [(R, P), (Shard("q_per_kv"), Shard("q_per_kv")), (R, P)],
            [(Shard("q_per_kv"), Shard("q_per_kv")), (R, P)],
        ),
        # keys and values are read along kv_seq: rows of queries do not cut them
        ("attention.core", "seq", [(Shard("seq"), Shard("seq")), (R, P)], [(Shard("seq"), Shard("seq"))]),
    ],
)
def test_the_table(
    op: str, dim: str | None, inputs: list[tuple[Placement, Placement]], outputs: list[tuple[Placement, Placement]]
) -> None:
    block_op = op_of(BLOCK, op)
    for operand, (value, gradient) in zip(block_op.inputs, inputs, strict=True):
        assert input_layout(BLOCK, block_op, operand, (dim,)) == (value,)
        assert input_grad_layout(BLOCK, block_op, operand, (dim,)) == (gradient,)
    for operand, (value, gradient) in zip(block_op.outputs, outputs, strict=True):
        assert output_layout(BLOCK, block_op, operand, (dim,)) == (value,)
        assert output_grad_layout(BLOCK, block_op, operand, (dim,)) == (gradient,)


def test_a_cut_maximum_is_a_partial_maximum() -> None:
    top = op_of(HEAD, "loss.max")
    assert output_layout(HEAD, top, top.outputs[0], ("vocab",)) == (Partial("max"),)


@pytest.mark.parametrize(("dim", "follows"), [("batch", "slot_rows"), ("seq", "slots")])
def test_slots_follow_the_tokens(dim: str, follows: str) -> None:
    dispatch = op_of(EXPERTS, "mlp.dispatch")
    assert output_layout(EXPERTS, dispatch, dispatch.outputs[0], (dim,)) == (Shard(follows),)
    fc2 = op_of(EXPERTS, "mlp.experts.fc2")
    assert input_layout(EXPERTS, fc2, fc2.inputs[0], ("slots",)) == (Shard("slots"),)


def test_the_first_axis_cuts_first() -> None:
    mesh = Mesh((("x", 2), ("y", 3)))
    layout = (Shard("seq"), Shard("seq"))
    chunks = [local_chunk("seq", 10, layout, mesh, (x, y)) for x in range(2) for y in range(3)]
    # 10 in chunks of 5, each in chunks of 2: DTensor's rule, axis by axis
    assert chunks == [(0, 2), (2, 2), (4, 1), (5, 2), (7, 2), (9, 1)]
    assert largest_shape(("batch", "seq"), {"batch": 4, "seq": 10}, layout, mesh) == (4, 2)


def test_gradients_are_handed_over_whole() -> None:
    assert gradient_of((P, Shard("seq"), R)) == (R, Shard("seq"), R)


def test_renamed() -> None:
    assert renamed((Shard("a"), P), ("a", "b"), ("c", "d")) == (Shard("c"), P)


def test_show() -> None:
    mesh = Mesh((("dp", 2), ("tp", 2)))
    assert show((Shard("batch"), P), mesh) == "dp:S(batch) tp:P(sum)"
    assert show((R, R), mesh) == "R"
