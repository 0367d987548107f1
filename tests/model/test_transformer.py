"""Transformers: their modules as users know them, and closed formulas for parameters, FLOP and activations."""

from __future__ import annotations

import math

import pytest
from hypothesis import given

from proteus.model import zoo
from proteus.model.graph import Block, OpKind, Role
from proteus.model.spec import TransformerSpec
from proteus.model.transformer import transformer
from proteus.units import DTYPE_BYTES
from tests.model.samples import specs


def op_names(block: Block) -> list[str]:
    return [op.name for op in block.ops]


LLAMA_LAYER = """
attention.norm attention.qkv attention.core attention.proj attention.residual
mlp.norm mlp.gate_up mlp.activation mlp.fc2 mlp.residual
"""
GPT_LAYER = """
attention.norm attention.qkv attention.core attention.proj attention.dropout attention.residual
mlp.norm mlp.fc1 mlp.activation mlp.fc2 mlp.dropout mlp.residual
"""
VIT_LAYER = GPT_LAYER.replace("attention.dropout ", "").replace("mlp.dropout ", "")
NEOX_LAYER = """
attention.norm attention.qkv attention.core attention.proj
mlp.norm mlp.fc1 mlp.activation mlp.fc2 mlp.residual
"""
FALCON_LAYER = NEOX_LAYER.replace("mlp.norm ", "")
BERT_LAYER = """
attention.qkv attention.core attention.proj attention.dropout attention.residual attention.norm
mlp.fc1 mlp.activation mlp.fc2 mlp.dropout mlp.residual mlp.norm
"""
HEAD = "final_norm head loss.max loss.sum_exp loss.pick loss.cross_entropy"


@pytest.mark.parametrize(
    ("name", "embedding", "layer", "head"),
    [
        ("llama3-8b", "word", LLAMA_LAYER, HEAD),
        ("gpt2", "word position dropout", GPT_LAYER, HEAD),
        ("gpt-neox-20b", "word", NEOX_LAYER, HEAD),
        ("falcon-7b", "word", FALCON_LAYER, HEAD),
        ("bert-base", "word position token_type sum norm dropout", BERT_LAYER, "first pooler pooler.activation loss"),
        (
            "vit-b/16",
            "patch patch_bias flatten join position",
            VIT_LAYER,
            HEAD.replace("head", "first head"),
        ),
    ],
)
def test_modules(name: str, embedding: str, layer: str, head: str) -> None:
    blocks = zoo.load(name).blocks
    assert [op_names(block) for block in blocks] == [embedding.split(), layer.split(), head.split()]
    assert [block.path(0) for block in blocks] == ["embedding", "layers.0", "head"]


def test_roles_let_each_degree_cut_its_dim() -> None:
    ops = {op.name: op for op in zoo.load("llama3-8b").blocks[1].ops}

    def roles(name: str) -> dict[str, str]:
        return {dim: str(size.role)[:3] for dim, size in ops[name].dims.items()}

    par, red, ind = "par", "red", "ind"
    rows = {"batch": par, "seq": par}
    assert roles("attention.norm") == {**rows, "hidden": ind}
    assert roles("attention.qkv") == {
        **rows, "kv_heads": par, "q_per_kv": par, "hidden": red, "two": ind, "head_dim": ind,
    }  # fmt: skip
    assert roles("attention.core") == {
        **rows, "kv_heads": par, "q_per_kv": par, "kv_seq": ind, "two": ind, "head_dim": ind,
    }  # fmt: skip
    assert roles("attention.proj") == {**rows, "hidden": par, "kv_heads": red, "q_per_kv": red, "head_dim": ind}
    assert roles("attention.residual") == {**rows, "hidden": par}
    assert roles("mlp.gate_up") == {**rows, "ffn": par, "hidden": red, "two": ind}
    assert roles("mlp.fc2") == {**rows, "hidden": par, "ffn": red}


def test_an_op_that_adds_its_bias_keeps_its_reduction_whole() -> None:
    for name in zoo.names():
        for block in zoo.load(name).blocks:
            for op in block.ops:
                if op.kind is OpKind.LINEAR and len(op.inputs) > 1 + len(op.outputs):
                    assert all(dim.role is not Role.REDUCTION for dim in op.dims.values()), op.name


def test_a_bias_after_a_reduction_is_added_once() -> None:
    ops = {op.name: op for op in zoo.load("gpt2").blocks[1].ops}
    assert [operand.tensor for operand in ops["attention.dropout"].inputs] == [
        "attention.proj.out",
        "attention.proj.bias",
    ]
    ops = {op.name: op for op in zoo.load("tiny-gpt").blocks[1].ops}
    assert [operand.tensor for operand in ops["mlp.residual"].inputs][-1] == "mlp.fc2.bias"


