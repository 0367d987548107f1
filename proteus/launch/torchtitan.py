"""torchtitan TOML.

Names and defaults: pytorch/torchtitan ``torchtitan/config/job_config.py``;
sizes of its flavors: ``torchtitan/models/*/__init__.py``, which are those of
the published models.
"""

from __future__ import annotations

from proteus.launch.document import Document
from proteus.launch.draft import Draft
from proteus.launch.keys import Keys
from proteus.launch.launch import Launch
from proteus.model import zoo

#: model and flavor → model of the zoo
FLAVORS = {
    ("llama3", "8b"): "llama3-8b", ("llama3", "70b"): "llama3-70b", ("llama3", "405b"): "llama3-405b",
    ("llama3", "1b"): "llama3.2-1b", ("llama3", "3b"): "llama3.2-3b",
    ("deepseek_v3", "16b"): "deepseek-v2-lite", ("deepseek_v3", "236b"): "deepseek-v2",
    ("deepseek_v3", "671b"): "deepseek-v3", ("llama4", "17bx16e"): "llama4-scout",
    ("qwen3", "8b"): "qwen3-8b", ("qwen3", "30b-a3b"): "qwen3-30b-a3b", ("qwen3", "235b-a22b"): "qwen3-235b-a22b",
}  # fmt: skip
_SECTIONS = frozenset({"parallelism", "training", "activation_checkpoint", "experimental", "model", "job", "compile"})
_SCHEDULES = {
    "1f1b": "1f1b", "gpipe": "gpipe", "interleaved1f1b": "interleaved", "zbvzerobubble": "zb-v",
    "dualpipev": "dualpipe",
}  # fmt: skip
_IGNORED = (
    "job.*", "metrics.*", "profiling.*", "lr_scheduler.*", "checkpoint.*", "comm.*", "fault_tolerance.*", "debug.*",
    "validation.*", "memory_estimation.*", "model.hf_assets_path", "model.tokenizer_path", "model.tokenizer_type",
    "model.norm_type", "optimizer.lr", "optimizer.eps", "optimizer.beta1", "optimizer.beta2", "optimizer.weight_decay",
    "training.steps", "training.dataset", "training.dataset_path", "training.max_norm", "training.warmup_steps",
    "training.gc_freq", "training.seed", "training.deterministic", "training.data_parallel_degree", "float8.emulate",
    "float8.filter_fqns", "quantize.*",
)  # fmt: skip


def recognises(document: Document) -> bool:
    if len(document.names & _SECTIONS) < 3:
        return False
    keys = (
        set(document.section("parallelism")) | set(document.section("training")) | set(document.section("experimental"))
    )
    return any(str(key).endswith("_parallel_degree") or str(key).startswith("data_parallel_") for key in keys) or (
        "flavor" in document.section("model")
    )


def read(document: Document, world_size: int | None) -> Launch:
    return from_keys(Draft(framework="torchtitan", keys=Keys(document.entries, document.source)), world_size)


def from_keys(draft: Draft, world_size: int | None) -> Launch:
    """The launch of keys such as ``parallelism.tensor_parallel_degree``."""
    keys = draft.keys
    _model(draft)
    _degrees(draft)
    draft.say(seq=keys.whole("training.seq_len", default=2048))
    draft.say(micro_batch=keys.whole("training.local_batch_size", "training.batch_size", default=8))
    total = keys.whole("training.global_batch_size", default=-1, least=-1)
    draft.say(global_batch=total if total > 0 else None)
    draft.per_rank_batch = True  # job_config.py: global_batch_size -1 is local_batch_size × data-parallel ranks
    _pipeline(draft)
    _recompute(draft)
    _numerics(draft)
    if keys.switch("optimizer.early_step_in_backward", default=False):
        keys.note("optimizer.early_step_in_backward", "the optimizer runs after the backward pass")
    keys.raw("parallelism.disable_loss_parallel")
    if keys.switch("training.enable_cpu_offload", default=False):
        draft.say(offload=("parameter", "gradient", "optimizer"))
    keys.ignore(_IGNORED)
    return draft.finish(world_size)


def _model(draft: Draft) -> None:
    keys = draft.keys
    name, flavor = keys.word("model.name"), keys.word("model.flavor")
    known = FLAVORS.get((name or "", flavor or ""))
    if name is None or flavor is None:
        return
    if known is None:
        keys.note("model.flavor", "a flavor whose sizes are not known")
        draft.need("model", f"flavor {flavor!r} of {name!r} is not among those known; give the model")
        return
    seq = keys.whole("training.seq_len", default=2048)
    draft.architecture = known
    draft.dims = {**zoo.fields(known), "seq": seq}
    draft.model = zoo.load(known, seq=seq)


