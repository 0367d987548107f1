"""The parts of a transformer layer beside attention: norm, dropout, sum, MLP."""

from __future__ import annotations

from collections.abc import Sequence

from proteus.model.builder import BlockBuilder
from proteus.model.graph import OpKind
from proteus.model.spec import TransformerSpec

_TOKENS = "batch seq hidden"


def add_norm(b: BlockBuilder, name: str, x: str, spec: TransformerSpec, dims: str = _TOKENS) -> str:
    """Layer norm or RMS norm over the last of `dims`."""
    *outer, inner = dims.split()
    operands = [x, b.parameter(f"{name}.weight", inner)]
    if spec.norm == "layer_norm" and spec.norm_bias:
        operands.append(b.parameter(f"{name}.bias", inner))
    return b.op(name, OpKind(spec.norm), f"{' '.join(outer)} | | {inner}", operands, dims, saves=[x])


def add_dropout(b: BlockBuilder, name: str, x: str, rate: float, bias: str | None = None) -> str:
    """Dropout of x (+ bias); autograd keeps its mask, one byte per element."""
    mask = b.saved(f"{name}.mask", _TOKENS, dtype="bool")
    return b.op(name, OpKind.DROPOUT, _TOKENS, [x, *([bias] if bias else [])], _TOKENS, saves=[mask], attrs={"p": rate})


def add_branch_end(
    b: BlockBuilder, part: str, x: str, bias: str | None, spec: TransformerSpec
) -> tuple[str, str | None]:
    """Dropout where there is any; the bias not yet added is handed on."""
    if not spec.dropout:
        return x, bias
    return add_dropout(b, f"{part}.dropout", x, spec.dropout, bias), None


def add_sum(b: BlockBuilder, name: str, terms: Sequence[str], *biases: str | None) -> str:
    """The sum of activations and of the biases there are."""
    return b.op(name, OpKind.ADD, _TOKENS, [*terms, *(bias for bias in biases if bias is not None)], _TOKENS)


def add_mlp(
    b: BlockBuilder, x: str, spec: TransformerSpec, part: str = "mlp", ffn: str = "ffn"
) -> tuple[str, str | None]:
    """From normed x to fc2's output and its bias, which is not yet added."""
    inner = f"batch seq two {ffn}" if spec.gated else f"batch seq {ffn}"
    name = f"{part}.gate_up" if spec.gated else f"{part}.fc1"
    # two fused GEMMs, gate and value: `two` stays whole so that cutting ffn cuts both alike
    weight = b.parameter(f"{name}.weight", f"two {ffn} hidden" if spec.gated else f"{ffn} hidden")
    operands = [x, weight]
    if spec.mlp_bias:
        operands.append(b.parameter(f"{name}.bias", f"two {ffn}" if spec.gated else ffn))
    reduction = "| | hidden" if spec.mlp_bias else "| hidden |"
    two = " two" if spec.gated else ""
    up = b.op(name, OpKind.LINEAR, f"batch seq {ffn} {reduction}{two}", operands, inner, saves=[x])
    active = b.op(
        f"{part}.activation",
        OpKind.ACTIVATION,
        f"batch seq {ffn} | |{two}",
        [up],
        f"batch seq {ffn}",
        saves=[up],
        attrs={"function": spec.activation},
    )
    weight = b.parameter(f"{part}.fc2.weight", f"hidden {ffn}")
    roles = f"batch seq hidden | {ffn}"
    out = b.op(f"{part}.fc2", OpKind.LINEAR, roles, [active, weight], _TOKENS, saves=[active])
    return out, b.parameter(f"{part}.fc2.bias", "hidden") if spec.mlp_bias else None