def formula_params(spec: TransformerSpec) -> int:
    """Parameters of a plain decoder, counted by hand."""
    h, heads, kv, d, f = spec.hidden, spec.heads, spec.num_kv_heads, spec.size_per_head, spec.ffn
    norm = h * (2 if spec.norm == "layer_norm" and spec.norm_bias else 1)
    attention = h * (heads + 2 * kv) * d + heads * d * h
    attention += (heads + 2 * kv) * d * spec.qkv_bias + h * spec.proj_bias + 2 * d * spec.qk_norm
    up = 2 if spec.gated else 1
    mlp = (up + 1) * h * f + (up * f + h) * spec.mlp_bias
    norms = 1 if spec.parallel_residual and spec.shared_norm else 2
    total = spec.layers * (attention + mlp + norms * norm)
    total += h * (spec.vocab + (spec.positions or 0) + spec.token_types)
    total += norm * (spec.embedding_norm + spec.final_norm)
    return total + (0 if spec.tied else spec.vocab * h)


def formula_flop(spec: TransformerSpec) -> int:
    """Forward FLOP of a plain decoder, counted by hand: two per weight and token, and the square."""
    h, heads, kv, d, f, s = spec.hidden, spec.heads, spec.num_kv_heads, spec.size_per_head, spec.ffn, spec.seq
    up = 2 if spec.gated else 1
    weights = h * (heads + 2 * kv) * d + heads * d * h + (up + 1) * h * f
    square = 2 * heads * d * s * s
    return spec.layers * 2 * (weights * s + square) + 2 * s * h * spec.vocab


@given(specs())
def test_closed_formulas(spec: TransformerSpec) -> None:
    model = transformer(spec)
    model.validate()
    assert sum(model.parameter_paths().values()) == model.num_params
    assert model.facts["active_params"] <= model.num_params
    if spec.latent is None and spec.experts is None and spec.head == "lm":
        assert model.num_params == formula_params(spec)
        assert model.flop() == formula_flop(spec)


@given(specs())
def test_blocks_say_where_every_dim_comes_from(spec: TransformerSpec) -> None:
    for block in transformer(spec).blocks:
        written = {operand.tensor for op in block.ops for operand in op.outputs}
        assert {t.name for t in block.tensors.values() if t.kind == "activation"} == written | set(block.inputs)
        saved = {s.tensor for op in block.ops for s in (*op.saves, *op.saves_unfused)}
        assert {t.name for t in block.tensors.values() if t.kind == "saved"} <= saved
        read = {operand.tensor for op in block.ops for operand in op.inputs}
        assert {t.name for t in block.parameters()} <= read


def saved_bytes(block: Block, *, fused: bool, default: int = 2) -> int:
    """Bytes that autograd keeps of one layer and sample."""
    kept: dict[str, int] = {}
    for op in block.ops:
        for saved in op.saves_unfused if op.saves_unfused and not fused else op.saves:
            tensor = block.tensors[saved.tensor]
            size = default if tensor.dtype is None else DTYPE_BYTES[tensor.dtype]
            kept[saved.tensor] = math.prod(block.shape(saved.tensor)) * size
    return sum(kept.values())


def test_activations_of_a_gpt_layer() -> None:
    """Korthikanti et al. 2022 (arXiv 2205.05198), equation 1: s b h (34 + 5 a s / h) bytes, b = 1."""
    spec = zoo.load("gpt3-175b")
    s, h, a = spec.seq, spec.facts["hidden"], spec.facts["heads"]
    layer = spec.blocks[1]
    assert saved_bytes(layer, fused=False) == 34 * s * h + 5 * a * s * s
    # fused: no square, but one log-sum-exp of 4 bytes per row; the core's output is the projection's input
    assert saved_bytes(layer, fused=True) == 34 * s * h + 4 * a * s


def test_activations_of_a_llama_layer() -> None:
    """By hand, in elements of 2 bytes: norms, q, kv, the core, gate and value, their product."""
    model = zoo.load("llama3-8b")
    s, h, f = model.seq, model.facts["hidden"], model.facts["ffn"]
    kv = 2 * model.facts["kv_heads"] * model.facts["head_dim"]
    elements = 4 * h + h + kv + h + 2 * f + f
    assert saved_bytes(model.blocks[1], fused=True) == 2 * s * elements + 4 * s * 32


def test_what_selective_recomputation_drops_is_the_core() -> None:
    layer = zoo.load("gpt3-175b").blocks[1]
    assert [op.name for op in layer.ops if op.selective] == ["attention.core"]


def test_dropout_keeps_a_mask_of_one_byte() -> None:
    layer = zoo.load("gpt2").blocks[1]
    dropout = next(op for op in layer.ops if op.name == "mlp.dropout")
    assert dropout.attrs == {"p": 0.1}
    assert [layer.tensors[saved.tensor].dtype for saved in dropout.saves] == ["bool"]
