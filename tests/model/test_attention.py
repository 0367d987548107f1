"""How the two forms of attention index their tensors."""

from __future__ import annotations

import pytest

from proteus.model import zoo
from proteus.model.graph import Op, OpKind


def ops_of(name: str) -> dict[str, Op]:
    return {op.name: op for op in zoo.load(name).blocks[-2].ops}


def test_grouped_queries() -> None:
    ops = ops_of("llama3-70b")
    qkv, core, proj = ops["attention.qkv"], ops["attention.core"], ops["attention.proj"]
    assert [operand.tensor for operand in qkv.inputs] == [
        "attention.norm.out",
        "attention.qkv.weight.q",
        "attention.qkv.weight.kv",
    ]
    assert [operand.tensor for operand in qkv.outputs] == ["attention.qkv.q", "attention.qkv.kv"]
    assert core.inputs[1].dims == ("batch", "kv_seq", "kv_heads", "two", "head_dim")
    assert core.attrs == {"form": "gqa", "causal": True, "rope": True, "dropout": 0.0}
    assert (core.sizes()["kv_heads"], core.sizes()["q_per_kv"]) == (8, 8)
    assert proj.inputs[1].dims == ("hidden", "kv_heads", "q_per_kv", "head_dim")


@pytest.mark.parametrize(("name", "kv_heads", "q_per_kv"), [("falcon-7b", 1, 71), ("gemma-2b", 1, 8), ("gpt2", 12, 1)])
def test_head_counts(name: str, kv_heads: int, q_per_kv: int) -> None:
    sizes = ops_of(name)["attention.core"].sizes()
    assert (sizes["kv_heads"], sizes["q_per_kv"]) == (kv_heads, q_per_kv)


def test_latent() -> None:
    ops = ops_of("deepseek-v3")
    assert [name for name in ops if name.startswith("attention.")] == [
        f"attention.{part}"
        for part in ["norm", "q_down", "q_norm", "q_up", "kv_down", "kv_norm", "kv_up", "core", "proj", "residual"]
    ]  # fmt: skip
    core = ops["attention.core"]
    assert [operand.dims[-1] for operand in core.queries()] == ["nope_dim", "rope_dim"]
    # one rotary key for all heads
    assert core.inputs[3].dims == ("batch", "kv_seq", "rope_dim")
    assert core.attrs["form"] == "mla"
    # per token: queries 1536 from 7168, then 128 x 192; keys and values 512 + 64 from 7168, then 128 x 256
    projections = [op.flop() for op in ops.values() if op.kind is OpKind.LINEAR and op.name.startswith("attention.")]
    per_token = 7168 * 1536 + 1536 * 128 * 192 + 7168 * (512 + 64) + 512 * 128 * 256 + 128 * 128 * 7168
    assert sum(projections) == 2 * 4096 * per_token


def test_queries_that_are_not_compressed() -> None:
    assert "attention.q_down" not in ops_of("deepseek-v2-lite")


def test_norm_of_queries_and_keys() -> None:
    ops = ops_of("qwen3-8b")
    assert [operand.tensor for operand in ops["attention.core"].inputs] == [
        "attention.q_norm.out",
        "attention.k_norm.out",
    ]
    assert ops["attention.k_norm"].attrs == {"only": ("two", 0)}
