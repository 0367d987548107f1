"""The parts of a transformer layer: norm, attention, MLP, and how they are joined."""

from __future__ import annotations

from collections.abc import Sequence

from proteus.model.builder import BlockBuilder
from proteus.model.graph import OpKind
from proteus.model.spec import LatentAttention, TransformerSpec

_TOKENS = "batch seq hidden"
_QUERY = "batch seq kv_heads q_per_kv head_dim"


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
    return b.op(name, OpKind.DROPOUT, _TOKENS, [x, *([bias] if bias else [])], _TOKENS, saves=[mask], rate=rate)


def add_branch_end(b: BlockBuilder, part: str, x: str, bias: str | None, spec: TransformerSpec) -> tuple[str, str | None]:
    """Dropout where there is any; the bias not yet added is handed on."""
    if not spec.dropout:
        return x, bias
    return add_dropout(b, f"{part}.dropout", x, spec.dropout, bias), None


def add_sum(b: BlockBuilder, name: str, terms: Sequence[str], bias: str | None) -> str:
    return b.op(name, OpKind.ADD, _TOKENS, [*terms, *([bias] if bias else [])], _TOKENS)


def add_attention(b: BlockBuilder, x: str, spec: TransformerSpec) -> tuple[str, str | None]:
    """From normed x to the projection's output and its bias, which is not yet added."""
    if spec.latent is None:
        heads, width = _grouped_core(b, x, spec), "head_dim"
    else:
        heads, width = _latent_core(b, x, spec, spec.latent), "v_dim"
    weight = b.parameter("attention.proj.weight", f"hidden kv_heads q_per_kv {width}")
    roles = f"batch seq hidden | kv_heads q_per_kv | {width}"
    out = b.op("attention.proj", OpKind.LINEAR, roles, [heads, weight], _TOKENS, saves=[heads])
    return out, b.parameter("attention.proj.bias", "hidden") if spec.proj_bias else None


def _grouped_core(b: BlockBuilder, x: str, spec: TransformerSpec) -> str:
    operands = [
        x,
        b.parameter("attention.qkv.weight.q", "kv_heads q_per_kv head_dim hidden"),
        b.parameter("attention.qkv.weight.kv", "kv_heads two head_dim hidden"),
    ]
    if spec.qkv_bias:
        operands.append(b.parameter("attention.qkv.bias.q", "kv_heads q_per_kv head_dim"))
        operands.append(b.parameter("attention.qkv.bias.kv", "kv_heads two head_dim"))
    # an op that adds its own bias needs its whole reduction, see proteus.model.graph
    reduction = "| | hidden" if spec.qkv_bias else "| hidden |"
    q, kv = b.op_many(
        "attention.qkv",
        OpKind.LINEAR,
        f"batch seq kv_heads q_per_kv {reduction} two head_dim",
        operands,
        {"q": _QUERY, "kv": "batch seq kv_heads two head_dim"},
        saves=[x],
    )
    if spec.qk_norm:
        weight = b.parameter("attention.q_norm.weight", "head_dim")
        q = b.op(
            "attention.q_norm", OpKind.RMS_NORM, "batch seq kv_heads q_per_kv | | head_dim", [q, weight], _QUERY, saves=[q]
        )
        # normalizes the keys, index 0 of `two`, and passes the values on
        weight = b.parameter("attention.k_norm.weight", "head_dim")
        kv = b.op(
            "attention.k_norm",
            OpKind.RMS_NORM,
            "batch seq kv_heads | | two head_dim",
            [kv, weight],
            "batch seq kv_heads two head_dim",
            saves=[kv],
            only=("two", 0),
        )
    return _add_core(
        b,
        spec,
        [q, (kv, "batch kv_seq kv_heads two head_dim")],
        "batch seq kv_heads q_per_kv | | kv_seq two head_dim",
        _QUERY,
        form="gqa",
    )


