"""The cross entropy that never gathers its logits."""

from __future__ import annotations

from proteus.model import zoo
from proteus.model.graph import OpKind, Role


def test_cross_entropy_reduces_the_vocabulary_three_times() -> None:
    block = zoo.load("gpt2").blocks[-1]
    reductions = [op for op in block.ops if op.kind in (OpKind.MAX, OpKind.SUM_EXP, OpKind.PICK)]
    assert [op.name for op in reductions] == ["loss.max", "loss.sum_exp", "loss.pick"]
    assert all(op.dims["vocab"].role is Role.REDUCTION for op in reductions)
    mean = block.ops[-1]
    assert {name: dim.role for name, dim in mean.dims.items()} == {"batch": Role.REDUCTION, "seq": Role.REDUCTION}
    assert mean.outputs[0].tensor == "loss" and mean.outputs[0].dims == ()


def test_softmax_is_kept_in_fp32() -> None:
    block = zoo.load("gpt2").blocks[-1]
    softmax = block.tensors["loss.softmax"]
    assert (softmax.kind, softmax.dtype, block.shape("loss.softmax")) == ("saved", "fp32", (1, 1024, 50257))
