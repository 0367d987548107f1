"""What a Hugging Face ``config.json`` says and the model graph leaves out, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from proteus.model.hf_config import Config

#: Tokens per sample if no length is given: the shortest in pre-training of today's language models
#: (Llama 2, Mixtral in Megatron-LM's example, DeepSeek-V3), and far below what rotary positions allow.
MAX_ASSUMED_SEQ = 4096

_GENERATION = (
    "bad_words_ids begin_suppress_tokens decoder_start_token_id diversity_penalty do_sample early_stopping "
    "encoder_no_repeat_ngram_size exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id "
    "length_penalty max_length max_new_tokens min_length no_repeat_ngram_size num_beam_groups num_beams "
    "num_return_sequences output_scores remove_invalid_values repetition_penalty return_dict_in_generate "
    "suppress_tokens temperature top_k top_p typical_p use_cache"
)
_LABELS_AND_TOKENS = (
    "bos_token_id cls_token_id eos_token_id finetuning_task id2label label2id mask_token_id pad_token_id prefix "
    "problem_type sep_token_id task_specific_params tokenizer_class unk_token_id"
)
_FILES = (
    "_attn_implementation _attn_implementation_autoset _commit_hash _name_or_path attn_implementation auto_map dtype "
    "init_config init_device is_decoder is_encoder_decoder model_type name_or_path output_attentions "
    "output_hidden_states return_dict tf_legacy_loss tie_encoder_decoder torch_dtype torchscript transformers_version "
    "use_bfloat16 verbose"
)
_VALUES = (  # numbers that enter the arithmetic and change neither sizes nor the ops
    "aux_loss_alpha emb_pdrop embd_pdrop embedding_fraction initializer_factor initializer_range layer_norm_eps "
    "layer_norm_epsilon logit_scale norm_eps rms_norm_eps rope_interleave rope_parameters rope_scaling rope_theta "
    "rotary_emb_base routed_scaling_factor router_aux_loss_coef router_jitter_noise scale_attn_by_inverse_layer_idx "
    "scale_attn_weights seq_aux"
)
_ELSEWHERE = (
    # said by other fields too, or a setting of the run and not of the model
    "attention_dropout chunk_size_feed_forward classifier_dropout "
    "directionality encoder_stride ep_size gradient_checkpointing head_dim max_window_layers n_ctx n_head_kv "
    "norm_type num_key_value_heads num_kv_heads original_max_position_embeddings output_router_logits pooler_act "
    "pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_output_size pooler_size_per_head "
    "pooler_type pretraining_tp pruned_heads summary_activation summary_first_dropout summary_proj_to_labels "
    "summary_type summary_use_proj"
)
#: fields that change nothing of what is simulated
IRRELEVANT = frozenset(f"{_GENERATION} {_LABELS_AND_TOKENS} {_FILES} {_VALUES} {_ELSEWHERE}".split())
#: fields with a sentence of their own below
_EXPLAINED = frozenset(
    {
        "alibi", "architectures", "attention_chunk_size", "attn_config", "attn_logit_softcapping", "clip_qkv",
        "final_logit_softcapping", "n_group", "num_nextn_predict_layers", "partial_rotary_factor",
        "quantization_config", "rotary_pct", "sliding_window", "topk_group", "use_sliding_window",
    }
)  # fmt: skip
#: a sentence is to be read at a glance
_MAX_NAMES = 10
#: model types whose ``sliding_window`` is off unless ``use_sliding_window`` is true
_WINDOW_OFF = ("qwen2", "qwen3", "qwen3_moe")
#: ends of the names of architectures that predict every token
_LANGUAGE_MODELS = ("ForCausalLM", "LMHeadModel", "ForPreTraining", "ForMaskedLM")


def assumptions(c: Config, kind: str, seq: int, head: str) -> tuple[str, ...]:
    """What the graph of this config, of model type `kind` and at `seq` tokens, leaves out."""
    return (*_attention(c, kind, seq), *_layers(c, head), *_unknown_fields(c))


def assumed_seq(stated: int, seq: int) -> str:
    """The sentence about an assumed sequence length."""
    rule = f"the smaller of its {stated} positions and {MAX_ASSUMED_SEQ} is taken"
    return f"seq={seq}: the config states no training length, so {rule}; give seq to change it"


def _number(c: Config, name: str) -> float | None:
    value = c.fields.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _attention(c: Config, kind: str, seq: int) -> Iterator[str]:
    window = _number(c, "sliding_window")
    is_on = c.fields.get("use_sliding_window", kind not in _WINDOW_OFF)
    if window is not None and 0 < window < seq and is_on:
        yield f"sliding_window={window} is below seq={seq} and not modelled: attention spans the whole sequence"
    chunk = _number(c, "attention_chunk_size")
    if chunk is not None and 0 < chunk < seq:
        yield f"attention_chunk_size={chunk} is below seq={seq} and not modelled: attention spans the whole sequence"
    if _number(c, "attn_logit_softcapping"):
        yield "attn_logit_softcapping is not modelled: attention is priced without capping its scores"
    nested = c.fields.get("attn_config")
    rest: Mapping[str, Any] = nested if isinstance(nested, Mapping) else {}
    if c.fields.get("clip_qkv") or rest.get("clip_qkv"):
        yield "clip_qkv is not modelled: queries, keys and values are not clipped"
    if rest.get("qk_ln"):
        yield "attn_config.qk_ln is not modelled: queries and keys are not normalised"
    if rest.get("prefix_lm"):
        yield "attn_config.prefix_lm is not modelled: attention is causal throughout"
    if rest.get("sliding_window_size", -1) not in (-1, None):
        yield "attn_config.sliding_window_size is not modelled: attention spans the whole sequence"
    if c.fields.get("alibi") or rest.get("alibi"):
        yield "alibi is not modelled: attention is priced without adding position biases to its scores"
    for name in ("rotary_pct", "partial_rotary_factor"):
        share = _number(c, name)
        if share is not None and 0 < share < 1:
            yield f"{name}={share} is not modelled: rotary embedding covers whole heads"


def _layers(c: Config, head: str) -> Iterator[str]:
    extra = _number(c, "num_nextn_predict_layers")
    if extra:
        yield f"num_nextn_predict_layers={extra}: multi-token prediction is not modelled, only the main model is"
    groups, chosen = _number(c, "n_group"), _number(c, "topk_group")
    if groups and chosen and chosen < groups:
        yield f"topk_group={chosen} of n_group={groups} is not modelled: a token may go to experts of every group"
    if c.fields.get("quantization_config"):
        yield "quantization_config is not read: the precision is that of the run"
    if _number(c, "final_logit_softcapping"):
        yield "final_logit_softcapping is not modelled: the loss is priced without capping logits"
    named = c.architecture()
    if head == "lm" and named and not named.endswith(_LANGUAGE_MODELS):
        yield f"architectures names {named}, which is modelled with the head of a language model"


def _unknown_fields(c: Config) -> Iterator[str]:
    strange = sorted(
        str(name)
        for name, value in c.fields.items()
        if value and name not in c.read and name not in IRRELEVANT and name not in _EXPLAINED
    )
    if strange:
        shown = ", ".join(strange[:_MAX_NAMES]) + (
            f" and {len(strange) - _MAX_NAMES} more" if len(strange) > _MAX_NAMES else ""
        )
        yield f"fields of the config that are not understood and have no effect: {shown}"
