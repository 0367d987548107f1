"""Nanotron YAML.

Names and defaults: huggingface/nanotron ``src/nanotron/config/config.py`` and
``parallelism_config.py``.
"""

from __future__ import annotations

from proteus.launch.document import Document
from proteus.launch.draft import Draft
from proteus.launch.keys import Keys
from proteus.launch.launch import Launch

_IGNORED = (
    "checkpoints.*", "data_stages", "general.*", "lighteval.*", "logging.*", "profiler.*", "s3_upload.*", "tokenizer.*",
    "metrics_logging.*", "optimizer.learning_rate_scheduler.*", "optimizer.optimizer_factory.*",
    "optimizer.clip_grad", "optimizer.weight_decay", "optimizer.adam_beta1", "optimizer.adam_beta2",
    "optimizer.adam_eps",
    "model.ddp_bucket_cap_mb", "model.init_method.*", "tokens.train_steps", "tokens.val_check_interval",
    "tokens.limit_val_batches", "tokens.limit_test_batches", "model.model_config.bos_token_id",
    "model.model_config.eos_token_id", "model.model_config.pad_token_id", "model.model_config.initializer_range",
    "model.model_config.is_llama_config", "model.model_config.is_qwen2_config", "model.model_config.rms_norm_eps",
    "model.model_config.rope_scaling", "model.model_config.rope_theta", "model.model_config.rope_interleaved",
    "model.model_config.use_cache", "model.model_config.pretraining_tp", "model.model_config.max_position_embeddings",
    "model.model_config.rope_scaling.*",
)  # fmt: skip
_ENGINES = {"1f1b": "1f1b", "afab": "gpipe"}
_PRECISIONS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def recognises(document: Document) -> bool:
    parallel = document.section("parallelism")
    return "tokens" in document.names and {"dp", "tp", "pp"} <= set(map(str, parallel))


def read(document: Document, world_size: int | None) -> Launch:
    keys = Keys(document.entries, document.source)
    draft = Draft(framework="nanotron", keys=keys)
    _model(draft)
    at = "parallelism"
    draft.dp = keys.whole(f"{at}.dp")
    tp, pp = keys.whole(f"{at}.tp", default=1), keys.whole(f"{at}.pp", default=1)
    cp = keys.whole(f"{at}.context_parallel_size", default=1)
    draft.say(tp=tp, pp=pp, cp=cp)
    draft.say(ep=keys.whole(f"{at}.expert_parallel_size"))
    engine = keys.word(f"{at}.pp_engine", default="1f1b", known=tuple(_ENGINES))
    if pp > 1:
        draft.say(schedule=_ENGINES[engine])
    # parallelism_config.py: ALL_REDUCE unless given
    mode = keys.word(f"{at}.tp_mode", default="all_reduce", known=("all_reduce", "reduce_scatter"))
    draft.say(sequence_parallel=mode == "reduce_scatter" and tp > 1)
    is_async = keys.switch(f"{at}.tp_linear_async_communication", default=False)
    if is_async and mode == "reduce_scatter" and tp > 1:
        keys.note(f"{at}.tp_linear_async_communication", "communication in chunks beside GEMMs is not set")
    draft.say(recompute="full" if keys.switch(f"{at}.recompute_layer", default=False) else "none")
    keys.raw(f"{at}.tp_recompute_allgather")
    draft.say(
        seq=keys.whole("tokens.sequence_length"),
        micro_batch=keys.whole("tokens.micro_batch_size"),
        zero=keys.whole("optimizer.zero_stage", default=0, least=0),
        precision=_PRECISIONS[keys.word("model.dtype", default="bfloat16", known=tuple(_PRECISIONS))],
        pad_vocab=keys.whole("model.make_vocab_size_divisible_by", default=1),
    )
    draft.accumulation = keys.whole("tokens.batch_accumulation_per_replica", default=1)
    if not keys.switch("optimizer.accumulate_grad_in_fp32", default=True):
        draft.kernels["fp32_grads"] = False
    keys.ignore(_IGNORED)
    return draft.finish(world_size)


def _model(draft: Draft) -> None:
    keys, at = draft.keys, "model.model_config"
    if not keys.under(at):
        return
    heads = keys.whole(f"{at}.num_attention_heads")
    is_qwen = bool(keys.raw(f"{at}.is_qwen2_config", default=False))
    draft.architecture = "qwen2" if is_qwen else "llama"
    draft.dims |= {
        "layers": keys.whole(f"{at}.num_hidden_layers"),
        "hidden": keys.whole(f"{at}.hidden_size"),
        "heads": heads,
        "kv_heads": keys.whole(f"{at}.num_key_value_heads", default=heads),
        "ffn": keys.whole(f"{at}.intermediate_size"),
        "vocab": keys.whole(f"{at}.vocab_size"),
        "seq": keys.whole("tokens.sequence_length"),
        "tied": bool(keys.switch(f"{at}.tie_word_embeddings", default=False)),
        "activation": {"gelu": "geglu"}.get(keys.word(f"{at}.hidden_act", default="silu"), "swiglu"),
    }
    if keys.switch(f"{at}.attention_bias", default=is_qwen):
        draft.dims["qkv_bias"] = True
    num = keys.whole(f"{at}.moe_config.num_experts", default=1)
    if num > 1:
        draft.dims["experts"] = {
            "num": num,
            "topk": keys.whole(f"{at}.moe_config.top_k", default=1),
            "ffn": keys.whole(f"{at}.moe_config.moe_intermediate_size", default=draft.dims["ffn"]),
        }
    for name in keys.under(at):
        if name.endswith(("sliding_window", "_attn_implementation")):
            keys.note(name, "attention spans the whole sequence, by the framework's kernel")
