"""The model of a published run: sizes from the run, the rest from the family its name means."""

from __future__ import annotations

import re
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

#: Tokens of a document of the data that fine-tuning is measured with, where samples are packed from several: a
#: paragraph of SQuAD of 120 words on average, its question of 11 and the answer (Rajpurkar et al., arXiv 1606.05250)
DOCUMENT_TOKENS = {"squad": 200}
#: an MLP this much wider than the hidden state is GPT's plain one; others are gated (Shazeer 2020, arXiv 2002.05202)
PLAIN_FFN = 4
#: how remarks tell that a model with experts begins with layers without
_DENSE = re.compile(r"\bfirst (?:(\d+) )?layers? (?:is |are )?dense\b")
#: a stated number of parameters this close is a rounded name ("20B" of 20.09 billion), not another model
SAME_SIZE = 0.1


@cache
def _families() -> tuple[Mapping[str, Any], ...]:
    text = resources.files("proteus.validation").joinpath("data/families.yaml").read_text("utf-8")
    return tuple(yaml.safe_load(text))


@cache
def family(name: str, is_plain: bool) -> tuple[str, Mapping[str, Any]]:
    """(zoo model it is like, fields of a spec) that a model's name means: itself, or the first of its family.

    Parameters
    ----------
    is_plain
        Whether the MLP is four times as wide as the hidden state: decides
        where the name says nothing.

    >>> family("some llama of ours", False)[0], family("unheard of", True)[0]
    ('llama2-7b', 'gpt3-175b')
    """
    named = zoo.meant(name)
    if named and "hidden" in zoo.fields(named):
        return named, zoo.fields(named)
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
    run = _completed(run, assumed)
    for what, value in (("hidden", run.hidden), ("layers", run.layers), ("heads", run.heads), ("seq_len", run.seq)):
        if value is None:
            raise ModelError(f"{what} of the model is not stated")
    assert run.hidden and run.layers and run.heads and run.seq
    is_plain = run.ffn is not None and run.ffn == PLAIN_FFN * run.hidden
    like, known = family(_with_its_sizes(run) or run.model, is_plain)
    is_that = run.hidden == known["hidden"] and run.heads == known["heads"]  # not only like it
    fields = {key: value for key, value in known.items() if is_that or key not in ("experts", "latent", "patches")}
    fields |= {"layers": run.layers, "hidden": run.hidden, "heads": run.heads, "kv_heads": run.kv_heads, "seq": run.seq}
    if run.ffn is None:
        assumed.append(f"ffn {PLAIN_FFN} x hidden")
    if run.vocab is None:
        assumed.append(f"vocabulary {vocab}")
    fields["ffn"] = run.ffn or PLAIN_FFN * run.hidden
    fields["vocab"] = -(-(run.vocab or vocab) // vocab_multiple) * vocab_multiple
    if (
        fields.get("head_dim") is not None
        and not is_that
        and run.hidden // run.heads == zoo.fields(like)["hidden"] // zoo.fields(like)["heads"]
    ):
        fields["head_dim"] = None if run.hidden % run.heads == 0 else fields["head_dim"]
    if fields.get("positions"):
        fields["positions"] = run.seq
    document = next((tokens for data, tokens in DOCUMENT_TOKENS.items() if data in run.notes), None)
    if "packed" in run.notes and document is not None and document < run.seq:
        fields["document"] = document
        assumed.append(f"documents of {document} tokens")
    if not dropout:
        fields |= {"dropout": 0.0, "attention_dropout": 0.0}
    spec = zoo.transformer_spec(run.model or like, fields)
    if run.experts:
        moe = spec.experts or Experts(num=run.experts, topk=2, ffn=spec.ffn)
        moe = replace(moe, num=run.experts, topk=run.topk or moe.topk, ffn=run.expert_ffn or moe.ffn)
        said = _DENSE.search(run.notes)
        if said is not None:
            moe = replace(moe, dense_layers=min(int(said[1] or 1), run.layers))
        spec = replace(spec, experts=moe)
        assumed.append("experts are loaded equally")
    return spec


def _with_its_sizes(run: Run) -> str | None:
    """The model of the zoo that a name begins with, where it has the hidden size and heads of the run.

    So remarks in a name do not hide what it names: "DeepSeekV3 (tokendrop)", "DeepSeek V3 671B".
    """
    words = re.split(r"[\s_-]+", re.sub(r"\(.*?\)", " ", run.model).strip())
    for last in range(len(words), 0, -1):
        named = zoo.meant("".join(words[:last]))
        if named is not None and all(zoo.fields(named).get(dim) == getattr(run, dim) for dim in ("hidden", "heads")):
            return named
    return None


def _completed(run: Run, assumed: list[str]) -> Run:
    """The run with the sizes that its model's name stands for, where it states none of them."""
    name = zoo.meant(run.model)
    if name is None or run.hidden or run.layers or run.heads:
        return run
    known = zoo.fields(name)
    if "hidden" not in known:
        return run
    if run.num_params and abs(run.num_params / zoo.load(name).num_params - 1) > SAME_SIZE:
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


@cache
def model_of(spec: TransformerSpec) -> Model:
    """The graph of a spec; runs of a table share their models."""
    return transformer(spec)
