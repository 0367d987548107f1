"""DeepSpeed's own JSON, which GPT-NeoX, accelerate and the Trainer embed.

Names and defaults: microsoft/DeepSpeed ``deepspeed/runtime/zero/config.py``,
``deepspeed/runtime/constants.py`` and the page "DeepSpeed Configuration JSON".
"""

from __future__ import annotations

from proteus.launch.draft import Draft

AUTO = "auto"
#: bytes of a gradient in the model's dtype, by which buckets in elements become bytes
_GRADIENT_BYTES = {"fp32": 4, "tf32": 4}
IGNORED = (
    "optimizer.params.*", "scheduler.*", "gradient_clipping", "steps_per_print", "wall_clock_breakdown",
    "prescale_gradients", "zero_allow_untrusted_optimizer", "zero_force_ds_cpu_optimizer", "dump_state",
    "flops_profiler.*", "tensorboard.*", "wandb.*", "csv_monitor.*", "comms_logger.*", "monitor_config.*",
    "fp16.loss_scale", "fp16.loss_scale_window", "fp16.initial_scale_power", "fp16.hysteresis", "fp16.min_loss_scale",
    "fp16.auto_cast", "fp16.fp16", "fp16.consecutive_hysteresis", "zero_optimization.contiguous_gradients",
    "zero_optimization.allgather_partitions", "zero_optimization.reduce_scatter",
    "zero_optimization.round_robin_gradients",
    "zero_optimization.stage3_gather_16bit_weights_on_model_save",
    "zero_optimization.stage3_gather_fp16_weights_on_model_save", "zero_optimization.ignore_unused_parameters",
    "zero_optimization.offload_optimizer.pin_memory", "zero_optimization.offload_param.pin_memory",
    "zero_optimization.elastic_checkpoint", "zero_optimization.load_from_fp32_weights", "data_types.*",
    "activation_checkpointing.profile", "activation_checkpointing.synchronize_checkpoint_boundary",
    "activation_checkpointing.contiguous_memory_optimization", "checkpoint.*", "aio.*", "elasticity.*",
)  # fmt: skip
_NOT_MODELLED = {
    "zero_optimization.sub_group_size": "the optimizer step is not cut into groups",
    "zero_optimization.stage3_max_live_parameters": "the limit on gathered parameters is not modelled",
    "zero_optimization.stage3_max_reuse_distance": "the limit on gathered parameters is not modelled",
    "zero_optimization.stage3_prefetch_bucket_size": "parameters are prefetched as the framework's defaults do",
    "zero_optimization.stage3_param_persistence_threshold": "small parameters are gathered too",
    "zero_optimization.allgather_bucket_size": "updated parameters are gathered at once",
    "zero_optimization.zero_quantized_weights": "quantised collectives (ZeRO++) are not modelled",
    "zero_optimization.zero_quantized_gradients": "quantised collectives (ZeRO++) are not modelled",
    "zero_optimization.offload_optimizer.buffer_count": "offload buffers are not modelled",
    "zero_optimization.offload_param.buffer_count": "offload buffers are not modelled",
    "zero_optimization.offload_param.buffer_size": "offload buffers are not modelled",
    "zero_optimization.offload_param.max_in_cpu": "offload buffers are not modelled",
    "activation_checkpointing.cpu_checkpointing": "checkpoints stay on the device",
    "activation_checkpointing.partition_activations": "checkpoints are kept whole on every tensor rank",
}


def stage(draft: Draft, *, default: int = 0) -> int:
    """ZeRO: stage, overlap, buckets and offload."""
    keys, at = draft.keys, "zero_optimization"
    number = keys.whole(f"{at}.stage", default=default, least=0)
    draft.say(zero=number)
    overlap = keys.raw(f"{at}.overlap_comm")
    # zero/config.py: off unless given, but for stage 3
    draft.say(overlap_gradients=number == 3 if overlap in (None, AUTO) else keys.switch(f"{at}.overlap_comm"))
    bucket = keys.raw(f"{at}.reduce_bucket_size")
    if bucket == AUTO:
        keys.note(
            f"{at}.reduce_bucket_size", "auto: the launcher sets it to hidden × hidden; DeepSpeed's default is taken"
        )
    elif bucket is not None and number:
        wide = _GRADIENT_BYTES.get(str(draft.plan.get("precision")), 2)
        draft.say(bucket_bytes=float(keys.real(f"{at}.reduce_bucket_size")) * wide)
    _offload(draft)
    groups = keys.whole(f"{at}.mics_shard_size", f"{at}.zero_hpz_partition_size", default=-1, least=-1)
    if groups > 1:
        if f"{at}.mics_shard_size" in keys and number == 3:
            draft.say(shard=groups)
        else:
            keys.note(f"{at}.zero_hpz_partition_size", "the second copy of the parameters (ZeRO++) is not modelled")
    for name, why in _NOT_MODELLED.items():
        if name in keys:
            keys.note(name, why)
    return int(number)


