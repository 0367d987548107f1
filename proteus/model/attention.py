"""Attention as ops: grouped queries (GPT, Llama, Falcon, ...) and latent (DeepSeek)."""

from __future__ import annotations

from collections.abc import Sequence

from proteus.model.builder import BlockBuilder
from proteus.model.graph import OpKind
from proteus.model.layer import add_norm
from proteus.model.spec import LatentAttention, TransformerSpec

_TOKENS = "batch seq hidden"
_QUERY = "batch seq kv_heads q_per_kv head_dim"


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
            "attention.q_norm",
            OpKind.RMS_NORM,
            "batch seq kv_heads q_per_kv | | head_dim",
            [q, weight],
            _QUERY,
            saves=[q],
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
            attrs={"only": ("two", 0)},
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
    b: BlockBuilder,
    spec: TransformerSpec,
    operands: Sequence[str | tuple[str, str]],
    roles: str,
    out: str,
    *,
    form: str,
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
        attrs={
            "form": form,
            "causal": spec.causal,
            "rope": spec.rope,
            "dropout": spec.attention_dropout,
            **({"document": spec.document} if spec.document else {}),
        },
    )
