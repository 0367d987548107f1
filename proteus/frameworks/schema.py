"""Plan fields that a framework's file may decide, with the values that they may have."""

from __future__ import annotations

from collections.abc import Mapping

from proteus.frameworks.values import Kind

_BOOL, _WHOLE = Kind((bool,)), Kind((int,))

#: what stands under ``defaults``: field names of the plan
DEFAULTS: Mapping[str, Kind] = {
    "micro_batch": _WHOLE,
    "schedule": Kind((str,), ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipe")),
    "virtual_stages": Kind((int, str), ("max",)),
    "pipeline_cut": Kind((str,), ("balanced", "layers", "filled", "light_last", "modules")),
    "zero": _WHOLE,
    "sequence_parallel": _BOOL,
    "context": Kind((str,), ("all_gather", "ring", "all_to_all")),
    "recompute": Kind((str,), ("none", "selective", "full", "op", "auto")),
    "recompute_modules": Kind((str,), ("norm",), is_list=True),
    "precision": Kind((str,), ("fp32", "tf32", "fp16", "bf16", "fp8", "fp8-rowwise", "nvfp4")),
    "optimizer": Kind((str,), ("sgd", "adam", "adamw", "lamb", "sgd-plain")),
    "overlap_gradients": _BOOL,
    "overlap_parameters": _BOOL,
    "overlap_steps": _BOOL,
    "compile": _BOOL,
    "cuda_graphs": _BOOL,
    "pad_vocab": _WHOLE,
}
#: what stands under ``recipes``
RECIPES: Mapping[str, Kind] = {
    "lora_rank": _WHOLE,
    "lora_targets": Kind((str,), is_list=True),
}
