"""What the words in the columns of a table mean, each as documented; a word that means nothing here is refused.

Tables are written by many hands, so a column has several spellings of one
thing.  Every spelling stands in a table below with the fields of the plan (or
of the framework) that it says, and where that is documented.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from proteus.errors import StrategyError


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a word says.

    Parameters
    ----------
    plan, framework
        Fields that it sets.
    special
        What depends on the rest of the row, a word that the reader of the column knows.
    """

    plan: dict[str, Any] = field(default_factory=dict)
    framework: dict[str, Any] = field(default_factory=dict)
    special: str = ""


def _plan(**fields: Any) -> Meaning:
    return Meaning(plan=fields)


_OFF = "none|no|false|off|0|disabled"
_ON = "true|yes|on|1|enabled"
_OFFLOADED = r"(?P<offload> ?(?:\+ ?|with )?offload(?: (?P<roles>optimizer and parameters?|optimizer|activations?))?)?"

#: zero_stage: what is sharded over the data-parallel ranks
ZERO: Sequence[tuple[str, Meaning, str]] = (
    (rf"{_OFF}|ddp|0 \(ddp\)", _plan(zero=0), "DistributedDataParallel keeps everything on every rank"),
    (r"(?:zero[- ]?(?:stage )?)?(?P<stage>[0-3])", Meaning(special="stage"), "Rajbhandari et al. 2020, section 5"),
    (r"zero-?(?P<stage>[1-3]) size=(?P<size>-?\d+)", Meaning(special="group"), "InternEvo parallel.zero1: size"),
    (r"distributed optimizer(?: \(zero-?1\))?|ddp/distributed optimizer", _plan(zero=1),
     "Megatron-Core --use-distributed-optimizer"),
    (r"fsdp2?(?:[ -]?\(?full[_ ]shard\)?)?|full_shard|fully_shard", _plan(zero=3), "PyTorch FSDP, FULL_SHARD"),
    (r"fsdp full_shard / mp default", _plan(zero=3), "Composer FSDP, mixed_precision DEFAULT"),
    (r"fsdp full_shard / mp pure", Meaning(plan={"zero": 3}, framework={"pure": True}),
     "Composer FSDP, mixed_precision PURE: parameters, gradients and reductions in 16 bits"),
    (r"fsdp2? ?\(?(?:shard_grad_op|reshard_after_forward[ =:]*false)\)?", _plan(zero=2),
     "PyTorch FSDP, SHARD_GRAD_OP: parameters stay gathered between forward and backward"),
    (r"(?:hsdp|hybrid_shard(?: fsdp)?|fsdp hybrid_shard)(?: size=(?P<size>\d+))?", Meaning(special="host"),
     "PyTorch FSDP, HYBRID_SHARD: sharded inside a host by default"),
    (r"megatron-fsdp(?: group (?P<size>\d+))?", Meaning(special="fsdp group"),
     "Megatron-Core distributed/fsdp: shards over the group"),
)  # fmt: skip

#: recompute: what runs again in the backward
RECOMPUTE: Sequence[tuple[str, Meaning, str]] = (
    (_OFF, _plan(recompute="none"), "nothing"),
    (r"full|every_layer|every layer|true|all", _plan(recompute="full"), "every layer"),
    (r"selective|core_attn|selective \(core_attn\)", _plan(recompute="selective"), "Megatron-Core: core attention"),
    (r"(?:selective )?\(?(?:per )?op\)?|selective \((?:per )?op\)", _plan(recompute="op"),
     "torchtitan selective_ac_option op"),
    (r"selective (?:\(layer\)|layer)|every second layer", Meaning(special="every second layer"),
     "torchtitan selective_ac_option 2, fms-fsdp selective_checkpointing 1/2"),
    (r"selective \((?P<modules>[a-z_, ]+)\)|selective (?P<more>[a-z]+_[a-z_, ]+)", Meaning(special="modules"),
     "Megatron-Core --recompute-modules"),
)  # fmt: skip
#: recompute modules of Megatron-Core (--recompute-modules) and remat policies of MaxText (MaxText/configs/base.yml)
MODULES: dict[str, tuple[str, ...]] = {
    "layernorm": ("norm",),
    "moe_act": ("activation",),
    "mlp_act": ("activation",),
    "minimal_flash": ("norm", "activation"),
}

