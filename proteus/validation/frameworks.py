"""What a framework does where a run does not say; the table is ``data/frameworks.yaml``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Any, Literal

import yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """Documented defaults of a training framework.

    Parameters
    ----------
    before, not_on
        The version (``24.09``) from which on, and the generations of GPUs on
        which, a later entry is meant: this one is of the time before them.
    virtual_stages
        Of a pipeline that does not say: ``one`` or ``most``, a layer for each.
    profile
        Framework profile of the cost models.
    eager_profile
        The same without its compiler, for frameworks where that is opt-in.
    bf16_profile
        The same in bf16, where the framework has an optimizer of its own for it.
    pure_profile
        The same where parameters and reductions are all in 16 bits (FSDP's mixed precision PURE).
    graphed_profile, graphed_since, graphed_precision
        The same with the whole step in a CUDA graph, for models with experts,
        and the first version and the precision in which that is the habit.
    overlap_steps
        Schedules under which every rank begins the next step when it has ended its own.
    flash, no_flash
        Attention of a run that says flash attention, and of one that says none.
    zero
        ZeRO stage of a run that does not say.
    context
        How context parallelism meets attention in a run that does not say.
    recompute
        none, selective, full, or ``as needed``: as little as fits.
    pipeline_cut
        How layers fall on pipeline stages: ``layers``, as equal as they go;
        ``filled``, as many as the fullest has, the last what is left; ``light
        last``, fewer on the last of four or more stages; ``modules``, where
        embedding, final norm and head count as a layer each.
    gathers_logits
        The loss is computed on the whole vocabulary by every tensor rank.
    recomputes_head
        The projection to the vocabulary is a layer, run again like all others.
    recomputes_norms
        Norms are run again in the backward even where nothing else is.
    gpu_Gbps
        Network of one GPU of the machines that the framework's published runs
        used [Gb/s], for runs that do not say.
    lora, lora_targets, lora_profile
        Rank and places of the adapters of its recipes for LoRA, and the
        profile of such runs where they run otherwise than those that train all.
    vocab, vocab_multiple
        Vocabulary of a run that does not say, and what it is rounded up to (times tp).
    """

    name: str
    words: tuple[str, ...]
    before: float | None = None
    not_on: tuple[str, ...] = ()
    profile: str
    source: str
    eager_profile: str | None = None
    bf16_profile: str | None = None
    pure_profile: str | None = None
    graphed_profile: str | None = None
    graphed_since: float = 0.0
    graphed_precision: str = ""
    flash: str = "flash2"
    no_flash: str = "fused_softmax"
    precision: str = "bf16"
    optimizer: str = "adam"
    zero: int = 0
    overlap: bool = True
    overlap_parameters: bool = False
    overlap_steps: tuple[str, ...] = ()
    dropout: bool = False
    sequence_parallel: bool = False
    context: Literal["all_gather", "ring", "all_to_all"] = "all_gather"
    recompute: str = "none"
    virtual_stages: str = "one"
    pipeline_cut: Literal["layers", "filled", "light last", "modules"] = "layers"
    gathers_logits: bool = False
    recomputes_head: bool = False
    recomputes_norms: bool = False
    gpu_Gbps: float | None = None
    lora: int | None = None
    lora_targets: tuple[str, ...] = ()
    lora_profile: str | None = None
    vocab: int = 50257
    vocab_multiple: int = 128


@cache
def _frameworks() -> tuple[Framework, ...]:
    text = resources.files("proteus.validation").joinpath("data/frameworks.yaml").read_text("utf-8")
    known = {field.name for field in fields(Framework)}
    found = []
    for entry in yaml.safe_load(text):
        row: Mapping[str, Any] = entry
        assert set(row) <= known, f"{row['name']}: {sorted(set(row) - known)}"
        lists = {key: tuple(row.get(key, ())) for key in ("words", "not_on", "lora_targets", "overlap_steps")}
        found.append(Framework(**{**row, **lists}))
    return tuple(found)


def version_of(text: str) -> float | None:
    """The release that a text names, as a number of year and month.

    >>> version_of("NeMo 26.06.01"), version_of("")
    (26.06, None)
    """
    found = re.search(r"\d+\.\d+", text)
    return float(found.group()) if found is not None else None


def framework_of(text: str, version: str = "", generation: str = "") -> Framework:
    """The framework that a free text names, in the habits of its version and of the GPUs' time.

    >>> [framework_of("nemo", version).profile for version in ("", "nemo 24.07", "nemo 24.05")]
    ['nemo', 'nemo-launcher', 'nemo-launcher, attention=flash2']
    >>> [framework_of("megatron-lm", generation=generation).name for generation in ("ampere", "hopper")]
    ['megatron-lm', 'megatron-lm since Hopper']
    >>> framework_of("megatron-lm", "core_r0.7.0", "ampere").name
    'megatron-core'
    """
    named, release = f"{text} {version}", version_of(version)
    return next(
        item
        for item in _frameworks()
        if any(word in named for word in item.words)
        and (item.before is None or (release is not None and release < item.before))
        and generation not in item.not_on
    )
