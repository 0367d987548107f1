"""Megatron-LM and Megatron-Core: the arguments of ``pretrain_gpt.py`` and its like.

Names, defaults and implied values are those of NVIDIA/Megatron-LM
``megatron/training/arguments.py`` (``validate_args``) and
``megatron/core/transformer/transformer_config.py``; NeMo and Megatron-Bridge
use the same names and come here with their own defaults.
"""

from __future__ import annotations

import re
from typing import Any

from proteus.launch.document import Document
from proteus.launch.draft import Draft
from proteus.launch.keys import Keys
from proteus.launch.launch import Launch

#: keys by which a command line or a mapping is recognised
MARKS = frozenset(
    {"tensor_model_parallel_size", "pipeline_model_parallel_size", "micro_batch_size", "num_layers", "hidden_size",
     "num_attention_heads", "seq_length", "max_position_embeddings", "global_batch_size"}
)  # fmt: skip
#: known flags that change neither the time nor the memory of a step, or the data that flows
IGNORED = [
    "train_iters",
    "train_samples",
    "lr",
    "min_lr",
    "lr_decay_style",
    "lr_decay_iters",
    "lr_decay_samples",
    "lr_warmup_iters",
    "lr_warmup_samples",
    "lr_warmup_fraction",
    "lr_warmup_init",
    "lr_wsd_decay_style",
    "lr_wsd_decay_iters",
    "lr_wsd_decay_samples",
    "decoupled_lr",
    "decoupled_min_lr",
    "weight_decay",
    "start_weight_decay",
    "end_weight_decay",
    "weight_decay_incr_style",
    "adam_beta1",
    "adam_beta2",
    "adam_eps",
    "clip_grad",
    "init_method_std",
    "init_method_xavier_uniform",
    "seed",
    "data_path",
    "split",
    "data_cache_path",
    "vocab_file",
    "merge_file",
    "tokenizer_type",
    "tokenizer_model",
    "tiktoken_pattern",
    "mock_data",
    "num_workers",
    "save",
    "load",
    "save_interval",
    "eval_interval",
    "eval_iters",
    "log_interval",
    "log_params_norm",
    "log_num_zeros_in_grad",
    "log_validation_ppl_to_tensorboard",
    "log_timers_to_tensorboard",
    "log_memory_to_tensorboard",
    "log_throughput",
    "log_progress",
    "tensorboard_dir",
    "tensorboard_queue_size",
    "tensorboard_log_interval",
    "wandb_project",
    "wandb_exp_name",
    "wandb_save_dir",
    "timing_log_option",
    "distributed_backend",
    "distributed_timeout_minutes",
    "no_load_optim",
    "no_load_rng",
    "no_save_optim",
    "no_save_rng",
    "ckpt_format",
    "async_save",
    "use_persistent_ckpt_worker",
    "dist_ckpt_strictness",
    "exit_duration_in_mins",
    "exit_interval",
    "exit_on_missing_checkpoint",
    "profile",
    "profile_step_start",
    "profile_step_end",
    "profile_ranks",
    "use_pytorch_profiler",
    "rotary_base",
    "rotary_percent",
    "rotary_scaling_factor",
    "use_rope_scaling",
    "norm_epsilon",
    "layernorm_epsilon",
    "loss_scale",
    "initial_loss_scale",
    "min_loss_scale",
    "loss_scale_window",
    "hysteresis",
    "moe_aux_loss_coeff",
    "moe_z_loss_coeff",
    "moe_router_load_balancing_type",
    "moe_input_jitter_eps",
    "moe_router_bias_update_rate",
    "moe_router_topk_scaling_factor",
    "moe_router_pre_softmax",
    "moe_router_num_groups",
    "moe_router_group_topk",
    "moe_router_dtype",
    "fp8_amax_history_len",
    "fp8_amax_compute_algo",
    "fp8_margin",
    "fp8_interval",
    "manual_gc",
    "manual_gc_interval",
    "empty_unused_memory_level",
    "no_create_attention_mask_in_dataloader",
    "no_mmap_bin_files",
    "master_addr",
    "master_port",
    "node_rank",
    "rdzv_id",
    "rdzv_backend",
    "rdzv_endpoint",
    "max_restarts",
    "tee",
    "log_dir",
    "check_for_nan_in_loss_and_grad",
    "no_check_for_nan_in_loss_and_grad",
    "use_checkpoint_args",
    "dataloader_type",
    "tensorboard_log_interval",
    "override_opt_param_scheduler",
    "use_checkpoint_opt_param_scheduler",
    "deterministic_mode",
    "attention_softmax_in_fp32",
    "apply_layernorm_1p",
    "no_position_embedding",
    "use_mcore_models",
    "calculate_per_token_loss",
    "qk_layernorm_epsilon",
    "eod_mask_loss",
    "reset_position_ids",
    "reset_attention_mask",
    "sgd_momentum",
    "create_attention_mask_in_dataloader",
    "auto_detect_ckpt_format",
    "ckpt_assume_constant_structure",
    "ckpt_fully_parallel_save",
    "ckpt_fully_parallel_load",
    "dist_ckpt_format",
    "export_te_mcore_model",
    "te_rng_tracker",
    "enable_ft_package",
    "log_straggler",
    "log_timers_to_tensorboard",
]
_NOT_MODELLED = {
    "cp_comm_type": "the way of exchange of context parallelism",
    "hierarchical_context_parallel_sizes": "context parallelism over two levels is not modelled",
    "step_batch_size_schedule": "the batch grows while training; the full global batch is simulated",
    "rampup_batch_size": "the batch grows while training; the full global batch is simulated",
    "fp8_param_gather": "parameters are gathered in their own precision",
    "fp8_param": "parameters are gathered in their own precision",
    "moe_expert_capacity_factor": "tokens are routed evenly",
    "pipeline_model_parallel_layout": "a layout of its own is not read; layers are dealt out evenly",
    "mtp_num_layers": "multi-token prediction is not modelled",
    "distribute_saved_activations": "recomputation keeps the whole input on every tensor rank",
    "defer_embedding_wgrad_compute": "the embedding's weight gradient is not deferred",
    "window_size": "sliding windows are not modelled: attention spans the whole sequence",
    "moe_layer_freq": "a pattern of dense and sparse layers other than leading dense ones is not modelled",
    "delay_wgrad_compute": "weight gradients are not delayed",
    "no_masked_softmax_fusion": "follows from the attention kernel",
    "use_fused_weighted_squared_relu": "no fused squared ReLU",
}
#: switch of the file → field of the framework and its value where the switch is on
KERNELS = {
    "cross_entropy_loss_fusion": ("fused_cross_entropy", True),
    "no_bias_gelu_fusion": ("fused_bias_activation", False),
    "no_bias_swiglu_fusion": ("fused_bias_activation", False),
    "no_bias_dropout_fusion": ("fused_dropout_add", False),
    "no_rope_fusion": ("fused_rope", False),
    "moe_permute_fusion": ("fused_permute", True),
    "no_gradient_accumulation_fusion": ("fused_grad_accumulation", False),
    "grad_reduce_in_bf16": ("fp32_grads", False),
    "moe_enable_deepep": ("merges_tokens", True),
}
_RECOMPUTE_MODULES = {"layernorm": "norm", "moe_act": "activation", "mlp_act": "activation"}
_SHARDING = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
_CONTEXT = {"p2p": "ring", "all_gather": "all_gather", "allgather": "all_gather", "a2a": "all_to_all"}
_ATTENTION = {"flash": "flash2", "fused": "cudnn", "unfused": "unfused", "local": "fused_softmax"}


