"""Architectures: models by their sizes."""

from __future__ import annotations

import pytest

from proteus.errors import ModelError
from proteus.model import zoo

SIZES = {"layers": 4, "hidden": 512, "heads": 8, "vocab": 1000, "seq": 128}


@pytest.mark.parametrize("name", zoo.architectures())
def test_every_architecture_builds_with_sizes_alone(name: str) -> None:
    model = zoo.load(name, **SIZES)
    model.validate()
    assert (model.name, model.seq, model.facts["layers"], model.facts["ffn"]) == (name, 128, 4, 2048)
    assert model.origin is not None and zoo.rebuild(model.origin) == model


def test_learned_positions_are_as_many_as_tokens() -> None:
    model = zoo.load("gpt", **SIZES)
    assert model.facts["positions"] == 128
    assert model.with_seq(256).facts["positions"] == 256


def test_the_sizes_of_a_known_model_give_that_model() -> None:
    known = zoo.load("llama2-7b")
    sizes = {dim: known.facts[dim] for dim in ("layers", "hidden", "heads", "ffn", "vocab", "seq")}
    assert zoo.load("llama", **sizes).num_params == known.num_params


def test_experts_are_dims_like_others() -> None:
    model = zoo.load("llama", **SIZES, experts={"num": 4, "topk": 2, "ffn": 256})
    assert model.facts["experts"] == 4
    assert zoo.load("mixtral-8x7b", layers=1, experts={"num": 16}).facts["topk"] == 2  # as published


def test_missing_sizes_are_named() -> None:
    with pytest.raises(ModelError, match="llama is an architecture without sizes; give hidden, heads, vocab, seq"):
        zoo.load("llama", layers=4)


@pytest.mark.parametrize(("text", "name"), [("LLaMA of ours", "llama"), ("Qwen3_30B", "qwen3"), ("unheard of", None)])
def test_a_free_text_names_an_architecture(text: str, name: str | None) -> None:
    assert zoo.architecture_of(text) == name
