"""Adapters: their shapes, where they stand, and what they leave as it was."""

from __future__ import annotations

from typing import Any

import pytest

import proteus as pt
from proteus.errors import ModelError
from proteus.model.graph import Lora, Model, OpKind, Role
from proteus.model.lora import RANK, with_lora

LLAMA = pt.models.load("llama3-8b")


def added(model: Model, base: Model) -> int:
    return model.num_params - base.num_params


def test_an_adapter_has_rank_times_in_plus_out() -> None:
    model = with_lora(LLAMA, Lora(rank=16, targets=("attention.proj",)))
    assert added(model, LLAMA) == 32 * 16 * (4096 + 4096)


def test_all_products_of_a_layer_by_default() -> None:
    model = with_lora(LLAMA, Lora(rank=8))
    shapes = [(4096, 6144), (4096, 4096), (4096, 2 * 14336), (14336, 4096)]
    assert added(model, LLAMA) == 32 * 8 * sum(a + b for a, b in shapes)
    assert [block.num_params() for block in model.blocks[::2]] == [block.num_params() for block in LLAMA.blocks[::2]]


def test_a_module_names_what_is_below_it() -> None:
    attention = with_lora(LLAMA, Lora(rank=4, targets=("attention",)))
    both = with_lora(LLAMA, Lora(rank=4, targets=("attention.qkv", "attention.proj")))
    assert attention.blocks == both.blocks


def test_an_output_gets_an_adapter_of_its_own() -> None:
    model = with_lora(LLAMA, Lora(rank=8, targets=("attention.qkv.q", "attention.qkv.kv")))
    assert added(model, LLAMA) == 32 * 8 * ((4096 + 4096) + (4096 + 2048))


def test_what_follows_reads_the_sum() -> None:
    layers = with_lora(LLAMA, Lora(rank=8, targets=("attention.qkv", "mlp"))).blocks[1]
    reads = {op.name: [operand.tensor for operand in op.inputs] for op in layers.ops}
    assert reads["attention.core"] == ["attention.qkv.q.adapted", "attention.qkv.kv.adapted"]
    assert reads["mlp.activation"] == ["mlp.gate_up.out.adapted"]
    assert reads["mlp.residual"][1] == "mlp.fc2.out.adapted"
    saves = {op.name: [saved.tensor for saved in op.saves] for op in layers.ops}
    assert "attention.qkv.q.adapted" in saves["attention.core"]
    assert saves["attention.qkv.lora_a"] == ["attention.norm.out"]


def test_every_expert_has_its_own() -> None:
    base = pt.models.load("mixtral-8x7b")
    model = with_lora(base, Lora(rank=8, targets=("mlp.experts",)))
    assert added(model, base) == 32 * 8 * 8 * ((4096 + 2 * 14336) + (14336 + 4096))
    assert model.facts == base.facts
    first = next(op for op in model.blocks[1].ops if op.name == "mlp.experts.gate_up.lora_a")
    assert first.dims["experts"].role is Role.PARALLEL


def test_routers_and_the_head_have_none() -> None:
    model = with_lora(pt.models.load("mixtral-8x7b"), Lora(rank=8))
    names = {op.name for block in model.blocks for op in block.ops if RANK in op.dims}
    assert not any("router" in name or name.startswith("head") for name in names)
    assert "attention.qkv.lora_a" in names


def test_dropout_stands_before_an_adapter_and_nowhere_else() -> None:
    layers = with_lora(LLAMA, Lora(rank=8, targets=("attention.proj",), dropout=0.1)).blocks[1]
    (drop,) = [op for op in layers.ops if op.kind is OpKind.DROPOUT]
    assert (drop.name, drop.attrs["p"]) == ("attention.proj.lora_dropout", 0.1)
    reads = {op.name: op.inputs[0].tensor for op in layers.ops}
    assert reads["attention.proj.lora_a"] == "attention.proj.lora_dropout.out"
    assert reads["attention.proj"] == "attention.core.out"


def test_other_adapters_take_the_place_of_those_there_are() -> None:
    once = with_lora(LLAMA, Lora(rank=4))
    assert with_lora(with_lora(LLAMA, Lora(rank=64)), Lora(rank=4)).blocks == once.blocks
    assert once.base is LLAMA


def test_a_resized_model_keeps_its_adapters() -> None:
    model = with_lora(LLAMA, Lora(rank=4)).resized("vocab", 128512)
    assert model.base is not None
    assert model.base.num_params == LLAMA.resized("vocab", 128512).num_params
    assert with_lora(model, Lora(rank=4)).blocks == model.blocks


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"rank": 0}, "at least 1"),
        ({"rank": 8, "dropout": 1.0}, "below 1"),
        ({"rank": 8, "targets": ("attention.qvk",)}, "attention.qkv"),
        ({"rank": 8, "targets": ("head",)}, "GEMM for an adapter"),
    ],
)
def test_what_cannot_be_is_told(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelError, match=says):
        with_lora(LLAMA, Lora(**settings))