def recognises(document: Document) -> bool:
    names = {name.lstrip("-").replace("-", "_") for name in map(str, document.names)}
    if document.form == "arguments":
        return len(names & MARKS) >= 2
    arguments = document.section("MODEL_ARGS") or document.section("model_args")
    flags = [name for name in (arguments or document.values) if str(name).startswith("--")]
    return (
        len(flags) >= 2
        or (bool(arguments) and len({str(n).replace("-", "_") for n in arguments} & MARKS) >= 2)
        or (len(names & MARKS) >= 4 and {"tensor_model_parallel_size", "num_layers"} <= names)
    )


def read(document: Document, world_size: int | None) -> Launch:
    keys = Keys(document.entries, document.source, named=lambda name: name.rpartition(".")[2].lstrip("_"))
    for name in [n for n in keys if keys.entry(n).key.startswith(("ENV_VARS.", "TEST_TYPE", "LAUNCHER"))]:
        keys.note(name, "the environment of a test run is not read")
    draft = Draft(framework="megatron-core", keys=keys)
    if keys.switch("use_legacy_models", default=False):
        draft.framework = "megatron-lm"
    for note in document.notes:
        draft.assume(note)
    draft.gpus_per_node = _machine(draft, "nproc_per_node", "gpus_per_node", "num_gpus")
    draft.nodes = _machine(draft, "nnodes", "num_nodes")
    _ask_for_open_names(draft, document)
    is_bert = any("bert" in word for word in document.program)
    if not is_bert and "data_path" in keys and "bert" in str(keys.entry("data_path").value):
        is_bert = True
        draft.assume("architecture=bert: the file names no program, and its data are BERT's")
    model(draft, is_bert=is_bert)
    plan(draft)
    keys.ignore(IGNORED)
    return draft.finish(world_size)


