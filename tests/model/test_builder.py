"""Writing a block: roles, names, and what cannot be written."""

from __future__ import annotations

import pytest

from proteus.errors import ModelError
from proteus.model.builder import BlockBuilder
from proteus.model.graph import Dim, OpKind, Role


def test_roles_are_read_in_order() -> None:
    b = BlockBuilder("b", {"batch": 1, "seq": 4, "hidden": 8, "two": 2}, indexed=False)
    x = b.take("x", "batch seq hidden")
    w = b.parameter("w", "two hidden")
    block = b.build([b.op("up", OpKind.LINEAR, "batch seq | hidden | two", [x, w], "batch seq two")])
    assert block.ops[0].dims == {
        "batch": Dim(1, Role.PARALLEL),
        "seq": Dim(4, Role.PARALLEL),
        "hidden": Dim(8, Role.REDUCTION),
        "two": Dim(2, Role.INDIVISIBLE),
    }


def test_outputs_are_named_after_the_op() -> None:
    b = BlockBuilder("b", {"batch": 1}, indexed=False)
    x = b.take("x", "batch")
    assert b.op("add", OpKind.ADD, "batch", [x], "batch") == "add.out"
    assert b.op("loss", OpKind.ADD, "batch", [x], "batch", tensor="loss") == "loss"
    assert b.op_many("two", OpKind.ADD, "batch", [x], {"a": "batch", "b": "batch"}) == ("two.a", "two.b")


def test_an_operand_may_be_indexed_by_other_dims() -> None:
    b = BlockBuilder("b", {"batch": 1, "seq": 4, "kv_seq": 4}, indexed=False)
    x = b.take("x", "batch seq")
    block = b.build([b.op("square", OpKind.MATMUL, "batch seq | kv_seq", [x, (x, "batch kv_seq")], "batch seq")])
    assert [operand.dims for operand in block.ops[0].inputs] == [("batch", "seq"), ("batch", "kv_seq")]
    assert block.ops[0].flop() == 2 * 4 * 4


def test_a_name_is_given_once() -> None:
    b = BlockBuilder("b", {"batch": 1}, indexed=False)
    b.take("x", "batch")
    with pytest.raises(ModelError, match="b: two tensors are named 'x'"):
        b.parameter("x", "batch")


def test_a_dim_needs_a_size() -> None:
    b = BlockBuilder("b", {"batch": 1}, indexed=False)
    x = b.take("x", "batch")
    with pytest.raises(ModelError, match=r"b\.add: dim 'seq' has no size"):
        b.op("add", OpKind.ADD, "batch seq", [x], "batch")
