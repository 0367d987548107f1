"""GPT-NeoX YAML.

Names and defaults: EleutherAI/gpt-neox ``configs/neox_arguments.md`` and
``megatron/neox_arguments/neox_args.py``.  Keys have hyphens or underscores,
and DeepSpeed's stand beside them.
"""

from __future__ import annotations

from proteus.launch import zero
from proteus.launch.document import Document
from proteus.launch.draft import Draft
from proteus.launch.keys import Keys
from proteus.launch.launch import Launch

_MARKS = frozenset(
    {"pipe_parallel_size", "model_parallel_size", "pos_emb", "no_weight_tying", "gpt_j_residual",
     "output_layer_parallelism", "checkpoint_activations", "rotary_pct", "attention_config",
     "make_vocab_size_divisible_by"}
)  # fmt: skip
_IGNORED = [
    "init_method",
    "output_layer_init_method",
    "min_lr",
    "data_impl",
    "split",
    "train_iters",
    "lr_decay_iters",
    "distributed_backend",
    "lr_decay_style",
    "warmup",
    "checkpoint_factor",
    "eval_interval",
    "eval_iters",
    "log_interval",
    "keep_last_n_checkpoints",
    "weight_decay",
    "tokenizer_type",
    "hostfile",
    "launcher",
    "max_position_embeddings",
    "rotary_pct",
    "rotary_emb_base",
    "rms_norm_epsilon",
    "layernorm_epsilon",
    "vocab_file",
    "merge_file",
    "data_path",
    "save",
    "load",
    "seed",
    "synchronize_each_layer",
    "output_layer_parallelism",
    "use_wandb",
    "wandb_project",
    "wandb_host",
    "wandb_team",
    "wandb_group",
    "tensorboard_dir",
    "log_dir",
    "train_data_paths",
    "valid_data_paths",
    "test_data_paths",
    "extra_save_iters",
    "finetune",
    "attention_softmax_in_fp32",
    "num_workers",
    "init_method_std",
    "no_load_optim",
    "no_load_rng",
    "clip_grad",
    "hysteresis",
    "loss_scale",
    "moe_loss_coeff",
    "moe_z_loss_coeff",
    "moe_jitter_eps",
    "lr_warmup_iters",
]
#: key → framework field and value where the key is false
_FUSIONS = {"bias_gelu_fusion": "fused_bias_activation", "rope_fusion": "fused_rope"}
_NOT_MODELLED = {
    "sliding_window_width": "sliding windows are not modelled: attention spans the whole sequence",
    "partition_activations": "checkpoints are kept whole on every tensor rank",
    "layernorm_fusion": "norms are priced as the framework's defaults",
    "scaled_masked_softmax_fusion": "follows from the attention kernel",
    "fp32_allreduce": "gradients travel as they are kept",
    "pipe_partition_method": "layers are dealt to stages as the framework's defaults do",
}
_SHARED_NAMES = {"RMSNorm": "rms_norm"}


def recognises(document: Document) -> bool:
    names = {name.replace("-", "_") for name in document.names}
    return document.form in ("yaml", "json") and len(names & _MARKS) >= 3


def read(document: Document, world_size: int | None) -> Launch:
    keys = Keys(document.entries, document.source)
    draft = Draft(framework="gpt-neox", keys=keys)
    _model(draft)
    tp = keys.whole("model_parallel_size", default=1)
    pp = keys.whole("pipe_parallel_size", default=0, least=0) or 1  # 0 and 1 both mean no pipeline
    draft.say(
        tp=tp, pp=pp, seq=draft.dims.get("seq"), ep=keys.whole("moe_expert_parallel_size", "expert_parallel_size")
    )
    if keys.switch("sequence_parallel", default=False) and tp > 1:
        draft.say(sequence_parallel=True)
    if "train_micro_batch_size_per_gpu" not in keys and "train_batch_size" not in keys:
        draft.assume("the file is one of several that GPT-NeoX merges: it says no batch")
    zero.batch(draft)
    if "precision" in keys:
        word = keys.word("precision")
        draft.say(precision={"bfloat16": "bf16", "fp16": "fp16", "fp32": "fp32"}.get(word or ""))
    if not zero.precision(draft) and "precision" not in draft.plan:
        draft.need("precision", "the file names none of fp16, bf16 and precision; GPT-NeoX then trains in fp32")
    zero.stage(draft)
    _recompute(draft)
    zero.optimizer(draft, "optimizer.type", "optimizer_type")
    _kernels(draft)
    keys.ignore([*_IGNORED, *zero.IGNORED])
    for name, why in _NOT_MODELLED.items():
        if name in keys and keys.entry(name).value:
            keys.note(name, why)
    keys.ignore(_NOT_MODELLED)
    return draft.finish(world_size)