#: flash_attention: the attention kernel
ATTENTION: Sequence[tuple[str, Meaning, str]] = (
    (rf"(?:{_ON})|flash|fa|flash_attention|flash attention|(?:{_ON}) \(flash\)", Meaning(special="flash"),
     "a fused kernel; the framework's own where that is one"),
    (_OFF, Meaning(special="no flash"), "no fused kernel: the framework's attention that keeps the scores"),
    (r"flash_?attention_?v?1[\d.]*|fa1|flash1|(?:true )?\(fa1\)", _plan(attention="flash1"),
     "Dao-AILab/flash-attention v1"),
    (r"(?:flash_?attention_?v?2[\d.]*|fa2|flash2|true \(fa2\))(?P<rms> \+ rms kernel)?", _plan(attention="flash2"),
     "Dao-AILab/flash-attention v2; its RMS kernel: csrc/layer_norm"),
    (r"flash_?attention_?v?3[\d.]*|fa3|flash3|true \(fa3\)", _plan(attention="flash3"),
     "Dao-AILab/flash-attention, hopper"),
    (r"sdpa|true \(sdpa\)|(?:true )?\(flexattention\)|flexattention|flexattn", _plan(attention="flash2"),
     "PyTorch scaled_dot_product_attention runs FlashAttention-2; FlexAttention is a Triton kernel of its algorithm"),
    (r"cudnn|fused|fusedattention|fused_attention|true \(cudnn\)", _plan(attention="cudnn"),
     "Transformer Engine FusedAttention (NVTE_FUSED_ATTN, Megatron-Core --attention-backend fused): cuDNN"),
    (r"te|transformer[ _]engine|transformerengine|auto", Meaning(special="transformer engine"),
     "Transformer Engine get_attention_backend chooses by the GPU"),
    (r"xformers|true \(xformers\)|memory[ _-]efficient|mem_efficient", _plan(attention="memory_efficient"),
     "xFormers memory_efficient_attention"),
    (r"torch|eager|math|naive|unfused|local|manual", _plan(attention="unfused"),
     "operators one after another (Hugging Face attn_implementation eager; Megatron-Core --attention-backend local)"),
    (r"fused[_ ]softmax|masked[_ ]softmax[_ ]fusion", _plan(attention="fused_softmax"),
     "Megatron-LM fused scale-mask-softmax"),
    (r"triton", _plan(attention="flash1"), "llm-foundry attn_impl triton: FlashAttention-1 in Triton"),
)  # fmt: skip

#: comm_overlap: parts with commas between them
OVERLAP: Sequence[tuple[str, Meaning, str]] = (
    (_OFF, _plan(overlap_tensor="none"), "no asynchronous tensor parallelism"),
    (r"async tp|async_tp", _plan(overlap_tensor="forward"),
     "discuss.pytorch.org, Introducing Async Tensor Parallelism: the backward gains nothing"),
    (r"tp|tp comm(?: overlap)?|tp_comm_overlap", _plan(overlap_tensor="all"), "Megatron-Core --tp-comm-overlap"),
    (r"grad(?:ient)?s?(?: reduce)?|overlap_grad_reduce|dp", _plan(overlap_gradients=True),
     "Megatron-Core --overlap-grad-reduce"),
    (r"param(?:eter)?s?(?: gather)?|overlap_param_gather", _plan(overlap_parameters=True),
     "Megatron-Core --overlap-param-gather"),
    (r"(?:moe )?a2a|moe_a2a_overlap|ep|experts", _plan(overlap_experts=True),
     "Megatron-Core --overlap-moe-expert-parallel-comm"),
)  # fmt: skip

#: pp_schedule, without blanks, dashes and what stands in brackets
SCHEDULE: Sequence[tuple[str, Meaning, str]] = (
    (r"none|1f1b|", Meaning(special="1f1b"), "Narayanan et al. 2021"),
    (r"1f1bi|1f1binterleaved|interleaved1f1b|interleaved", _plan(schedule="interleaved"), "Narayanan et al. 2021"),
    (r"gpipe", _plan(schedule="gpipe"), "Huang et al. 2019"),
    (r"zb1p|zbh1", _plan(schedule="zb-h1"), "Qi et al. 2024, zero bubble: ZB-1p has the memory of 1F1B"),
    (r"zb2p|zbh2", _plan(schedule="zb-h2"), "Qi et al. 2024, zero bubble: ZB-2p has twice the memory"),
    (r"zbv|zbvzerobubble", _plan(schedule="zb-v"), "Qi et al. 2024, controllable memory"),
    (r"vhalf", _plan(schedule="v-half"), "Qi et al. 2024, controllable memory"),
    (r"vmin", _plan(schedule="v-min"), "Qi et al. 2024, controllable memory"),
    (r"dualpipev?", _plan(schedule="dualpipe"), "DeepSeek-V3 technical report"),
)  # fmt: skip