def _latent_core(b: BlockBuilder, x: str, spec: TransformerSpec, latent: LatentAttention) -> str:
    if latent.q_rank is None:
        source, rank, whole = x, "hidden", "hidden"
    else:
        weight = b.parameter("attention.q_down.weight", "q_rank hidden")
        dims = "batch seq q_rank"
        down = b.op("attention.q_down", OpKind.LINEAR, f"{dims} | hidden", [x, weight], dims, saves=[x])
        source, rank, whole = add_norm(b, "attention.q_norm", down, spec, dims), "q_rank", "q_rank"
    head = "batch seq kv_heads q_per_kv"
    q_nope, q_rope = b.op_many(
        "attention.q_up",
        OpKind.LINEAR,
        f"{head} | {rank} | nope_dim rope_dim",
        [
            source,
            b.parameter("attention.q_up.weight.nope", f"kv_heads q_per_kv nope_dim {whole}"),
            b.parameter("attention.q_up.weight.rope", f"kv_heads q_per_kv rope_dim {whole}"),
        ],
        {"nope": f"{head} nope_dim", "rope": f"{head} rope_dim"},
        saves=[source],
    )
    down, k_rope = b.op_many(
        "attention.kv_down",
        OpKind.LINEAR,
        "batch seq kv_rank | hidden | rope_dim",
        [
            x,
            b.parameter("attention.kv_down.weight.latent", "kv_rank hidden"),
            b.parameter("attention.kv_down.weight.rope", "rope_dim hidden"),
        ],
        {"latent": "batch seq kv_rank", "rope": "batch seq rope_dim"},
        saves=[x],
    )
    normed = add_norm(b, "attention.kv_norm", down, spec, "batch seq kv_rank")
    k_nope, v = b.op_many(
        "attention.kv_up",
        OpKind.LINEAR,
        "batch seq kv_heads | kv_rank | nope_dim v_dim",
        [
            normed,
            b.parameter("attention.kv_up.weight.nope", "kv_heads nope_dim kv_rank"),
            b.parameter("attention.kv_up.weight.v", "kv_heads v_dim kv_rank"),
        ],
        {"nope": "batch seq kv_heads nope_dim", "v": "batch seq kv_heads v_dim"},
        saves=[normed],
    )
    return _add_core(
        b,
        spec,
        [
            q_nope,
            q_rope,
            (k_nope, "batch kv_seq kv_heads nope_dim"),
            (k_rope, "batch kv_seq rope_dim"),
            (v, "batch kv_seq kv_heads v_dim"),
        ],
        f"{head} | | kv_seq nope_dim rope_dim v_dim",
        f"{head} v_dim",
        form="mla",
    )


def _add_core(
    b: BlockBuilder, spec: TransformerSpec, operands: Sequence[str | tuple[str, str]], roles: str, out: str, *, form: str
) -> str:
    """The core keeps q, k, v and one log-sum-exp per row, or, unfused, the square of probabilities.

    Unfused it is Korthikanti et al. (arXiv 2205.05198) section 4.1: softmax
    output 2, dropout mask 1 and dropout output 2 bytes per score.
    """
    name = "attention.core"
    reads = [item if isinstance(item, str) else item[0] for item in operands]
    lse = b.saved(f"{name}.lse", "batch seq kv_heads q_per_kv", dtype="fp32")
    square = "batch seq kv_heads q_per_kv kv_seq"
    unfused = [b.saved(f"{name}.probs", square)]
    if spec.attention_dropout:
        unfused.append(b.saved(f"{name}.dropped", square))
        unfused.append(b.saved(f"{name}.mask", square, dtype="bool"))
    return b.op(
        name,
        OpKind.ATTENTION,
        roles,
        operands,
        out,
        saves=[*reads, f"{name}.out", lse],
        saves_unfused=[*reads, *unfused],
        selective=True,
        form=form,
        causal=spec.causal,
        rope=spec.rope,
        dropout=spec.attention_dropout,
    )


def add_mlp(b: BlockBuilder, x: str, spec: TransformerSpec, part: str = "mlp", ffn: str = "ffn") -> tuple[str, str | None]:
    """From normed x to fc2's output and its bias, which is not yet added."""
    inner = f"batch seq two {ffn}" if spec.gated else f"batch seq {ffn}"
    name = f"{part}.gate_up" if spec.gated else f"{part}.fc1"
    # two fused products, gate and value: `two` stays whole so that cutting ffn cuts both alike
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
        function=spec.activation,
    )
    weight = b.parameter(f"{part}.fc2.weight", f"hidden {ffn}")
    roles = f"batch seq hidden | {ffn}"
    out = b.op(f"{part}.fc2", OpKind.LINEAR, roles, [active, weight], _TOKENS, saves=[active])
    return out, b.parameter(f"{part}.fc2.bias", "hidden") if spec.mlp_bias else None