def _model(draft: Draft) -> None:
    keys = draft.keys
    hidden, heads = keys.whole("hidden_size"), keys.whole("num_attention_heads")
    seq = keys.whole("seq_length", default=keys.whole("max_position_embeddings"))
    activation = keys.word("activation", default="gelu")
    is_gated = activation in ("swiglu", "geglu")
    positions = keys.word("pos_emb", default="learned")
    norm = keys.word("norm", default="layernorm")
    bias_attention = bool(keys.switch("use_bias_in_attn_linear", default=True))
    bias_mlp = bool(keys.switch("use_bias_in_mlp", default=not is_gated))
    is_rope = positions == "rotary"
    draft.architecture = "neox"
    draft.dims |= {
        "layers": keys.whole("num_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": keys.whole("num_kv_heads", default=heads),
        "ffn": _width(draft, hidden, is_gated),
        "vocab": keys.whole("padded_vocab_size", "vocab_size"),
        "seq": seq,
        "positions": seq if positions == "learned" else None,
        "rope": is_rope,
        "norm": "rms_norm" if norm in ("rmsnorm", "te_rmsnorm", "rms_norm") else "layer_norm",
        "activation": activation if activation in ("gelu", "geglu", "swiglu", "relu", "silu") else "gelu",
        "qkv_bias": bias_attention,
        "proj_bias": bias_attention,
        "mlp_bias": bias_mlp,
        "tied": not keys.switch("no_weight_tying", default=False),
        "parallel_residual": bool(keys.switch("gpt_j_residual", default=False)),
        "shared_norm": bool(keys.switch("gpt_j_tied", default=False)),
        "dropout": keys.real("hidden_dropout", default=0.0),
        "attention_dropout": keys.real("attention_dropout", default=0.0),
    }
    keys.raw("use_bias_in_norms")
    num = keys.whole("moe_num_experts", "num_experts", default=1)
    if num > 1:
        topk = keys.whole("moe_top_k", default=1)
        draft.dims["experts"] = {"num": num, "topk": topk, "ffn": draft.dims["ffn"]}
    for share in ("rotary_pct",):
        if 0 < float(keys.real(share, default=1.0)) < 1:
            draft.assume(f"{share}={keys.real(share)}: rotary embedding covers whole heads")


def _width(draft: Draft, hidden: int | None, is_gated: bool) -> int | None:
    """Width of the MLP.

    ``intermediate_size`` of a gated MLP is three times the width in GPT-NeoX
    since its MLPs were merged (gate, value and output share it), and the width
    itself before.  No version stands in the file; which one is meant shows in
    the size: SwiGLU's width is 2.5 to 4 times the hidden size.
    """
    keys = draft.keys
    multiple = keys.whole("mlp_multiple_of", default=1)
    size = keys.whole("intermediate_size")
    if size is None:
        if hidden is None:
            return None
        size = int(keys.real("expansion_factor", default=4) * hidden)
        if not is_gated:
            return size
        return -(-(size * 2 // 3 // 2) // multiple) * multiple if "mlp_multiple_of" in keys else size * 2 // 3
    if is_gated and hidden is not None and size > 6 * hidden:
        width = -(-(size // 3) // multiple) * multiple
        draft.assume(f"ffn={width}: intermediate_size={size} is three times the width of a gated MLP in GPT-NeoX")
        return width
    if is_gated:
        draft.assume(
            f"ffn={size}: intermediate_size is taken as the width; newer versions of GPT-NeoX would make a third of it"
        )
    return size


def _recompute(draft: Draft) -> None:
    keys = draft.keys
    is_on = keys.switch("checkpoint_activations", default=False)
    number = keys.whole("checkpoint_num_layers", default=1)
    draft.say(recompute="full" if is_on else "none")
    if is_on and number > 1:
        draft.assume(
            f"checkpoint_num_layers={number}: every layer keeps its input, where GPT-NeoX keeps that of each group"
        )


def _kernels(draft: Draft) -> None:
    keys = draft.keys
    for name, field in _FUSIONS.items():
        value = keys.switch(name)
        if value is not None:
            draft.kernels[field] = value
    kinds = str(keys.raw("attention_config", default=""))
    if "flash" in kinds:
        draft.say(attention="flash2")
    elif keys.switch("scaled_upper_triang_masked_softmax_fusion", default=False):
        draft.say(attention="fused_softmax")
    elif "scaled_upper_triang_masked_softmax_fusion" in keys:
        draft.say(attention="unfused")
    keys.raw("scaled_upper_triang_masked_softmax_fusion")
    draft.say(pad_vocab=keys.whole("make_vocab_size_divisible_by"))