#: precision
PRECISION: Sequence[tuple[str, Meaning, str]] = (
    (r"bf16|bfloat16|bf16[- ]mixed|mixed bf16|amp_bf16", _plan(precision="bf16"), "bfloat16"),
    (r"fp16|float16|half|fp16[- ]mixed|mixed fp16|amp_fp16", _plan(precision="fp16"), "IEEE half precision"),
    (r"fp32|float32", _plan(precision="fp32"), "IEEE single precision"),
    (r"tf32", _plan(precision="tf32"), "NVIDIA TF32"),
    (r"fp8|amp_fp8", _plan(precision="fp8"), "8 bits, a scale per tensor"),
    (r"mxfp8", Meaning(plan={"precision": "fp8"}, framework={"precision": "mxfp8"}), "OCP Microscaling Formats"),
    (r"nvfp4", _plan(precision="nvfp4"), "NVIDIA NVFP4"),
)  # fmt: skip

COLUMNS = {
    "zero_stage": ZERO,
    "recompute": RECOMPUTE,
    "flash_attention": ATTENTION,
    "comm_overlap": OVERLAP,
    "pp_schedule": SCHEDULE,
    "precision": PRECISION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A cell that was understood.

    Parameters
    ----------
    parts
        What the pattern's groups caught.
    """

    meaning: Meaning
    parts: dict[str, str]

    def said(self) -> dict[str, Any]:
        return dict(self.meaning.plan)


def read(column: str, text: str) -> Word:
    """What a cell of `column` means.

    Raises
    ------
    StrategyError
        A word without a documented meaning here.

    >>> read("flash_attention", "true (fa3)").meaning.plan
    {'attention': 'flash3'}
    >>> read("recompute", "a bit")
    Traceback (most recent call last):
    ...
    proteus.errors.StrategyError: recompute 'a bit' is not understood
    """
    for pattern, meaning, _ in COLUMNS[column]:
        match = re.fullmatch(pattern, text)
        if match is not None:
            return Word(meaning=meaning, parts={key: value for key, value in match.groupdict().items() if value})
    raise StrategyError(f"{column} {text!r} is not understood")


def squeezed(schedule: str) -> str:
    """A schedule without blanks, dashes and what stands in brackets.

    >>> squeezed("1F1B (DeepSpeed)".lower()), squeezed("zb-2p")
    ('1f1b', 'zb2p')
    """
    return re.sub(r"[\s_-]+", "", schedule.partition("(")[0])


def without_offload(text: str) -> tuple[str, tuple[str, ...]]:
    """A cell without what it says of host memory, and the roles that lie there.

    >>> without_offload("zero-3 offload optimizer and parameters")
    ('zero-3', ('optimizer', 'parameter'))
    >>> without_offload("full+offload")
    ('full', ())
    """
    match = re.fullmatch(rf"(?P<rest>.*?){_OFFLOADED}", text)
    assert match is not None
    if not match["offload"]:
        return text, ()
    roles = {"optimizer": ("optimizer",), "activation": ("activation",), "activations": ("activation",)}
    role_words = match["roles"] or ""
    return match["rest"].strip(), roles.get(role_words, ("optimizer", "parameter") if role_words else ())


def modules(text: str) -> tuple[str, ...]:
    """Modules that run again, of a list of Megatron-Core's names.

    >>> modules("moe_act, layernorm")
    ('norm', 'activation')
    """
    module_names: set[str] = set()
    for word in re.split(r"[,\s]+", text.strip()):
        if word not in MODULES:
            raise StrategyError(f"recompute {word!r} is not understood; known: {', '.join(MODULES)}, core_attn")
        module_names.update(MODULES[word])
    return tuple(name for name in ("norm", "activation") if name in module_names)