def _degrees(draft: Draft) -> None:
    keys = draft.keys

    def degree(name: str, *more: str, default: int = 1) -> int:
        return int(
            keys.whole(
                f"parallelism.{name}", f"training.{name}", f"experimental.{name}", *more, default=default, least=-1
            )
        )

    tp, pp, cp = degree("tensor_parallel_degree"), degree("pipeline_parallel_degree"), degree("context_parallel_degree")
    for name, value in (
        ("tensor_parallel_degree", tp),
        ("pipeline_parallel_degree", pp),
        ("context_parallel_degree", cp),
    ):
        if value < 1:
            draft.need(name, "a degree below 1 means nothing here")
    tp, pp, cp = max(tp, 1), max(pp, 1), max(cp, 1)
    copies = max(1, degree("data_parallel_replicate_degree"))
    shards = degree("data_parallel_shard_degree", default=-1)
    draft.say(tp=tp, pp=pp, cp=cp, ep=max(1, degree("expert_parallel_degree")))
    if (etp := degree("expert_tensor_parallel_degree", default=0)) and draft.degree("ep") > 1:
        draft.say(etp=etp)
    draft.say(sequence_parallel=tp > 1)
    if shards > 0:
        draft.dp = copies * shards
    # shards -1 and 1: fully sharded over what is left, or not at all
    is_plain = shards == 1
    draft.say(zero=0 if is_plain and cp == 1 else 3)
    if not is_plain and copies > 1:
        draft.optimizer_copies = copies
    reshards = keys.word(
        "parallelism.fsdp_reshard_after_forward", default="default", known=("default", "always", "never")
    )
    if draft.plan["zero"] == 3 and (reshards == "never" or (reshards == "default" and pp > 1)):
        draft.say(zero=2)  # job_config.py: with pipeline parallelism parameters stay gathered after the forward
        if reshards == "default":
            draft.assume("zero=2: torchtitan keeps parameters gathered between micro-batches of a pipeline")
    if cp > 1:
        way = keys.word(
            "parallelism.context_parallel_rotate_method",
            "experimental.context_parallel_rotate_method",
            default="allgather",
        )
        # alltoall passes keys and values round a ring by all-to-all calls
        draft.say(context="all_gather" if way == "allgather" else "ring")
    is_async = keys.switch(
        "parallelism.enable_async_tensor_parallel", "experimental.enable_async_tensor_parallel", default=False
    )
    if is_async and tp > 1:
        draft.say(overlap_tensor="forward")


def _pipeline(draft: Draft) -> None:
    keys = draft.keys
    schedule = keys.word(
        "parallelism.pipeline_parallel_schedule", "experimental.pipeline_parallel_schedule", default="1f1b"
    )
    micro = keys.whole("parallelism.pipeline_parallel_microbatch_size", default=1)
    each = keys.whole("parallelism.pipeline_parallel_layers_per_stage")
    count = keys.whole("experimental.pipeline_parallel_microbatches")
    if draft.degree("pp") == 1:
        return
    if schedule in _SCHEDULES:
        draft.say(schedule=_SCHEDULES[schedule])
    else:
        keys.note("parallelism.pipeline_parallel_schedule", f"{schedule} is not modelled; 1f1b is taken")
    # the local batch of a rank is cut into micro-batches of this size
    local = draft.plan["micro_batch"]
    micro = local // count if count and local % count == 0 else micro
    draft.accumulation = max(1, local // micro)
    draft.say(micro_batch=micro)
    layers = draft.dims.get("layers")
    if each is not None and layers is not None and draft.plan.get("schedule") == "interleaved":
        chunks = -(-int(layers) // (each * draft.degree("pp")))
        if chunks > 1:
            draft.say(virtual_stages=chunks)


def _recompute(draft: Draft) -> None:
    keys = draft.keys
    mode = keys.word(
        "activation_checkpoint.mode", default="selective", known=("none", "selective", "full", "memory_budget")
    )
    option = keys.word("activation_checkpoint.selective_ac_option", default="2")
    if mode in ("none", "full"):
        draft.say(recompute=mode)
    elif mode == "memory_budget":
        draft.say(recompute="op")
        keys.note("activation_checkpoint.mode", "a memory budget is taken as the per-op policy")
    elif option == "op":
        draft.say(recompute="op")
    else:
        every = int(option) if option.isdecimal() and int(option) > 0 else 2
        draft.say(recompute="full")
        layers = draft.dims.get("layers")
        if every > 1 and layers:
            draft.say(recompute_layers=max(1, int(layers) // draft.degree("pp") // every))
            draft.assume(
                f"selective_ac_option={every}: as many layers are recomputed, the first ones and not every {every}th"
            )


def _numerics(draft: Draft) -> None:
    keys = draft.keys
    param = keys.word("training.mixed_precision_param", default="bfloat16")
    keys.raw("training.mixed_precision_reduce")
    if keys.word("training.mixed_precision_reduce", default="float32") == "bfloat16":
        keys.note("training.mixed_precision_reduce", "gradients are reduced as the framework's defaults do")
    if keys.word("training.dtype", default="float32") == "bfloat16":
        draft.kernels["pure"] = True
    precision = "bf16" if param == "bfloat16" else "fp32"
    converters = keys.words("model.converters")
    fp8 = any("float8" in name for name in converters) or bool(
        keys.switch("float8.enable_float8_linear", default=False)
    )
    if fp8:
        recipe = keys.word("float8.recipe_name", "quantize.linear.float8.recipe_name", default="tensorwise")
        precision = "fp8-rowwise" if recipe == "rowwise" else "fp8"
    keys.raw("float8.enable_fsdp_float8_all_gather", "float8.precompute_float8_dynamic_scale_for_fsdp")
    if keys.switch("float8.enable_fsdp_float8_all_gather", default=False):
        keys.note("float8.enable_fsdp_float8_all_gather", "parameters are gathered in 16 bits")
    draft.say(precision=precision)
    draft.say(compile=bool(keys.switch("compile.enable", "training.compile", default=False)))
    keys.raw("compile.components")
    kind = keys.word("optimizer.name", default="adamw")
    if kind not in ("adam", "adamw"):
        keys.note("optimizer.name", f"{kind} is not modelled; adamw is taken")
    draft.say(optimizer="adam" if kind == "adam" else "adamw")
    way = keys.word("optimizer.implementation", default="fused")
    if keys.switch("optimizer.fused", default=None) is False or way in ("foreach", "for-loop"):
        draft.kernels["optimizer_kernels"] = "loop" if way == "for-loop" else "foreach"
