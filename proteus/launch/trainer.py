"""Hugging Face TrainingArguments, and LLaMA-Factory, Axolotl and ms-swift, which hand theirs on to it.

Names and defaults: huggingface/transformers ``training_args.py``;
hiyouga/LLaMA-Factory ``src/llamafactory/hparams``; axolotl-ai-cloud/axolotl
``docs/config-reference``; modelscope/ms-swift ``docs/source_en/Instruction/Command-line-parameters``.
"""

from __future__ import annotations

from proteus.launch import fsdp
from proteus.launch.document import Document
from proteus.launch.draft import Draft
from proteus.launch.keys import Keys
from proteus.launch.launch import Launch
from proteus.model import zoo

_BATCH = ("per_device_train_batch_size", "micro_batch_size")
_MODEL = ("model_name_or_path", "base_model", "model", "model_id_or_path")
_IGNORED = [
    "output_dir",
    "learning_rate",
    "num_train_epochs",
    "num_epochs",
    "max_steps",
    "warmup_ratio",
    "warmup_steps",
    "lr_scheduler_type",
    "lr_scheduler",
    "logging_steps",
    "logging_dir",
    "save_steps",
    "save_strategy",
    "save_total_limit",
    "saves_per_epoch",
    "evals_per_epoch",
    "eval_steps",
    "eval_strategy",
    "evaluation_strategy",
    "weight_decay",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "max_grad_norm",
    "seed",
    "report_to",
    "dataset",
    "template",
    "overwrite_cache",
    "overwrite_output_dir",
    "preprocessing_num_workers",
    "dataloader_num_workers",
    "plot_loss",
    "do_train",
    "do_eval",
    "do_predict",
    "stage",
    "val_size",
    "val_set_size",
    "wandb_project",
    "wandb_entity",
    "wandb_name",
    "wandb_run_id",
    "wandb_watch",
    "wandb_log_model",
    "hub_model_id",
    "special_tokens",
    "datasets",
    "dataset_prepared_path",
    "chat_template",
    "tokenizer_type",
    "model_type",
    "max_samples",
    "ddp_timeout",
    "resume_from_checkpoint",
    "trust_remote_code",
    "include_num_input_tokens_seen",
    "hf_hub_token",
    "lora_alpha",
    "train_on_inputs",
    "group_by_length",
    "strict",
    "early_stopping_patience",
    "local_rank",
    "remove_unused_columns",
    "push_to_hub",
    "save_only_model",
    "dataset_dir",
]
_MARKS = frozenset(
    {"gradient_accumulation_steps", "learning_rate", "num_train_epochs", "num_epochs", "gradient_checkpointing",
     "optim", "optimizer", "output_dir", "bf16", "fp16", "deepspeed", "fsdp", "warmup_ratio", "finetuning_type",
     "sequence_len"}
)  # fmt: skip


def recognises(document: Document) -> bool:
    names = {name.lstrip("-") for name in document.names}
    return any(name in names for name in _BATCH) and len(names & _MARKS) >= 2 and "num_layers" not in names


def read(document: Document, world_size: int | None) -> Launch:
    keys = Keys(document.entries, document.source)
    draft = Draft(framework="huggingface", keys=keys)
    draft.gpus_per_node = keys.whole("nproc_per_node", "num_gpus")
    draft.nodes = keys.whole("nnodes", "num_machines", default=1 if draft.gpus_per_node else None)
    _model(draft)
    draft.say(micro_batch=keys.whole(*_BATCH, default=8))
    draft.accumulation = keys.whole("gradient_accumulation_steps", default=1)
    is_on = keys.switch("gradient_checkpointing", "enable_gradient_checkpointing", default=False)
    draft.say(recompute="full" if is_on else "none")
    keys.ignore(["gradient_checkpointing_kwargs.*"])
    _numerics(draft)
    _sharding(draft)
    _adapters(draft)
    if keys.switch("torch_compile", default=False):
        draft.say(compile=True)
    cp = keys.whole("context_parallel_size", "sequence_parallel_degree", "sequence_parallel_size", default=1)
    draft.say(cp=cp, tp=keys.whole("tensor_parallel_size", default=1))
    flash = keys.raw("flash_attention", "flash_attn", "attn_impl", "attn_implementation")
    if flash is not None:
        word = str(flash).lower()
        if word in ("true", "fa2", "flash_attn", "flash_attention_2", "flash_attention"):
            draft.say(attention="flash2")
        elif word in ("eager", "disabled"):
            draft.say(attention="unfused")
    if keys.switch("packing", "sample_packing", "neat_packing", default=False):
        draft.assume("packed samples: attention spans the whole sequence")
    keys.ignore(_IGNORED)
    return draft.finish(world_size)


