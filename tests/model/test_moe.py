"""Experts: slots follow the tokens, and the mixture's FLOP are those of the chosen experts."""

from __future__ import annotations

from proteus.model import zoo
from proteus.model.graph import OpKind, Role


def test_modules_of_a_mixture() -> None:
    model = zoo.load("deepseek-v3")
    assert [block.name for block in model.blocks] == ["embedding", "dense_layers", "layers", "head"]
    assert [block.count for block in model.blocks] == [1, 3, 58, 1]
    mlp = [op.name.removeprefix("mlp.") for op in model.blocks[2].ops if op.name.startswith("mlp.")]
    assert mlp == [
        "norm", "router", "gate", "dispatch", "experts.gate_up", "experts.activation", "experts.fc2", "combine",
        "shared.gate_up", "shared.activation", "shared.fc2", "sum", "residual",
    ]  # fmt: skip


def test_biases_of_experts_are_added_apart() -> None:
    block = zoo.load("tiny-moe", mlp_bias=True).blocks[1]
    ops = {op.name: op for op in block.ops}
    assert len(ops["mlp.experts.gate_up"].inputs) == 3 and len(ops["mlp.experts.fc2"].inputs) == 2
    assert [operand.tensor for operand in ops["mlp.experts.bias"].inputs] == [
        "mlp.experts.fc2.out",
        "mlp.experts.fc2.bias",
    ]
    assert ops["mlp.experts.bias"].attrs == {"by_expert": True}


def test_slots_follow_batch_and_seq() -> None:
    block = zoo.load("mixtral-8x7b", seq=4096).blocks[1]
    assert block.derived == {"slot_rows": ("batch",), "slots": ("seq",)}
    assert block.dims["slots"] == 4096 * 2 // 8
    ops = {op.name: op for op in block.ops}
    assert ops["mlp.dispatch"].outputs[0].dims == ("experts", "slot_rows", "slots", "hidden")
    assert ops["mlp.combine"].dims["experts"].role is Role.REDUCTION
    assert ops["mlp.experts.gate_up"].dims["experts"].role is Role.PARALLEL
    assert ops["mlp.gate"].dims["experts"].role is Role.INDIVISIBLE


def test_flop_of_the_chosen_experts() -> None:
    model = zoo.load("mixtral-8x7b", seq=4096)
    grouped = [op for op in model.blocks[1].ops if op.kind is OpKind.LINEAR and "experts." in op.name]
    # two of eight experts per token, three products each
    assert sum(op.flop() for op in grouped) == 4096 * 2 * 3 * 2 * 4096 * 14336


def test_dropless_has_a_slot_for_every_token() -> None:
    block = zoo.load("tiny-moe").blocks[1]
    assert block.dims["slots"] == block.dims["seq"]
    dispatch = next(op for op in block.ops if op.kind is OpKind.DISPATCH)
    assert dispatch.attrs["dropless"] is True


def test_a_score_bias_belongs_to_the_gate() -> None:
    block = zoo.load("deepseek-v3").blocks[2]
    gate = next(op for op in block.ops if op.kind is OpKind.ROUTER)
    assert [operand.tensor for operand in gate.inputs] == ["mlp.router.out", "mlp.gate.score_bias"]
    assert gate.attrs == {"topk": 8, "function": "sigmoid", "normalize": True}