def _offload(draft: Draft) -> None:
    keys, at = draft.keys, "zero_optimization"
    roles = []
    for role, key in (("optimizer", "offload_optimizer"), ("parameter", "offload_param")):
        device = keys.word(f"{at}.{key}.device", default="none")
        if key == "offload_optimizer" and keys.switch(f"{at}.cpu_offload", default=False):
            device = "cpu"
        if device == "nvme":
            keys.note(f"{at}.{key}.device", "NVMe is taken as host memory")
        if device in ("cpu", "nvme"):
            roles.append(role)
        elif device not in ("none", AUTO):
            raise keys.error(f"{at}.{key}.device", "it must be cpu, nvme or none")
    if "optimizer" in roles and "parameter" in roles:
        roles = ["optimizer", "parameter"]
    draft.say(offload=tuple(roles) or None)


def precision(draft: Draft) -> bool:
    """bf16 and fp16; False where neither is said, or left to the launcher."""
    keys = draft.keys
    for name in ("bf16", "fp16", "bfloat16"):
        at = f"{name}.enabled"
        value = keys.raw(at)
        if value == AUTO:
            draft.need("precision", f'{name}.enabled is "auto": the launcher says it')
            return False
        if value is not None and keys.switch(at):
            draft.say(precision="fp16" if name == "fp16" else "bf16")
            return True
        if name in keys and isinstance(keys.entry(name).value, bool) and keys.switch(name):
            draft.say(precision="fp16" if name == "fp16" else "bf16")
            return True
    return False


def optimizer(draft: Draft, *names: str) -> None:
    """Adam, AdamW, LAMB and SGD; other optimizers are said to be taken as Adam."""
    keys = draft.keys
    kind = keys.word(*names)
    if kind is None:
        return
    known = {"adam": "adam", "adamw": "adamw", "lamb": "lamb", "sgd": "sgd", "fusedadam": "adam", "cpu_adam": "adam"}
    plain = kind.replace("torch_", "").replace("adamw_torch_fused", "adamw").replace("adamw_torch", "adamw")
    for begin, name in known.items():
        if plain == begin or (begin == "adamw" and plain.startswith("adamw")):
            draft.say(optimizer=name)
    if "optimizer" not in draft.plan:
        keys.note(next(n for n in names if n in keys), f"{kind} is not modelled; adam is taken")
        draft.say(optimizer="adam")


def batch(draft: Draft) -> None:
    """train_batch = micro-batch × accumulation × data-parallel ranks: two of the three say the third."""
    keys = draft.keys
    values = {}
    for name in ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"):
        raw = keys.raw(name)
        if raw == AUTO:
            draft.need(_FIELDS[name], f'{name} is "auto": the launcher says it')
        values[name] = None if raw == AUTO else keys.whole(name)
    total, micro, count = values.values()
    draft.say(micro_batch=micro, global_batch=total)
    draft.accumulation = count
    if micro is None and "train_micro_batch_size_per_gpu" not in keys:
        draft.need("micro_batch", "train_micro_batch_size_per_gpu is not in the file")
    if micro is not None and total is None and count is None and "gradient_accumulation_steps" not in keys:
        draft.accumulation = 1
        draft.assume("gradient_accumulation_steps=1: DeepSpeed's default")


_FIELDS = {
    "train_batch_size": "global_batch",
    "train_micro_batch_size_per_gpu": "micro_batch",
    "gradient_accumulation_steps": "global_batch",
}