def _model(draft: Draft) -> None:
    keys = draft.keys
    name = keys.raw(*_MODEL)
    seq = keys.whole("cutoff_len", "sequence_len", "max_length", "max_seq_length", "model_max_length")
    draft.say(seq=seq)
    if name is None:
        return
    short = str(name).rstrip("/").rsplit("/", 1)[-1]
    plain = short
    for word in ("-Instruct", "-instruct", "-chat", "-Chat", "-hf", "-Base", "-base", "Meta-"):
        plain = plain.replace(word, "")
    known = zoo.meant(plain) or zoo.meant(plain.replace("3.1", "3"))
    if known is None:
        draft.need("model", f"{name!r} is no model of the zoo; give its config.json")
        return
    draft.assume(f"model={known}: {name!r} by its name")
    draft.model = zoo.load(known, **({"seq": seq} if seq else {}))
    draft.architecture = known
    draft.dims = {**zoo.fields(known), **({"seq": seq} if seq else {})}


def _numerics(draft: Draft) -> None:
    keys = draft.keys
    words = {str(keys.raw("torch_dtype", default="")).lower()}
    bf16 = str(keys.raw("bf16", default="false")).lower() in ("true", "auto") or "bfloat16" in words
    fp16 = str(keys.raw("fp16", default="false")).lower() == "true" or "float16" in words
    draft.say(
        precision="bf16" if bf16 else "fp16" if fp16 else "tf32" if keys.switch("tf32", default=False) else "fp32"
    )
    keys.raw("tf32")
    optim = keys.word("optim", "optimizer", default="adamw_torch")
    name = next((known for known in ("adamw", "adam", "sgd", "lamb") if optim.startswith(known)), None)
    if name is None or "8bit" in optim or "4bit" in optim:
        keys.note("optim" if "optim" in keys else "optimizer", f"{optim} is not modelled; adamw is taken")
    draft.say(optimizer=name or "adamw")


def _sharding(draft: Draft) -> None:
    keys = draft.keys
    deepspeed = keys.raw("deepspeed")
    words = keys.words("fsdp") if "fsdp" in keys and not keys.under("fsdp") else ()
    config = keys.under("fsdp_config")
    if deepspeed is not None:
        draft.framework = "deepspeed"
        text = str(deepspeed).lower()
        stage = next((n for n in (3, 2, 1, 0) if f"zero{n}" in text or f"z{n}" in text or f"stage{n}" in text), None)
        keys.note("deepspeed", "another file, which is not opened; read it too and join the two")
        if stage is None:
            draft.need("zero", f"the DeepSpeed JSON {deepspeed!r} says the stage; give it as well")
        else:
            draft.say(zero=stage)
            draft.assume(f"zero={stage}: by the name of {deepspeed!r}")
    elif words:
        draft.framework = "fsdp"
        kind = next((word for word in words if word in fsdp.STRATEGIES), "full_shard")
        draft.say(zero=fsdp.STRATEGIES[kind])
        if "offload" in words:
            draft.say(offload=("parameter", "gradient", "optimizer"))
    elif config:
        draft.framework = "fsdp"
        fsdp.sharding(draft, "fsdp_config.fsdp_sharding_strategy", "fsdp_config.sharding_strategy")
    else:
        draft.say(zero=0)
    if config:
        keys.ignore(["fsdp_config.*"])


def _adapters(draft: Draft) -> None:
    keys = draft.keys
    kind = keys.word("finetuning_type", "adapter", "train_type", "sft_type", "tuner_type", default="full")
    rank = keys.whole("lora_rank", "lora_r")
    if kind in ("lora", "qlora"):
        draft.say(lora=rank or 8)
        draft.say(lora_dropout=keys.real("lora_dropout"))
        if kind == "qlora" or keys.raw("quantization_bit") == 4 or keys.switch("load_in_4bit", default=False):
            draft.say(lora_base="nf4")
        targets = [n for n in ("lora_target", "lora_target_modules", "target_modules") if n in keys]
        for name in targets:
            if keys.raw(name) not in ("all", "all-linear"):
                keys.note(name, "adapters are beside all GEMMs of the layers")
        if keys.switch("lora_target_linear", default=False):
            keys.raw("lora_target_linear")
    elif kind == "freeze":
        keys.note("finetuning_type", "which layers are frozen is not read")
