"""The strategy of a published run: degrees, schedule, ZeRO, recomputation, framework."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from proteus.errors import StrategyError
from proteus.frameworks import Framework
from proteus.validation.frameworks import Published
from proteus.validation.machines import USUAL_GPUS_PER_NODE
from proteus.validation.runs import Run

#: precisions as tables write them
_PRECISIONS = {
    "bf16": "bf16",
    "fp16": "fp16",
    "fp32": "fp32",
    "tf32": "tf32",
    "fp8": "fp8",
    "mxfp8": "fp8",
    "nvfp4": "nvfp4",
    "bfloat16": "bf16",
    "bf16-mixed": "bf16",
    "bf16 mixed": "bf16",
    "mixed bf16": "bf16",
    "amp_bf16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "fp16-mixed": "fp16",
    "fp16 mixed": "fp16",
    "mixed fp16": "fp16",
    "amp_fp16": "fp16",
    "float32": "fp32",
    "amp_fp8": "fp8",
}
#: torchtune modules/loss/ce_chunked_output_loss.py: an eighth of the logits at a time is cast to fp32 and derived
CHUNKED_LOSS = "in_place"
#: attention kernels as tables write them, longest first
_ATTENTION = (
    ("flash_attention3", "flash3"),
    ("flash_attention2", "flash2"),
    ("flash_attentionv1", "flash1"),
    ("flash_attention", "flash1"),
    ("sdpa", "flash2"),
    ("fused", "fused_softmax"),
    ("torch", "unfused_fp32"),
)
#: what a run means that says flash attention, or none, where its framework does otherwise
FLASH, NO_FLASH = "flash2", "fused_softmax"
#: FSDP that keeps what it has gathered until the backward
_KEPT = re.compile(r"shard_grad_op|reshard_after_forward[ =:]*false")
#: schedules by their names without blanks and dashes
_SCHEDULES = {
    "1f1bi": "interleaved",
    "1f1binterleaved": "interleaved",
    "interleaved1f1b": "interleaved",
    "interleaved": "interleaved",
    "gpipe": "gpipe",
    "zb1p": "zb-h1",
    "zb2p": "zb-h2",
    "zbh2": "zb-h2",
    "zbh1": "zb-h1",
    "zbv": "zb-v",
    "zbvzerobubble": "zb-v",
    "vhalf": "v-half",
    "vmin": "v-min",
    "dualpipe": "dualpipe",
    "dualpipev": "dualpipe",
}
#: fewest chunks by rank of a schedule that interleaves them: what a run means that names one and no number
#: (torchtitan distributed/pipeline_parallel.py: two stages by rank for schedules of several)
INTERLEAVED_CHUNKS = 2
#: how tables write that something is off
_OFF = ("none", "no", "false", "off", "0", "disabled")
#: how context parallelism meets attention, as tables and Megatron-Core's ``--cp-comm-type`` write it
_CONTEXTS = (
    (r"\bulysses\b|\bcp[ _-]comm[ _-]type\W+(?:a2a|all_?to_?all)\b(?!\+)", "all_to_all"),
    (r"\bring attention\b|\bcp[ _-]comm[ _-]type\W+(?:p2p|ring)\b", "ring"),
    (r"\bcp[ _-]comm[ _-]type\W+all_?gather\b", "all_gather"),
)


def precision_of(run: Run, published: Published, assumed: list[str]) -> str:
    """The precision of a run.

    Raises
    ------
    StrategyError
        A precision that the cost models do not know.
    """
    if not run.precision:
        precision = str(published.default("precision", "bf16"))
        assumed.append(f"precision {precision}")
        return precision
    if run.precision not in _PRECISIONS:
        raise StrategyError(f"precision {run.precision!r} has no cost model")
    return f"{run.precision}-rowwise" if _by_row(run) else _PRECISIONS[run.precision]


def _by_row(run: Run) -> bool:
    """Whether operands in fp8 have a scale for each row."""
    return run.precision == "fp8" and "rowwise" in run.notes


def running_of(run: Run, published: Published, precision: str, assumed: list[str]) -> Framework:
    """The framework as a run had it, changed where the run says so."""
    base = published.framework
    compiled = True if is_compiled(run) else None
    changes: dict[str, object] = {}
    if run.task == "lora":
        lora = dict(published.entry.lora)
        compiled = lora.pop("compile", compiled)
        changes |= lora
    base = base.given(
        precision=run.precision if run.precision == "mxfp8" else precision,
        compile=compiled,
        experts=bool(run.experts),
        lora=run.task == "lora",
        pure=True if "pure" in run.zero else None,
        virtual_stages=(run.virtual_stages or 1) if (run.pp or 1) > 1 else None,
    )
    if not run.attention:
        assumed.append(f"attention {base.attention}")
    elif (attention := attention_of(run, base)) is not None:
        changes["attention"] = attention
    if "tokendrop" in run.model or "pad-expert-input-to-capacity" in run.notes:
        # experts get equal, known numbers of tokens; Megatron-Core pads to a capacity with plain all_to_all alone
        changes |= {"host_waits_for_routing": False, "merges_tokens": False, "expert_s": 0.0}
    if "chunked ce" in run.notes:
        changes["loss"] = CHUNKED_LOSS
    if "rms kernel" in run.attention:
        changes["norm"] = "tuned"
    if run.overlap.startswith("async tp"):
        # PyTorch tells of 29 % on the forward and 8 % on the step of such a model: the backward gains nothing
        # (discuss.pytorch.org, "Introducing Async Tensor Parallelism in PyTorch"); gathers are not fused with products
        # that have scales by row (PyTorch issue 149990)
        changes["overlaps_tensor"] = "forward_scatters" if _by_row(run) else "forward"
    elif run.overlap and not run.overlap.startswith("none"):
        assumed.append(f"{run.overlap} gains nothing")
    elif run.overlap:
        changes["overlaps_tensor"] = "none"
    return base.but(**changes)


def is_compiled(run: Run) -> bool:
    """Whether the remarks tell of torch.compile, and not of its absence.

    >>> [is_compiled(Run(id="1", table_id="t", kind="llm", notes=n)) for n in ("fsdp+compile", "no torch.compile", "")]
    [True, False, False]
    """
    return "compile" in re.sub(r"\b(no|not|without)\b[\w\s.]*compile", "", run.notes)


def attention_of(run: Run, base: Framework) -> str | None:
    """The attention kernel that a run names; None where it is the framework's own."""
    for word, kernel in _ATTENTION:
        if word in run.attention:
            return kernel
    if run.attention.startswith("true"):
        return None if base.flash else FLASH
    return NO_FLASH if base.flash else None


