"""torchtune YAML.  Names: meta-pytorch/torchtune ``recipes/configs`` and ``recipes/full_finetune_distributed.py``."""

from __future__ import annotations

from proteus.launch.document import Document
from proteus.launch.draft import Draft
from proteus.launch.keys import Keys
from proteus.launch.launch import Launch
from proteus.model import zoo

_IGNORED = (
    "tokenizer.*", "checkpointer.*", "dataset.*", "loss.*", "metric_logger.*", "profiler.*", "lr_scheduler.*",
    "optimizer.lr", "output_dir", "seed", "shuffle", "epochs", "max_steps_per_epoch", "log_every_n_steps",
    "log_peak_memory_stats", "resume_from_checkpoint", "device", "clip_grad_norm", "log_level", "model.lora_alpha",
    "save_adapter_weights_only", "optimizer.weight_decay",
)  # fmt: skip


def recognises(document: Document) -> bool:
    return str(document.section("model").get("_component_", "")).startswith("torchtune.")


def read(document: Document, world_size: int | None) -> Launch:
    keys = Keys(document.entries, document.source)
    draft = Draft(framework="torchtune", keys=keys)
    component = str(keys.raw("model._component_")).rsplit(".", 1)[-1]
    is_lora = component.startswith(("lora_", "qlora_"))
    name = component.removeprefix("qlora_").removeprefix("lora_").replace("_", "-").replace("llama3-1", "llama3")
    seq = keys.whole("tokenizer.max_seq_len")
    known = zoo.meant(name) or zoo.meant(name.replace("llama3-2", "llama3.2"))
    if known is None:
        draft.need("model", f"{component} is no model of the zoo; give its config.json")
    else:
        draft.architecture = known
        draft.dims = {**zoo.fields(known), **({"seq": seq} if seq else {})}
        draft.model = zoo.load(known, **({"seq": seq} if seq else {}))
    if seq is None:
        draft.need("seq", "tokenizer.max_seq_len is empty: samples have their own lengths")
    draft.say(seq=seq, micro_batch=keys.whole("batch_size", default=1))
    draft.accumulation = keys.whole("gradient_accumulation_steps", default=1)
    draft.say(recompute="full" if keys.switch("enable_activation_checkpointing", default=False) else "none")
    if keys.switch("enable_activation_offloading", default=False):
        draft.say(offload=("activation",))
    if keys.switch("fsdp_cpu_offload", default=False):
        draft.say(offload=("parameter", "gradient", "optimizer"))
    draft.say(
        precision={"bf16": "bf16", "fp16": "fp16", "fp32": "fp32"}[
            keys.word("dtype", default="bf16", known=("bf16", "fp16", "fp32"))
        ],
        compile=bool(keys.switch("compile", default=False)),
        tp=keys.whole("tensor_parallel_dim", default=1),
        cp=keys.whole("context_parallel_dim", default=1),
        zero=3,
    )
    copies = keys.whole("data_parallel_replicate_dim", default=1)
    shards = keys.whole("data_parallel_shard_dim", default=-1, least=-1)
    draft.optimizer_copies = copies
    if shards > 0:
        draft.dp = copies * shards
    optimizer = str(keys.raw("optimizer._component_", default="adamw")).rsplit(".", 1)[-1].lower()
    draft.say(optimizer="adamw" if "adamw" in optimizer else "adam" if "adam" in optimizer else "sgd")
    if "8bit" in optimizer:
        keys.note("optimizer._component_", "moments in 8 bits are not modelled")
    if keys.switch("optimizer.fused", default=False):
        draft.kernels["optimizer_kernels"] = "fused"
    if is_lora:
        draft.say(lora=keys.whole("model.lora_rank", default=8), lora_dropout=keys.real("model.lora_dropout"))
        if component.startswith("qlora_") or keys.switch("model.quantize_base", default=False):
            draft.say(lora_base="nf4")
        for key in ("model.lora_attn_modules", "model.apply_lora_to_mlp", "model.apply_lora_to_output"):
            if key in keys:
                keys.note(key, "adapters are beside all GEMMs of the layers")
    keys.ignore(_IGNORED)
    return draft.finish(world_size)
