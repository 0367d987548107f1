"""What each model type's ``config.json`` means, as the fields of a transformer spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from proteus.model.hf_config import Config
from proteus.model.spec import Experts, Head, LatentAttention, Patches


def trained_seq(c: Config) -> int:
    """The longest sequence, before any stretching of rotary positions."""
    longest = c.size("max_position_embeddings")
    for name in ("rope_scaling", "rope_parameters"):  # the newer name since transformers 5
        stretched = c.mapping(name).get("original_max_position_embeddings")
        if isinstance(stretched, int) and stretched >= 1:
            return min(longest, stretched)
    return longest


def gpt2(c: Config) -> dict[str, Any]:
    hidden = c.size("n_embd", "hidden_size")
    positions = c.size("n_positions", "n_ctx", "max_position_embeddings")
    return {
        "layers": c.size("n_layer", "num_hidden_layers"),
        "hidden": hidden,
        "heads": c.size("n_head", "num_attention_heads"),
        "ffn": c.size("n_inner", default=4 * hidden),
        "vocab": c.size("vocab_size"),
        "seq": positions,
        "positions": positions,
        "norm": "layer_norm",
        "activation": c.activation("activation_function", gated=False, default="gelu_new"),
        "qkv_bias": True,
        "proj_bias": True,
        "mlp_bias": True,
        "tied": c.flag("tie_word_embeddings", default=True),
        "dropout": c.rate("resid_pdrop", default=0.1),
        "attention_dropout": c.rate("attn_pdrop", default=0.1),
    }


def rotary(c: Config) -> dict[str, Any]:
    """What Llama and its relatives have in common."""
    heads = c.size("num_attention_heads")
    bias = c.flag("attention_bias", default=False)
    return {
        "layers": c.size("num_hidden_layers"),
        "hidden": c.size("hidden_size"),
        "heads": heads,
        "kv_heads": c.size("num_key_value_heads", default=heads),
        "head_dim": c.size("head_dim") if c.has("head_dim") else None,
        "ffn": c.size("intermediate_size"),
        "vocab": c.size("vocab_size"),
        "seq": trained_seq(c),
        "rope": True,
        "activation": c.activation("hidden_activation", "hidden_act", gated=True, default="silu"),
        "qkv_bias": bias,
        "proj_bias": bias,
        "mlp_bias": c.flag("mlp_bias", default=False),
        "tied": c.flag("tie_word_embeddings", default=False),
        "attention_dropout": c.rate("attention_dropout"),
    }


def qwen2(c: Config) -> dict[str, Any]:
    return rotary(c) | {"qkv_bias": True}


def qwen3(c: Config) -> dict[str, Any]:
    return rotary(c) | {"qk_norm": True, "head_dim": c.size("head_dim", default=128)}


def gemma(c: Config) -> dict[str, Any]:
    activation = c.activation("hidden_activation", "hidden_act", gated=True, default="gelu_pytorch_tanh")
    tied = c.flag("tie_word_embeddings", default=True)
    return rotary(c) | {"activation": activation, "tied": tied, "head_dim": c.size("head_dim")}


def phi3(c: Config) -> dict[str, Any]:
    return rotary(c) | {"dropout": c.rate("resid_pdrop")}


def mixtral(c: Config) -> dict[str, Any]:
    experts = Experts(
        num=c.size("num_local_experts"), topk=c.size("num_experts_per_tok"), ffn=c.size("intermediate_size")
    )
    return rotary(c) | {"experts": experts}


def qwen3_moe(c: Config) -> dict[str, Any]:
    c.only("decoder_sparse_step", 1)
    c.only("mlp_only_layers", [])
    experts = Experts(
        num=c.size("num_experts", "num_local_experts"),
        topk=c.size("num_experts_per_tok"),
        ffn=c.size("moe_intermediate_size"),
        normalize=c.flag("norm_topk_prob", default=False),
    )
    return qwen3(c) | {"experts": experts}


def _deepseek(c: Config, *, v3: bool) -> dict[str, Any]:
    c.only("moe_layer_freq", 1)
    fields = rotary(c)
    # the latent attention has as many key heads as query heads, whatever num_key_value_heads says
    fields |= {"kv_heads": None, "head_dim": None}
    fields["latent"] = LatentAttention(
        q_rank=c.size("q_lora_rank") if c.has("q_lora_rank") else None,
        kv_rank=c.size("kv_lora_rank"),
        nope_dim=c.size("qk_nope_head_dim"),
        rope_dim=c.size("qk_rope_head_dim"),
        v_dim=c.size("v_head_dim"),
    )
    if c.has("n_routed_experts"):
        scores = c.word("scoring_func", default="sigmoid" if v3 else "softmax")
        width = c.size("moe_intermediate_size")
        fields["experts"] = Experts(
            num=c.size("n_routed_experts"),
            topk=c.size("num_experts_per_tok"),
            ffn=width,
            shared_ffn=width * c.count("n_shared_experts", default=0),
            router="sigmoid" if scores == "sigmoid" else "softmax",
            normalize=c.flag("norm_topk_prob", default=v3),
            score_bias=c.word("topk_method", default="noaux_tc" if v3 else "greedy") == "noaux_tc",
            dense_layers=c.count("first_k_dense_replace", default=0),
        )
    return fields


def gpt_neox(c: Config) -> dict[str, Any]:
    bias = c.flag("attention_bias", default=True)
    return {
        "layers": c.size("num_hidden_layers"),
        "hidden": c.size("hidden_size"),
        "heads": c.size("num_attention_heads"),
        "ffn": c.size("intermediate_size"),
        "vocab": c.size("vocab_size"),
        "seq": c.size("max_position_embeddings"),
        "rope": True,
        "norm": "layer_norm",
        "activation": c.activation("hidden_act", gated=False, default="gelu"),
        "qkv_bias": bias,
        "proj_bias": bias,
        "mlp_bias": True,
        "tied": c.flag("tie_word_embeddings", default=False),
        "dropout": c.rate("hidden_dropout"),
        "attention_dropout": c.rate("attention_dropout"),
        "parallel_residual": c.flag("use_parallel_residual", default=True),
    }


def falcon(c: Config) -> dict[str, Any]:
    hidden, heads = c.size("hidden_size"), c.size("num_attention_heads", "n_head")
    new = c.flag("new_decoder_architecture", default=False)
    parallel = new or c.flag("parallel_attn", default=True)
    if new:
        kv_heads = c.size("num_kv_heads", "n_head_kv", default=heads)
    else:
        # the old architecture has one key head or all, whatever num_kv_heads says
        kv_heads = 1 if c.flag("multi_query", default=True) else heads
    bias = c.flag("bias", default=False)
    return {
        "layers": c.size("num_hidden_layers", "n_layer"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": kv_heads,
        "ffn": c.size("ffn_hidden_size", default=4 * hidden),
        "vocab": c.size("vocab_size"),
        "seq": c.size("max_position_embeddings", default=2048),
        "rope": not c.flag("alibi", default=False),
        "norm": "layer_norm",
        "activation": c.activation("activation", gated=False, default="gelu"),
        "qkv_bias": bias,
        "proj_bias": bias,
        "mlp_bias": bias,
        "tied": c.flag("tie_word_embeddings", default=True),
        "dropout": c.rate("hidden_dropout"),
        "attention_dropout": c.rate("attention_dropout"),
        "parallel_residual": parallel,
        "shared_norm": parallel and (c.size("num_ln_in_parallel_attn", default=2) == 1 if new else True),
    }


_MPT_ATTENTION = ("multihead_attention", "multiquery_attention", "grouped_query_attention")


def mpt(c: Config) -> dict[str, Any]:
    hidden = c.size("d_model")
    bias = not c.flag("no_bias", default=True)
    attention = Config(c.mapping("attn_config"), f"{c.where}: attn_config")
    alibi = attention.flag("alibi", default=False)
    heads = c.size("n_heads")
    kind = attention.word("attn_type", default="multihead_attention")
    if kind not in _MPT_ATTENTION:
        raise attention.error("attn_type", f"is {kind!r}; known: {', '.join(_MPT_ATTENTION)}")
    grouped = attention.size("kv_n_heads", default=heads)
    seq = c.size("max_seq_len")
    return {
        "layers": c.size("n_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": {"multihead_attention": heads, "multiquery_attention": 1}.get(kind, grouped),
        "ffn": hidden * c.size("expansion_ratio", default=4),
        "vocab": c.size("vocab_size"),
        "seq": seq,
        "positions": None if alibi else seq,
        "norm": "layer_norm",
        "norm_bias": bias,
        "activation": "gelu",
        "qkv_bias": bias,
        "proj_bias": bias,
        "mlp_bias": bias,
        "tied": c.flag("tie_word_embeddings", default=True),
        "dropout": c.rate("resid_pdrop"),
        "attention_dropout": attention.rate("attn_pdrop"),
    }


def encoder(c: Config) -> dict[str, Any]:
    return {
        "layers": c.size("num_hidden_layers"),
        "hidden": c.size("hidden_size"),
        "heads": c.size("num_attention_heads"),
        "ffn": c.size("intermediate_size"),
        "norm": "layer_norm",
        "activation": c.activation("hidden_act", gated=False, default="gelu"),
        "proj_bias": True,
        "mlp_bias": True,
        "causal": False,
    }


_BERT_HEADS: Mapping[str, Head] = {"BertModel": "pooler", "BertForMaskedLM": "mlm", "BertForPreTraining": "pretraining"}


def bert(c: Config) -> dict[str, Any]:
    named = c.architecture() or "BertForPreTraining"
    if named not in _BERT_HEADS:
        raise c.error("architectures", f"names {named!r}; known: {', '.join(_BERT_HEADS)}")
    c.only("position_embedding_type", "absolute")
    positions = c.size("max_position_embeddings")
    return encoder(c) | {
        "vocab": c.size("vocab_size"),
        "seq": positions,
        "positions": positions,
        "norm_first": False,
        "embedding_norm": True,
        "qkv_bias": True,
        "tied": c.flag("tie_word_embeddings", default=True),
        "dropout": c.rate("hidden_dropout_prob", default=0.1),
        "attention_dropout": c.rate("attention_probs_dropout_prob", default=0.1),
        "token_types": c.count("type_vocab_size", default=2),
        "head": _BERT_HEADS[named],
    }


def vit(c: Config) -> dict[str, Any]:
    patches = Patches(
        image=c.size("image_size", default=224),
        patch=c.size("patch_size", default=16),
        channels=c.size("num_channels", default=3),
    )
    labels = c.mapping("id2label")
    tokens = patches.side**2 + 1
    return encoder(c) | {
        "vocab": len(labels) or c.size("num_labels"),
        "seq": tokens,
        "positions": tokens,
        "qkv_bias": c.flag("qkv_bias", default=True),
        "dropout": c.rate("hidden_dropout_prob"),
        "attention_dropout": c.rate("attention_probs_dropout_prob"),
        "head": "classifier",
        "patches": patches,
    }


#: ``model_type`` to its reader
TYPES: Mapping[str, Callable[[Config], dict[str, Any]]] = {
    "gpt2": gpt2,
    "llama": rotary,
    "mistral": rotary,
    "qwen2": qwen2,
    "qwen3_moe": qwen3_moe,
    "qwen3": qwen3,
    "gemma": gemma,
    "phi3": phi3,
    "mixtral": mixtral,
    "deepseek_v2": partial(_deepseek, v3=False),
    "deepseek_v3": partial(_deepseek, v3=True),
    "gpt_neox": gpt_neox,
    "falcon": falcon,
    "mpt": mpt,
    "bert": bert,
    "vit": vit,
}