def _machine(draft: Draft, *names: str) -> int | None:
    """A number of ranks or nodes; text such as $NNODES says nothing, and is asked for as the world size."""
    value = draft.keys.raw(*names)
    if value is None or not str(value).isdecimal():
        return None
    return draft.keys.whole(*names)


def _ask_for_open_names(draft: Draft, document: Document) -> None:
    """A flag whose value a script leaves to its environment is asked for, and read no further."""
    for name in list(draft.keys):
        value = draft.keys.entry(name).value
        text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
        if any(variable in text for variable in document.open_names) and name not in IGNORED:
            if name not in ("nproc_per_node", "nnodes", "gpus_per_node", "num_nodes", "num_gpus"):
                draft.need(name, f"the script does not set {text}")
            draft.keys.drop(name, f"{text} is set by the environment")


def model(draft: Draft, *, is_bert: bool = False) -> None:
    """Dims of the model, by Megatron's own defaults."""
    keys, dims = draft.keys, draft.dims
    hidden = keys.whole("hidden_size")
    heads = keys.whole("num_attention_heads")
    if hidden is None and keys.whole("num_layers") is None:
        return
    draft.architecture = "bert" if is_bert else "gpt"
    swiglu = keys.switch("swiglu", default=False) or keys.word("activation") in ("swiglu", "fast-swiglu")
    squared = keys.switch("squared_relu", default=False) or keys.word("activation") == "squared-relu"
    seq = keys.whole("seq_length", "encoder_seq_length")
    positions = keys.whole("max_position_embeddings", default=seq)
    ffn = keys.whole("ffn_hidden_size")
    if ffn is None and hidden is not None:
        # arguments.py validate_args: 4 x hidden, and with SwiGLU two thirds of that in steps of 64
        ffn = int(4 * hidden * 2 / 3) // 64 * 64 if swiglu else 4 * hidden
        draft.assume(
            f"ffn_hidden_size={ffn}: Megatron's own for hidden size {hidden}{' with SwiGLU' if swiglu else ''}"
        )
    kv = keys.whole("num_query_groups")
    groups = keys.switch("group_query_attention")
    if groups is False or (
        groups is None and draft.framework.startswith("megatron") and kv is not None and _is_command(keys)
    ):
        if kv is not None and kv != heads:
            keys.note("num_query_groups", "has no effect without --group-query-attention")
        kv = None
    rope = keys.word("position_embedding_type", default="learned_absolute")
    is_rope = rope in ("rope", "yarn", "mrope") or bool(keys.switch("use_rotary_position_embeddings", default=False))
    untied = keys.switch("untie_embeddings_and_output_weights", default=None)
    shared = keys.switch("share_embeddings_and_output_weights", default=None)
    bias = not keys.switch("disable_bias_linear", default=False)
    if keys.switch("bias", "add_bias_linear", default=None) is False:
        bias = False
    norm = keys.word("normalization", default="layernorm").replace("_", "")
    dropout = keys.real("hidden_dropout", default=0.1)
    attention_dropout = keys.real("attention_dropout", default=0.1)
    dims |= {
        "layers": keys.whole("num_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": kv if kv is not None else heads,
        "ffn": ffn,
        "vocab": keys.whole("padded_vocab_size", "vocab_size"),
        "seq": seq,
        "positions": None if is_rope or rope == "none" else max(positions or 0, seq or 0) or None,
        "rope": is_rope,
        "norm": "rms_norm" if norm == "rmsnorm" else "layer_norm",
        "activation": "swiglu" if swiglu else "relu2" if squared else "gelu",
        "qkv_bias": bool(bias or keys.switch("add_qkv_bias", default=False)),
        "proj_bias": bias,
        "mlp_bias": bias,
        "tied": (not untied) if untied is not None else True if shared is None else bool(shared),
        "dropout": dropout,
        "attention_dropout": attention_dropout,
    }
    if not bias:
        keys.raw("add_qkv_bias")
    if (head_dim := keys.whole("kv_channels")) is not None:
        dims["head_dim"] = head_dim
    if keys.switch("qk_layernorm", default=False):
        dims["qk_norm"] = True
    if keys.switch("multi_latent_attention", default=False):
        _latent(draft)
    num = keys.whole("num_experts", "num_moe_experts")
    if num is not None and num > 1:
        shared_ffn = keys.whole("moe_shared_expert_intermediate_size", default=0, least=0)
        score = keys.word("moe_router_score_function", default="softmax")
        dims["experts"] = {
            "num": num,
            "topk": keys.whole("moe_router_topk", default=2),
            "ffn": keys.whole("moe_ffn_hidden_size", default=ffn),
            "shared_ffn": shared_ffn,
            "router": "sigmoid" if score == "sigmoid" else "softmax",
            "score_bias": bool(keys.switch("moe_router_enable_expert_bias", default=False)),
            "dense_layers": _dense_layers(keys),
        }
    if keys.raw("moe_grouped_gemm") is False:
        keys.note("moe_grouped_gemm", "experts are computed in one grouped GEMM")
    for name in ("num_query_groups", "moe_token_dispatcher_type"):
        keys.raw(name)


def _is_command(keys: Keys) -> bool:
    return any(keys.entry(name).key.startswith("--") for name in keys)


def _dense_layers(keys: Keys) -> int:
    """Leading dense layers of a pattern such as ``([0]*3+[1]*58)``; a pattern of another form is said."""
    pattern = keys.raw("moe_layer_freq")
    text = "".join(map(str, pattern)) if isinstance(pattern, list) else str(pattern or "1")
    text = text.replace(" ", "").strip("\"'")
    match = re.fullmatch(r"\(?\[0\]\*(\d{1,4})\+\[1\]\*\d{1,4}\)?", text)
    if match:
        return int(match[1])
    if text != "1":
        keys.note("moe_layer_freq", _NOT_MODELLED["moe_layer_freq"])
    return 0


def _latent(draft: Draft) -> None:
    """Multi-head latent attention, by the defaults of transformer_config.py, MLATransformerConfig."""
    keys = draft.keys
    draft.dims["latent"] = {
        "q_rank": keys.whole("q_lora_rank"),
        "kv_rank": keys.whole("kv_lora_rank", default=512),
        "nope_dim": keys.whole("qk_head_dim", default=128),
        "rope_dim": keys.whole("qk_pos_emb_head_dim", default=64),
        "v_dim": keys.whole("v_head_dim", default=128),
    }
    draft.dims["kv_heads"] = None
    draft.dims.pop("head_dim", None)
    draft.dims |= {"positions": None, "rope": True}


def plan(draft: Draft) -> None:
    """The plan: degrees, batch, pipeline, memory, overlap, numerics and kernels."""
    keys = draft.keys
    tp = keys.whole("tensor_model_parallel_size", "model_parallel_size", default=1)
    pp = keys.whole("pipeline_model_parallel_size", default=1)
    cp = keys.whole("context_parallel_size", default=1)
    ep = keys.whole("expert_model_parallel_size", default=1)
    draft.say(tp=tp, pp=pp, cp=cp, ep=ep)
    if (etp := keys.whole("expert_tensor_parallel_size")) is not None and "experts" in draft.dims:
        draft.say(etp=etp)
    draft.say(seq=draft.dims.get("seq"))
    micro = keys.whole("micro_batch_size")
    if micro is None:
        draft.need("micro_batch", "micro-batch-size is not in the file, and Megatron has no default for it")
    draft.say(micro_batch=micro, global_batch=keys.whole("global_batch_size"))
    draft.per_rank_batch = True  # arguments.py: micro_batch_size x data_parallel_size unless given
    _pipeline(draft, pp)
    _memory(draft, tp)
    _overlap(draft, tp, cp)
    _numerics(draft)
    for name, (field, value) in KERNELS.items():
        if keys.switch(name, default=False):
            draft.kernels[field] = value
    if keys.whole("timing_log_level", default=0, least=0) == 2:
        draft.kernels["host_waits_for_passes"] = True
    if draft.dims.get("experts") and keys.word("moe_token_dispatcher_type") == "flex":
        draft.kernels["merges_tokens"] = True
    backend = keys.word("attention_backend", default="auto")
    if backend in _ATTENTION:
        draft.say(attention=_ATTENTION[backend])
    if keys.switch("use_flash_attn", default=False):
        draft.say(attention="flash2")
    if (
        keys.switch("enable_cuda_graph", "external_cuda_graph", default=False)
        or keys.word("cuda_graph_impl", default="none") != "none"
    ):
        draft.say(cuda_graphs=True)
    impl = keys.word("transformer_impl", default="transformer_engine")
    if impl == "local":
        draft.kernels["engine_workspace"] = False
    draft.say(pad_vocab=keys.whole("make_vocab_size_divisible_by"))
    for name, why in _NOT_MODELLED.items():
        if name in keys and name not in ("cp_comm_type", "moe_layer_freq"):
            keys.note(name, why)


def _pipeline(draft: Draft, pp: int) -> None:
    keys, layers = draft.keys, draft.dims.get("layers")
    chunks = keys.whole("num_virtual_stages_per_pipeline_rank", "virtual_pipeline_model_parallel_size")
    each = keys.whole("num_layers_per_virtual_pipeline_stage")
    if each is not None and layers is not None and pp > 1:
        if layers % (pp * each):
            draft.need("layers", f"{layers} layers are no multiple of {pp} stages × {each} layers of a virtual stage")
        else:
            chunks = layers // (pp * each)
    if pp > 1 and chunks is not None and chunks > 1:
        draft.say(virtual_stages=chunks)
    elif chunks is not None and chunks > 1:
        draft.assume("virtual pipeline stages have no effect with one pipeline rank")
    first = keys.whole("decoder_first_pipeline_num_layers", "num_layers_in_first_pipeline_stage")
    last = keys.whole("decoder_last_pipeline_num_layers", "num_layers_in_last_pipeline_stage")
    embeds = keys.switch("account_for_embedding_in_pipeline_split", default=False)
    loses = keys.switch("account_for_loss_in_pipeline_split", default=False)
    if pp == 1 or layers is None:
        return
    if first is not None or last is not None:
        _uneven(draft, pp, layers, first, last)
    elif embeds and loses:
        draft.say(pipeline_cut="modules")
    elif embeds or loses:
        keys.note(
            "account_for_embedding_in_pipeline_split" if embeds else "account_for_loss_in_pipeline_split",
            "only both of embedding and loss can count as a layer; layers are dealt out evenly",
        )
    elif layers % pp and "pipeline_model_parallel_layout" not in keys:
        draft.need(
            "pp",
            f"{layers} layers do not divide by {pp} pipeline stages, and Megatron refuses that; change one of them",
        )


def _uneven(draft: Draft, pp: int, layers: int, first: int | None, last: int | None) -> None:
    """Layers of a first and last stage of their own (transformer_block.py, get_num_layers_to_build)."""
    middle = pp - (first is not None) - (last is not None)
    rest = layers - (first or 0) - (last or 0)
    if int(draft.plan.get("virtual_stages", 1)) > 1:
        draft.assume("layers of the first and last pipeline stage are taken as said only without virtual stages")
        return
    if rest < 0 or (middle == 0 and rest) or (middle and rest % middle):
        draft.need("layers_per_stage", f"{rest} layers do not divide by the {middle} stages between first and last")
        return
    inner = (rest // middle,) * middle if middle else ()
    draft.say(
        layers_per_stage=(*((first,) if first is not None else ()), *inner, *((last,) if last is not None else ()))
    )


def _memory(draft: Draft, tp: int) -> None:
    keys = draft.keys
    zero = 1 if keys.switch("use_distributed_optimizer", default=False) else 0
    fsdp = keys.switch("use_megatron_fsdp", "use_custom_fsdp", default=False)
    sharding = keys.word("data_parallel_sharding_strategy", known=tuple(_SHARDING))
    if fsdp:
        zero = _SHARDING[sharding or "no_shard"]
    elif sharding is not None:
        keys.note("data_parallel_sharding_strategy", "has no effect without --use-megatron-fsdp")
    if keys.switch("use_torch_fsdp2", default=False):
        zero = 3
    draft.say(zero=zero)
    draft.optimizer_copies = keys.whole("num_distributed_optimizer_instances", default=1)
    sp = keys.switch("sequence_parallel", default=False)
    if sp and tp == 1:
        draft.assume("sequence_parallel is off: Megatron switches it off where tp is 1")
        sp = False
    draft.say(sequence_parallel=sp)
    _recompute(draft)
    if keys.switch("optimizer_cpu_offload", default=False):
        share = keys.real("optimizer_offload_fraction", default=1.0)
        draft.say(offload=("optimizer",))
        if share < 1:
            keys.note("optimizer_offload_fraction", "the whole optimizer state is offloaded, not a part")


def _recompute(draft: Draft) -> None:
    keys = draft.keys
    granularity = keys.word(
        "recompute_granularity", "activations_checkpoint_granularity", known=("full", "selective", "none")
    )
    method = keys.word("recompute_method", "activations_checkpoint_method")
    number = keys.whole("recompute_num_layers", "activations_checkpoint_num_layers")
    modules = keys.words("recompute_modules")
    if keys.switch("recompute_activations", default=False) and granularity is None:
        granularity = "selective"
    if granularity in (None, "none"):
        draft.say(recompute="none")
        return
    if granularity == "full":
        draft.say(recompute="full")
        if method == "block" and number is not None:
            per_stage = _layers_of_chunk(draft)
            if per_stage is None or number < per_stage:
                draft.say(recompute_layers=number)
        elif method == "uniform" and number is not None and number > 1:
            draft.assume(
                f"recomputation in groups of {number} layers: every layer keeps its input, where Megatron keeps "
                "that of "
                "each group"
            )
        return
    # --recompute-modules: core_attn unless told
    kept = modules or ("core_attn",)
    draft.say(recompute="selective" if "core_attn" in kept else "none")
    cheap = tuple(dict.fromkeys(_RECOMPUTE_MODULES[m] for m in kept if m in _RECOMPUTE_MODULES))
    draft.say(recompute_modules=cheap or None)
    other = [m for m in kept if m != "core_attn" and m not in _RECOMPUTE_MODULES]
    if other:
        keys.note("recompute_modules", f"recomputing {', '.join(other)} alone cannot be said in a plan")


def _layers_of_chunk(draft: Draft) -> int | None:
    layers = draft.dims.get("layers")
    if layers is None:
        return None
    return int(layers) // (draft.degree("pp") * draft.degree("virtual_stages")) or None


def _overlap(draft: Draft, tp: int, cp: int) -> None:
    keys = draft.keys
    draft.say(overlap_gradients=keys.switch("overlap_grad_reduce", default=False))
    gathers = keys.switch("overlap_param_gather", default=False)
    if gathers and not draft.plan.get("zero"):
        draft.assume("overlap_parameters is off: without a distributed optimizer nothing is gathered")
        gathers = False
    draft.say(overlap_parameters=gathers if draft.plan.get("zero") in (1, 2) else None)
    if keys.switch("tp_comm_overlap", "ub_tp_comm_overlap", default=False):
        if tp > 1 and draft.plan.get("sequence_parallel"):
            draft.say(overlap_tensor="all")
        else:
            draft.assume("tp_comm_overlap has no effect without tensor and sequence parallelism")
    if keys.switch("overlap_moe_expert_parallel_comm", default=False):
        draft.say(overlap_experts=True)
    size = keys.whole("ddp_bucket_size")
    if size is not None:
        wide = 2 if keys.switch("grad_reduce_in_bf16", default=False) else 4
        draft.say(bucket_bytes=float(size * wide))
    way = keys.words("cp_comm_type")
    if cp > 1 and way:
        if way[0] in _CONTEXT:
            draft.say(context=_CONTEXT[way[0]])
        else:
            keys.note("cp_comm_type", f"{way[0]} over two levels is not modelled; a ring is taken")
            draft.say(context="ring")
            draft.assume(f"cp_comm_type={way[0]}: taken as a ring over all context ranks")


def _numerics(draft: Draft) -> None:
    keys = draft.keys
    bf16, fp16 = keys.switch("bf16", default=False), keys.switch("fp16", default=False)
    precision: str = "bf16" if bf16 else "fp16" if fp16 else "fp32"
    fp8 = keys.raw("fp8_format", "fp8")
    if fp8 is not None and str(fp8).lower() not in ("false", "none"):
        recipe = keys.word("fp8_recipe", default="delayed")
        precision = "fp8"
        if recipe not in ("delayed", "tensorwise"):
            draft.assume(f"fp8_recipe={recipe}: taken as fp8 with one scale per tensor")
    if keys.raw("fp4_format", "fp4"):
        precision = "nvfp4"
    if not (bf16 or fp16) and precision == "fp32":
        draft.assume("precision=fp32: neither --bf16 nor --fp16 stands in the file")
    draft.say(precision=precision)
    optimizer: Any = keys.word("optimizer", default="adam")
    if optimizer in ("adam", "sgd"):
        draft.say(optimizer=optimizer)
    else:
        draft.say(optimizer="adam")
        keys.note("optimizer", f"{optimizer} is not modelled; adam is taken")
    if keys.switch("use_precision_aware_optimizer", default=False):
        if keys.word("main_params_dtype", default="fp32") == "fp16":
            draft.kernels["master_bytes"] = 2
        for name in ("exp_avg_dtype", "exp_avg_sq_dtype", "main_grads_dtype"):
            if name in keys and keys.word(name) != "fp32":
                keys.note(name, "moments and gradients are kept in fp32")
