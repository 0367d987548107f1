"""The model of a published run: sizes from the run, the rest from the family its name means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

import yaml

from proteus.errors import ModelError
from proteus.model import zoo
from proteus.model.graph import Model
from proteus.model.spec import Experts, TransformerSpec
from proteus.model.transformer import transformer
from proteus.validation.runs import Run

#: an MLP this much wider than the hidden state is GPT's plain one; others are gated (Shazeer 2020, arXiv 2002.05202)
PLAIN_FFN = 4


@cache
def _families() -> tuple[Mapping[str, Any], ...]:
    text = resources.files("proteus.validation").joinpath("data/families.yaml").read_text("utf-8")
    return tuple(yaml.safe_load(text))


@cache
def family(name: str, is_plain: bool) -> tuple[str, Mapping[str, Any]]:
    """(zoo model it is like, fields of a spec) of the family that a model's name means.

    Parameters
    ----------
    is_plain
        Whether the MLP is four times as wide as the hidden state: decides
        where the name says nothing.

    >>> family("some llama of ours", False)[0], family("unheard of", True)[0]
    ('llama2-7b', 'gpt3-175b')
    """
    found = next((item for item in _families() if any(word in name for word in item["words"])), None)
    like = found["like"] if found else ("gpt3-175b" if is_plain else "llama2-7b")
    return like, {**zoo.fields(like), **(found or {}).get("fields", {})}


def spec_of(run: Run, assumed: list[str], *, vocab: int, vocab_multiple: int, dropout: bool) -> TransformerSpec:
    """The transformer of a run.

    Parameters
    ----------
    vocab
        Where the run does not say.
    vocab_multiple
        The framework rounds the vocabulary up to a multiple of it.
    dropout
        Whether the framework trains with the dropout of the family's paper.

    Raises
    ------
    ModelError
        Sizes that no default can stand in for are missing.
    """
    for what, value in (("hidden", run.hidden), ("layers", run.layers), ("heads", run.heads), ("seq_len", run.seq)):
        if value is None:
            raise ModelError(f"{what} of the model is not stated")
    assert run.hidden and run.layers and run.heads and run.seq
    is_plain = run.ffn is not None and run.ffn == PLAIN_FFN * run.hidden
    like, known = family(run.model, is_plain)
    fields = {key: value for key, value in known.items() if key not in ("experts", "latent", "patches")}
    fields |= {"layers": run.layers, "hidden": run.hidden, "heads": run.heads, "kv_heads": run.kv_heads, "seq": run.seq}
    if run.ffn is None:
        assumed.append(f"ffn {PLAIN_FFN} x hidden")
    if run.vocab is None:
        assumed.append(f"vocabulary {vocab}")
    fields["ffn"] = run.ffn or PLAIN_FFN * run.hidden
    fields["vocab"] = -(-(run.vocab or vocab) // vocab_multiple) * vocab_multiple
    if (
        fields.get("head_dim") is not None
        and run.hidden // run.heads == zoo.fields(like)["hidden"] // zoo.fields(like)["heads"]
    ):
        fields["head_dim"] = None if run.hidden % run.heads == 0 else fields["head_dim"]
    if fields.get("positions"):
        fields["positions"] = run.seq
    if not dropout:
        fields |= {"dropout": 0.0, "attention_dropout": 0.0}
    spec = zoo.transformer_spec(run.model or like, fields)
    if run.experts:
        moe = Experts(num=run.experts, topk=run.topk or 2, ffn=run.expert_ffn or spec.ffn)
        spec = replace(spec, experts=moe)
        assumed.append("experts are loaded equally")
    return spec


@cache
def model_of(spec: TransformerSpec) -> Model:
    """The graph of a spec; runs of a table share their models."""
    return transformer(spec)