def zero_of(run: Run, published: Published, assumed: list[str]) -> int:
    """The ZeRO stage that a text means.

    Raises
    ------
    StrategyError
        A partial sharding that the recipe cannot say.
    """
    text = run.zero
    if not text:
        stage = int(published.default("zero", 0))
        if (run.dp or 1) > 1:
            assumed.append(f"ZeRO stage {stage}")
        return stage
    if text in _OFF or text == "ddp":
        return 0
    if "fsdp" in text or "hsdp" in text:
        return 2 if _KEPT.search(text) else 3
    if "distributed optimizer" in text or "zero1" in text:
        return 1
    found = re.match(r"(?:zero[- ]?)?([0-3])\b", text)
    if found is None:
        raise StrategyError(f"sharding {text!r} is not understood")
    return int(found.group(1))


def shard_of(run: Run, dp: int) -> int | None:
    """Data-parallel ranks that share one copy of what ZeRO cuts; None where that is all of them.

    Hybrid sharding shards inside a host unless told otherwise (PyTorch FSDP, ``ShardingStrategy.HYBRID_SHARD``).

    >>> shard_of(Run(id="1", table_id="t", kind="llm", zero="zero1 size=8"), 64)
    8
    >>> shard_of(Run(id="1", table_id="t", kind="llm", zero="hsdp", gpus_per_node=8, tp=2), 64)
    4
    """
    found = re.search(r"size=(\d+)", run.zero)
    size = int(found.group(1)) if found is not None else dp
    if found is None and ("hsdp" in run.zero or "hybrid" in run.zero):
        size = max(1, (run.gpus_per_node or USUAL_GPUS_PER_NODE) // (run.tp or 1))
    return size if size < dp else None


def recompute_of(run: Run, published: Published, assumed: list[str]) -> tuple[dict[str, Any], str]:
    """(arguments of the recipe, what runs again besides: "", "cheap", "alternate" or "as needed")."""
    text = run.recompute
    if not text:
        usual = str(published.default("recompute", "none"))
        assumed.append(f"recompute {usual}")
        besides = {"auto": "as needed", "op": "alternate"}.get(usual, "")
        return {"recompute": "none" if besides else usual}, besides
    if text in _OFF or text.startswith("none"):
        return {"recompute": "none"}, ""
    found: dict[str, Any] = {"recompute": "full"}
    if "offload" in text:
        found["offload"] = ("activation",)
    if "selective" in text and "layer" in text:
        assert run.layers is not None
        found["recompute_layers"] = -(-run.layers // 2 // (run.pp or 1))
    elif "op" in text and "selective" in text:
        return {"recompute": "none"}, "alternate"
    elif "selective" in text:
        found["recompute"] = "selective"
    return found, ""


def schedule_of(run: Run, published: Published, assumed: list[str]) -> tuple[str, int]:
    """(schedule, virtual stages).

    Raises
    ------
    StrategyError
        A schedule that is not known.
    """
    if (run.pp or 1) == 1:
        return "1f1b", 1
    text = run.schedule.partition("(")[0].strip()
    virtual = run.virtual_stages or 1
    if run.virtual_stages is None and not text and published.default("virtual_stages", 1) == "max":
        virtual = max(1, (run.layers or 1) // (run.pp or 1))
        assumed.append("a virtual stage by layer")
    if text in ("", "none", "1f1b"):
        return ("interleaved", virtual) if virtual > 1 else ("1f1b", 1)
    name = _SCHEDULES.get(re.sub(r"[\s_-]+", "", text))
    if name is None:
        raise StrategyError(f"schedule {run.schedule!r} is not known")
    if name == "interleaved" and run.virtual_stages is None:
        virtual = INTERLEAVED_CHUNKS
        assumed.append(f"{virtual} virtual stages by rank")
    return name, virtual if name == "interleaved" else 1


def context_of(run: Run, published: Published) -> str:
    """How context parallelism meets attention: what the run says, or the framework does.

    >>> from proteus.validation.frameworks import framework_of
    >>> run = Run(id="1", table_id="t", kind="llm", notes="cp_comm_type a2a")
    >>> context_of(run, framework_of("torchtitan"))
    'all_to_all'
    """
    said = f"{run.notes} {run.overlap}"
    return next(
        (name for pattern, name in _CONTEXTS if re.search(pattern, said)),
        str(published.default("context", "all_gather")),
    )


def lora_of(run: Run, published: Published, assumed: list[str]) -> dict[str, Any]:
    """The adapters of a run that trains nothing else.

    Raises
    ------
    StrategyError
        A framework whose recipe for adapters is not known.
    """
    recipes = published.framework.recipes
    if "lora_rank" not in recipes:
        raise StrategyError(f"the adapters of {published.name} are not known; their rank and places are not stated")
    targets = recipes.get("lora_targets", ())
    assumed.append(f"adapters of rank {recipes['lora_rank']} on {', '.join(targets) or 'every product'}")
    base = "nf4" if "qlora" in run.notes else "exact"
    return {"lora": recipes["lora_rank"], "lora_targets": targets, "lora_base": base}


def layers_per_stage(layers: int, chunks: int) -> Sequence[int] | None:
    """Layers of every chunk where they do not divide; None where they do.

    A first and a last chunk with one layer less make room for the embedding
    and the head, as Megatron-Core's ``account_for_embedding_in_pipeline_split``.

    >>> layers_per_stage(22, 8), layers_per_stage(24, 8)
    ((2, 3, 3, 3, 3, 3, 3, 2), None)
    """
    if layers % chunks == 0:
        return None
    if chunks > 1 and (layers + 2) % chunks == 0:
        each = (layers + 2) // chunks
        return (each - 1, *((each,) * (chunks - 2)), each - 1)
    each, more = divmod(layers, chunks)
    return tuple(each + (1 if more > 0 and chunks - 1 - more <= i < chunks - 1 else 0) for i in range(chunks))


def light_last_stage(layers: int, chunks: int) -> Sequence[int] | None:
    """Layers of every chunk where the last, with the head, gets fewer, as LiBai does for four chunks and more.

    It divides the layers as if there were some more at the end, up to one by
    chunk, and leaves those away (``libai/utils/distributed.py``).

    >>> light_last_stage(24, 4), light_last_stage(48, 8), light_last_stage(24, 2)
    ((6, 7, 7, 4), (6, 6, 7, 7, 7, 7, 7, 1), None)
    """
    if chunks < 4 or layers < 8 or layers % chunks:
        return layers_per_stage(layers, chunks)
    absent = min(chunks - 1, layers // chunks)
    each, more = divmod(layers + absent, chunks)
    found = [each + (i >= chunks - more) for i in range(chunks)]
    found[-1] -= absent
    return tuple(found)


def filled_stages(layers: int, chunks: int) -> Sequence[int] | None:
    """Layers of every chunk where all are as full as the fullest but the last, which takes what is left.

    DeepSpeed fills one part after another (``deepspeed/runtime/utils.py``,
    partition_balanced), and so are the layouts of Megatron-Bridge for layers
    that do not divide (``recipes/deepseek/deepseek_v3.py``).  What
    Megatron-Core cuts by itself comes first.

    >>> filled_stages(61, 8), filled_stages(94, 8), filled_stages(72, 12)
    ((8, 8, 8, 8, 8, 8, 8, 5), (11, 12, 12, 12, 12, 12, 12, 11), None)
    """
    full = -(-layers // chunks)
    rest = layers - full * (chunks - 1)
    if layers % chunks == 0 or (layers + 2) % chunks == 0 or rest <= 0:
        return layers_per_stage(layers, chunks)
    return (*((full,) * (chunks - 1)), rest)


def equal_modules(layers: int, chunks: int) -> Sequence[int] | None:
    """Layers of every chunk where embedding, final norm and head count as much as a layer (Aleph Alpha's scaling).

    The first chunks get one more where they do not divide
    (``core/nn/parallel_module/pipeline_partitioning.py``, uniform).

    >>> equal_modules(40, 2), equal_modules(40, 4)
    ((21, 19), (10, 11, 11, 8))
    """
    each, more = divmod(layers + 3, chunks)
    found = [each + (i < more) for i in range(chunks)]
    found[0] -= 1
    found[-1] -= 2
    return tuple(found) if min(found) >= 0 else layers_per_stage(layers, chunks)


#: the ways of `pipeline_cut`
_CUTS = {
    "layers": layers_per_stage,
    "filled": filled_stages,
    "light_last": light_last_stage,
    "modules": equal_modules,
}


def expert_tensor_degree(run: Run, *, dp: int, tp: int, cp: int, ep: int) -> int | None:
    """The tensor degree of the experts; None is that of all else, Megatron-Core's default.

    A run that does not say has the default unless the ranks of a stage do not
    allow it with so many expert ranks: then its experts are whole.
    """
    if run.expert_tp is not None or not run.experts:
        return run.expert_tp
    return None if dp * tp * cp % (ep * tp) == 0 else 1


def recipe_of(run: Run, published: Published, assumed: list[str]) -> tuple[dict[str, Any], str]:
    """Arguments of ``parallelize`` for a run, and what is recomputed besides.

    Raises
    ------
    StrategyError
        The run cannot be said with the recipe.
    """
    tp, pp, cp = run.tp or 1, run.pp or 1, run.cp or 1
    num_gpus = run.num_gpus or 1
    dp = run.dp or max(1, num_gpus // (tp * pp * cp))
    ep = run.ep or 1
    if dp * tp * pp * cp != num_gpus:
        raise StrategyError(f"dp {dp} x tp {tp} x pp {pp} x cp {cp} is not {num_gpus} GPUs")
    if run.micro_batch is None:
        assumed.append("micro-batch 1")
    micro = run.micro_batch or 1
    if run.global_batch is None:
        raise StrategyError("the global batch is not stated")
    precision = precision_of(run, published, assumed)
    schedule, virtual = schedule_of(run, published, assumed)
    sequence_parallel = run.sequence_parallel
    if sequence_parallel is None:
        sequence_parallel = published.default("sequence_parallel", False)
        if tp > 1:
            assumed.append(f"sequence parallel {'on' if sequence_parallel else 'off'}")
    recompute, besides = recompute_of(run, published, assumed)
    recipe: dict[str, Any] = {
        "dp": dp,
        "tp": tp,
        "pp": pp,
        "cp": cp,
        "ep": ep,
        "etp": expert_tensor_degree(run, dp=dp, tp=tp, cp=cp, ep=ep),
        "micro_batch": micro,
        "global_batch": run.global_batch,
        "schedule": schedule,
        "virtual_stages": virtual,
        "zero": zero_of(run, published, assumed),
        "shard": shard_of(run, dp),
        "sequence_parallel": sequence_parallel and tp > 1,
        "context": context_of(run, published),
        "precision": precision,
        "optimizer": published.default("optimizer", "adam"),
        "framework": running_of(run, published, precision, assumed),
        "overlap_gradients": published.default("overlap_gradients", True),
        "overlap_steps": schedule in published.entry.overlap_steps,
        **recompute,
    }
    if run.task == "lora":
        recipe |= lora_of(run, published, assumed)
    if pp > 1 and run.layers:
        chunks = pp * (2 if schedule in ("zb-v", "v-half", "v-min", "dualpipe") else virtual)
        layers = _CUTS[published.default("pipeline_cut", "layers")](run.layers, chunks)
        if layers is not None:
            recipe["layers_per_stage"] = layers
    return recipe, besides
