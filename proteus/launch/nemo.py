"""NeMo 1 YAML, and YAML of NeMo 2 and Megatron-Bridge recipes.

Names: NVIDIA/NeMo ``examples/nlp/language_modeling/conf/megatron_gpt_config.yaml`` (NeMo 1) and
NVIDIA-NeMo/Megatron-Bridge ``src/megatron/bridge/training/config.py``.  The
model's keys are Megatron's own; Hydra's ``${...}`` is resolved where it names
another key of the file, or multiplies and divides whole numbers.
"""

from __future__ import annotations

import re
from dataclasses import replace

from proteus.launch import megatron
from proteus.launch.document import Document
from proteus.launch.draft import Draft
from proteus.launch.keys import Entry, Keys
from proteus.launch.launch import Launch

_MODEL_MARKS = ("tensor_model_parallel_size", "num_layers", "micro_batch_size", "pipeline_model_parallel_size")
#: prefixes of nested keys whose last name is Megatron's
_FLAT = (
    "model.optim.", "model.", "train.", "ddp.", "optimizer.", "dataset.", "comm_overlap.", "mixed_precision.",
    "trainer.strategy.ddp.", "trainer.strategy.", "trainer.plugins.", "data.", "optim.config.", "log.",
)  # fmt: skip
_RENAMED = {
    "precision": "trainer_precision", "trainer.precision": "trainer_precision", "sequence_length": "seq_length",
    "transformer_engine": "uses_transformer_engine",
    "share_embeddings_and_output_weights": "share_embeddings_and_output_weights",
    "tp_comm_overlap": "tp_comm_overlap", "gated_linear_unit": "gated_linear_unit", "bias": "bias",
}  # fmt: skip
_IGNORED = (
    "exp_manager.*", "run.*", "hydra.*", "model.data.*", "model.tokenizer.*", "trainer.max_steps", "trainer.max_epochs",
    "trainer.log_every_n_steps", "trainer.val_check_interval", "trainer.limit_val_batches",
    "trainer.limit_test_batches",
    "trainer.enable_checkpointing", "trainer.logger", "trainer.accelerator", "trainer.gradient_clip_val",
    "trainer.benchmark", "trainer.use_distributed_sampler", "trainer.max_time", "trainer.enable_model_summary",
    "trainer.accumulate_grad_batches", "trainer.enable_progress_bar", "trainer.strategy", "name", "restore_from_path",
    "layernorm_epsilon", "init_method_std", "lr", "betas", "weight_decay", "checkpoint.*", "scheduler.*", "logger.*",
    "tokenizer.*", "rng.*", "dist.*", "rotary_percentage", "rotary_base", "sched.name", "sched.warmup_steps",
    "sched.constant_steps", "sched.min_lr", "nsys_profile.*", "resume_from_checkpoint", "fp8_amax_history_len",
    "fp8_margin", "fp8_interval", "fp8_amax_compute_algo", "seed", "grad_clip", "eval_interval", "eval_iters",
)  # fmt: skip


def recognises(document: Document) -> bool:
    model = document.section("model")
    beside = document.names & {"trainer", "train", "exp_manager", "ddp", "optimizer", "dataset"}
    return bool(beside) and sum(mark in model for mark in _MODEL_MARKS) >= 1 and "parallelism" not in document.names


def read(document: Document, world_size: int | None) -> Launch:
    entries = _resolved(document)
    keys = Keys(entries, document.source, named=_name)
    is_bridge = bool(document.names & {"train", "ddp"})
    draft = Draft(framework="megatron-bridge" if is_bridge else "nemo", keys=keys)
    for name in list(keys):
        text = str(keys.entry(name).value)
        if "${" in text:
            keys.drop(name, "an interpolation that the file does not resolve")
    draft.gpus_per_node = keys.whole("trainer.devices", "trainer.num_gpus_per_node", default=None)
    draft.nodes = keys.whole("trainer.num_nodes", default=None)
    if keys.switch("gated_linear_unit", default=False) and "swiglu" not in keys and "activation" not in keys:
        draft.assume("gated_linear_unit=true: taken as SwiGLU")
        draft.dims["activation"] = "swiglu"
    gated = draft.dims.pop("activation", None)
    megatron.model(draft)
    if gated and draft.dims:
        draft.dims["activation"] = gated
    megatron.plan(draft)
    _precision(draft)
    _optimizer(draft)
    draft.assumed = [sentence for sentence in draft.assumed if "neither --bf16" not in sentence]
    keys.ignore([*megatron.IGNORED, *_IGNORED])
    return draft.finish(world_size)


