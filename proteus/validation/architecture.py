"""The model of a published run: its stated sizes as arguments of :func:`proteus.models.load`.

A name decides what is not stated alone: which architecture has these sizes,
or all sizes where the row states none of them; it says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from proteus import Model, models
from proteus.errors import ModelError
from proteus.validation.runs import Run
from proteus.validation.settings import Settings

#: an MLP this much wider than the hidden state is GPT's plain one; others are gated (Shazeer 2020, arXiv 2002.05202)
PLAIN_FFN = 4
#: a stated number of parameters this close is a rounded name ("20B" of 20.09 billion), not another model
SAME_SIZE = 0.1
#: a built model whose parameters are farther from the stated ones is told
TOLD_DIFFERENCE = 0.05
#: vocabulary of a run that does not say: GPT-2's
GPT2_VOCAB = 50257


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """A call of :func:`proteus.models.load`.

    >>> ModelCall(name="gpt2", dims={"layers": 2}).load().num_blocks
    4
    """

    name: str
    dims: Mapping[str, Any]

    def load(self) -> Model:
        return models.load(self.name, **self.dims)


def model_of(run: Run, run_settings: Settings, assumed: list[str]) -> ModelCall:
    """The model of a run.

    Raises
    ------
    ModelError
        Sizes that no default can stand in for are missing.
    """
    run = _completed(run, assumed)
    for dim_name, value in (("hidden", run.hidden), ("layers", run.layers), ("heads", run.heads), ("seq_len", run.seq)):
        if value is None:
            raise ModelError(f"{dim_name} of the model is not stated")
    named = _with_its_sizes(run)
    name = named or _architecture(run, assumed)
    if named is not None:
        assumed.append(f"all but the stated sizes as {named}")
    dims: dict[str, Any] = {
        "layers": run.layers, "hidden": run.hidden, "heads": run.heads, "kv_heads": run.kv_heads,
        "ffn": run.ffn, "vocab": run.vocab, "seq": run.seq,
    }  # fmt: skip
    dims = {dim: value for dim, value in dims.items() if value is not None}
    if run.ffn is None and named is None:
        assumed.append(f"ffn {PLAIN_FFN} x hidden")
    if run.vocab is None and "vocab" not in run_settings.model and named is None:
        assumed.append(f"vocabulary {GPT2_VOCAB}")
        dims["vocab"] = GPT2_VOCAB
    if named is not None and models.fields(named).get("positions"):
        dims["positions"] = run.seq
    if run.experts:
        stated = {"num": run.experts, "topk": run.topk, "ffn": run.expert_ffn}
        dims["experts"] = {dim: size for dim, size in stated.items() if size is not None}
        if named is None or not models.fields(named).get("experts"):
            dims["experts"] = {"topk": 2, "ffn": dims.get("ffn", PLAIN_FFN * (run.hidden or 1)), **dims["experts"]}
        assumed.append("experts are loaded equally")
    elif named is not None and models.fields(named).get("experts"):
        dims["experts"] = None
    return ModelCall(name=name, dims=_over(dims, run_settings.model))


def parameters_note(run: Run, model: Model) -> str | None:
    """What to say where the model that was built is not as large as the stated one."""
    stated = run.num_params
    if not stated or abs(model.num_params / stated - 1) <= TOLD_DIFFERENCE:
        return None
    difference = model.num_params / stated - 1
    return f"the model built has {model.num_params / 1e9:.3g} B parameters, {difference:+.0%} of the stated ones"


def _over(dims: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Dims with those that the settings state."""
    merged = dict(dims)
    for dim, value in changes.items():
        below = merged.get(dim)
        merged[dim] = {**below, **value} if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged


def _architecture(run: Run, assumed: list[str]) -> str:
    """The architecture that a name means, or that the sizes suggest."""
    by_name = models.architecture_of(run.model)
    if by_name is not None:
        assumed.append(f"architecture {by_name}, by the name {run.model!r}")
        return by_name
    assert run.hidden is not None
    shape = "gpt" if run.ffn in (None, PLAIN_FFN * run.hidden) and run.kv_heads in (None, run.heads) else "llama"
    assumed.append(f"architecture {shape}, by the shape of the MLP")
    return shape


def _with_its_sizes(run: Run) -> str | None:
    """The built-in model that a name begins with, where it has the hidden size and heads of the run.

    So remarks in a name do not hide what it names: "DeepSeekV3 (tokendrop)", "DeepSeek V3 671B".
    """
    words = re.split(r"[\s_-]+", re.sub(r"\(.*?\)", " ", run.model).strip())
    for last in range(len(words), 0, -1):
        named = models.meant("".join(words[:last]))
        if named is not None and all(models.fields(named).get(dim) == getattr(run, dim) for dim in ("hidden", "heads")):
            return named
    return None


def _completed(run: Run, assumed: list[str]) -> Run:
    """The run with the sizes that its model's name stands for, where it states none of them."""
    name = models.meant(run.model)
    if name is None or run.hidden or run.layers or run.heads:
        return run
    known = models.fields(name)
    if "hidden" not in known:
        return run
    if run.num_params and abs(run.num_params / models.load(name).num_params - 1) > SAME_SIZE:
        return run
    assumed.append(f"sizes of {name}")
    experts = known.get("experts") or {}
    return replace(
        run,
        hidden=known["hidden"],
        layers=known["layers"],
        heads=known["heads"],
        kv_heads=run.kv_heads or known.get("kv_heads"),
        ffn=run.ffn or known["ffn"],
        vocab=run.vocab or known["vocab"],
        seq=run.seq or known["seq"],
        experts=run.experts or experts.get("num"),
        topk=run.topk or experts.get("topk"),
        expert_ffn=run.expert_ffn or experts.get("ffn"),
    )
