"""accelerate's YAML: FSDP 1 and 2, DeepSpeed and Megatron plug-ins.

Names and defaults: huggingface/accelerate ``commands/config/config_args.py``,
``commands/launch.py`` and ``utils/dataclasses.py``.
"""

from __future__ import annotations

from proteus.launch import fsdp
from proteus.launch.document import Document
from proteus.launch.draft import Draft
from proteus.launch.keys import Keys
from proteus.launch.launch import Launch

_KINDS = ("fsdp", "deepspeed", "megatron_lm", "multi_gpu", "no", "multi_cpu", "tpu", "multi_xpu")
_IGNORED = [
    "compute_environment",
    "debug",
    "downcast_bf16",
    "enable_cpu_affinity",
    "machine_rank",
    "main_training_function",
    "main_process_ip",
    "main_process_port",
    "rdzv_backend",
    "same_network",
    "tpu_env",
    "tpu_use_cluster",
    "tpu_use_sudo",
    "use_cpu",
    "gpu_ids",
    "deepspeed_config.zero3_save_16bit_model",
    "deepspeed_config.deepspeed_multinode_launcher",
    "deepspeed_config.zero3_init_flag",
    "deepspeed_config.gradient_clipping",
    "fsdp_config.fsdp_cpu_ram_efficient_loading",
    "fsdp_config.fsdp_state_dict_type",
    "fsdp_config.fsdp_sync_module_states",
    "fsdp_config.fsdp_transformer_layer_cls_to_wrap",
    "fsdp_config.fsdp_use_orig_params",
    "fsdp_config.fsdp_auto_wrap_policy",
    "megatron_lm_config.megatron_lm_gradient_clipping",
]


def recognises(document: Document) -> bool:
    return "distributed_type" in document.names and (
        "num_processes" in document.names or "compute_environment" in document.names
    )


def read(document: Document, world_size: int | None) -> Launch:
    keys = Keys(document.entries, document.source)
    draft = Draft(framework="accelerate", keys=keys)
    kind = keys.raw("distributed_type")
    word = "no" if kind is False else str(kind).lower()  # YAML reads an unquoted NO as false
    if word not in _KINDS:
        raise keys.error("distributed_type", f"it must be one of {', '.join(_KINDS)}")
    draft.nodes = keys.whole("num_machines", default=1)
    draft.world_size = keys.whole("num_processes")
    if draft.world_size is not None and draft.world_size % draft.nodes == 0:
        draft.gpus_per_node = draft.world_size // draft.nodes
    _precision(draft)
    if word == "fsdp":
        _fsdp(draft)
    elif word == "deepspeed":
        _deepspeed(draft)
    elif word == "megatron_lm":
        _megatron(draft)
    else:
        draft.framework = "ddp"
        draft.say(zero=0)
        if word == "no":
            draft.world_size = draft.world_size or 1
    if keys.raw("dynamo_config.dynamo_backend", "dynamo_backend") not in (None, "no", "NO", False):
        draft.say(compile=True)
    if "micro_batch" not in draft.plan:
        draft.need("micro_batch", "accelerate's file says how processes run; the training script says the batch")
    if draft.accumulation is None:
        draft.need("global_batch", "the training script says the batch")
    keys.ignore(_IGNORED)
    return draft.finish(world_size)


def _precision(draft: Draft) -> None:
    value = draft.keys.raw("mixed_precision")
    word = "no" if value in (None, False) else str(value).lower()
    known = {"no": "fp32", "bf16": "bf16", "fp16": "fp16", "fp8": "fp8"}
    if word not in known:
        raise draft.keys.error("mixed_precision", f"it must be one of {', '.join(known)}")
    draft.say(precision=known[word])


def _fsdp(draft: Draft) -> None:
    keys, at = draft.keys, "fsdp_config"
    if keys.whole(f"{at}.fsdp_version", default=1) == 2:
        draft.framework = "fsdp2"
        reshards = keys.raw(f"{at}.fsdp_reshard_after_forward", default=True)
        zero_stage = 2 if str(reshards).lower() in ("false", "shard_grad_op", "0") else 3
        draft.say(zero=zero_stage)
    else:
        draft.framework = "fsdp"
        fsdp.sharding(draft, f"{at}.fsdp_sharding_strategy", f"{at}.fsdp_reshard_after_forward")
    if keys.switch(f"{at}.fsdp_offload_params", default=False):
        draft.say(offload=("parameter", "gradient", "optimizer"))
    draft.say(recompute="full" if keys.switch(f"{at}.fsdp_activation_checkpointing", default=False) else None)
    prefetch = keys.raw(f"{at}.fsdp_backward_prefetch", f"{at}.fsdp_backward_prefetch_policy")
    if prefetch is not None:
        draft.kernels["prefetches_backward"] = str(prefetch).upper() in ("BACKWARD_PRE", "1")
    if keys.switch(f"{at}.fsdp_forward_prefetch", default=False):
        keys.note(f"{at}.fsdp_forward_prefetch", "forward prefetch is as the framework's defaults")
    if keys.raw(f"{at}.fsdp_auto_wrap_policy") in ("NO_WRAP", "SIZE_BASED_WRAP"):
        keys.note(f"{at}.fsdp_auto_wrap_policy", "every layer is a unit")


def _deepspeed(draft: Draft) -> None:
    keys, at = draft.keys, "deepspeed_config"
    draft.framework = "deepspeed"
    if keys.raw(f"{at}.deepspeed_config_file") is not None:
        keys.note(f"{at}.deepspeed_config_file", "another file, which is not opened; read it too and join the two")
        draft.need("deepspeed_config", "the DeepSpeed JSON that deepspeed_config_file names; give it as well")
    else:
        stage = keys.whole(f"{at}.zero_stage", default=2, least=0)
        draft.say(zero=stage, overlap_gradients=stage == 3)
    draft.accumulation = keys.whole(f"{at}.gradient_accumulation_steps")
    roles = [
        role
        for role, key in (("optimizer", "offload_optimizer_device"), ("parameter", "offload_param_device"))
        if keys.word(f"{at}.{key}", default="none") in ("cpu", "nvme")
    ]
    draft.say(offload=tuple(roles) or None)


def _megatron(draft: Draft) -> None:
    keys, at = draft.keys, "megatron_lm_config"
    draft.framework = "megatron-core"
    draft.say(
        tp=keys.whole(f"{at}.megatron_lm_tp_degree", default=1),
        pp=keys.whole(f"{at}.megatron_lm_pp_degree", default=1),
        zero=1 if keys.switch(f"{at}.megatron_lm_use_distributed_optimizer", default=False) else 0,
        recompute="selective" if keys.switch(f"{at}.megatron_lm_recompute_activations", default=False) else None,
    )
    sp = keys.switch(f"{at}.megatron_lm_sequence_parallelism", default=False)
    draft.say(sequence_parallel=sp and draft.degree("tp") > 1)
    if draft.degree("pp") > 1 and (count := keys.whole(f"{at}.megatron_lm_num_micro_batches")) is not None:
        draft.accumulation = count