def _name(key: str) -> str:
    for prefix in _FLAT:
        if key.startswith(prefix):
            rest = key[len(prefix) :]
            if "." not in rest or rest.startswith("sched."):
                return _RENAMED.get(rest, rest) if prefix != "model.optim." or rest != "name" else "optim.name"
    return _RENAMED.get(key, key)


def _precision(draft: Draft) -> None:
    keys = draft.keys
    text = str(keys.raw("trainer_precision", "mixed_precision", default="")).lower().replace("_", "-")
    if "fp8" in text:
        draft.say(precision="fp8")
    elif draft.plan.get("precision") in ("fp8", "nvfp4"):
        return
    elif text.startswith("bf16"):
        draft.say(precision="bf16")
    elif text.startswith(("16", "fp16")):
        draft.say(precision="fp16")
    elif text.startswith("32"):
        draft.say(precision="fp32")
    elif not text:
        draft.plan.pop("precision", None)
    if keys.switch("megatron_amp_o2", default=None) is False:
        keys.note("megatron_amp_o2", "the fp32 master copy is kept either way")


def _optimizer(draft: Draft) -> None:
    keys = draft.keys
    name = keys.word("optim.name")
    if name is None:
        return
    draft.say(optimizer="adam")
    if name == "distributed_fused_adam":
        draft.say(zero=1)
        draft.say(overlap_gradients=keys.switch("overlap_grad_sync", default=True))
        draft.say(overlap_parameters=keys.switch("overlap_param_sync", default=False))
    elif name == "mcore_distributed_optim":
        draft.say(zero=1)
        draft.say(overlap_gradients=keys.switch("overlap_grad_sync", "overlap_grad_reduce", default=False))
        draft.say(
            overlap_parameters=keys.switch(
                "overlap_param_gather_with_optimizer_step", "overlap_param_sync", default=False
            )
        )


_REFERENCE = re.compile(r"\$\{([^${}]+)\}")
#: resolvers of NeMo's recipes over whole numbers
_RESOLVERS = {
    "multiply": lambda a, b: a * b,
    "divide_ceil": lambda a, b: -(-a // b),
    "divide_floor": lambda a, b: a // b,
}
#: how often an interpolation may lead to another one
_MAX_ROUNDS = 8


def _resolved(document: Document) -> tuple[Entry, ...]:
    """Entries with ``${a.b}``, ``${.b}`` and ``${multiply:2,3}`` filled in."""
    values = {entry.key: entry.value for entry in document.entries}

    def fill(key: str, text: str) -> object:
        whole = _REFERENCE.fullmatch(text)
        if whole and (found := _value(key, whole[1], values)) is not None:
            return found
        return _REFERENCE.sub(
            lambda match: str(found) if (found := _value(key, match[1], values)) is not None else match[0], text
        )

    for _ in range(_MAX_ROUNDS):
        changed = {
            key: new
            for key, value in values.items()
            if isinstance(value, str) and "${" in value and len(value) < 500 and (new := fill(key, value)) != value
        }
        if not changed:
            break
        values |= changed
    return tuple(replace(entry, value=values[entry.key]) for entry in document.entries)


def _value(key: str, inside: str, values: dict[str, object]) -> object:
    if ":" in inside:
        name, _, rest = inside.partition(":")
        numbers = [int(part) for part in rest.split(",") if part.strip().isdecimal() and len(part) < 12]
        if name in _RESOLVERS and len(numbers) == 2 and (numbers[1] or name == "multiply"):
            return _RESOLVERS[name](*numbers)
        return None
    if inside.startswith("."):
        above = key.split(".")[: -len(inside) + len(inside.lstrip("."))]
        inside = ".".join([*above, inside.lstrip(".")])
    value = values.get(inside)
    return None if value == values.get(key) and isinstance(value, str) and "${" in value else value
