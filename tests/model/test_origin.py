"""What is written of a model builds the equal model again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from proteus.errors import InputError, ModelError, ProteusError
from proteus.files import read_yaml
from proteus.model import zoo
from proteus.model.graph import Lora, Model
from proteus.model.hf import from_hf
from proteus.model.lora import with_lora
from proteus.model.origin import MAX_ORIGIN_CHARS, Origin

CONFIGS = Path(__file__).resolve().parents[1] / "data" / "hf"


def through_yaml(model: Model) -> Model:
    """The model that is read back from a file that another wrote."""
    assert model.origin is not None
    text = yaml.safe_dump(model.origin.plain())
    document, _ = read_yaml(text)
    origin = Origin.parse(document)
    assert origin == model.origin and hash(origin) == hash(model.origin)
    return zoo.rebuild(origin)


def same(one: Model, two: Model) -> bool:
    """Equal, and all else that goes with a model too."""
    return one == two and (one.facts, one.assumptions, one.origin) == (two.facts, two.assumptions, two.origin)


@pytest.mark.parametrize("name", zoo.names())
def test_every_model_of_the_zoo_is_its_name(name: str) -> None:
    model = zoo.load(name)
    assert model.origin is not None and model.origin.plain() == name
    assert same(through_yaml(model), model)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("gpt2", {"layers": 4, "seq": 512}),
        ("llama3-8b", {"kv_heads": 32, "tied": True}),
        ("mixtral-8x7b", {"experts": {"num": 16, "topk": 4, "ffn": 1024}}),
        ("resnet50", {"image": 160}),
        ("dlrm", {"rows": 1000}),
    ],
)
def test_changes_are_written(name: str, changes: dict[str, Any]) -> None:
    model = zoo.load(name, **changes)
    assert model.origin is not None and model.origin.plain() == {"name": name, **changes}
    assert same(through_yaml(model), model)
    assert model != zoo.load(name)


def test_what_equals_the_published_value_is_no_change() -> None:
    assert zoo.load("GPT2-small", seq=1024, layers=12).origin == zoo.load("gpt2").origin


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.json")), ids=lambda path: path.stem)
def test_a_config_is_written_without_its_file(path: Path) -> None:
    model = from_hf(path)
    assert same(through_yaml(model), model)
    assert same(through_yaml(from_hf(path, name="mine")), from_hf(path, name="mine"))
    if not path.stem.startswith("vit"):
        short = from_hf(path, seq=64)
        assert same(through_yaml(short), short)
        assert short != model


def test_only_fields_that_matter_are_written() -> None:
    fields = json.loads((CONFIGS / "vit-b-16.json").read_text())
    fields.pop("num_labels")
    noise = {"id2label": {str(n): f"label {n}" for n in range(1000)}, "bos_token_id": 1, "initializer_range": 0.02}
    model = from_hf(fields | noise)
    assert model.origin is not None
    assert set(model.origin.values) == {*fields, "num_labels"}
    assert same(through_yaml(model), model) and model == from_hf(fields | {"num_labels": 1000})


def test_what_is_not_understood_stays_said() -> None:
    fields = json.loads((CONFIGS / "llama-3.1-8b.json").read_text()) | {"cross_every": 5, "sliding_window": 1024}
    model = from_hf(fields)
    assert len(model.assumptions) == 3
    assert through_yaml(model).assumptions == model.assumptions
    off = from_hf(fields | {"use_sliding_window": False})
    assert len(off.assumptions) == 2 and through_yaml(off).assumptions == off.assumptions


def test_a_config_too_large_to_be_written_has_no_origin() -> None:
    fields = json.loads((CONFIGS / "llama-3.1-8b.json").read_text())
    model = from_hf(fields | {"what": "x" * MAX_ORIGIN_CHARS})
    assert model.origin is None and model == from_hf(fields)


def test_values_that_no_file_carries_are_left_out() -> None:
    fields = json.loads((CONFIGS / "llama-3.1-8b.json").read_text())
    model = from_hf(fields | {"what": object(), "cycle": {1, 2}, "nan": float("nan")})
    assert model.origin is not None and set(model.origin.values) == set(fields)


def test_a_resized_dim_is_written() -> None:
    padded = zoo.load("gpt2", layers=2).resized("vocab", 51200)
    assert padded.origin is not None
    assert padded.origin.plain() == {"name": "gpt2", "layers": 2, "resized": {"vocab": 51200}}
    assert same(through_yaml(padded), padded)
    assert through_yaml(padded.resized("vocab", 52000)) == padded.resized("vocab", 52000)
    with pytest.raises(ModelError, match="gpt2: unknown dim 'vocabs'; nearest: vocab"):
        zoo.rebuild(Origin.parse({"name": "gpt2", "resized": {"vocabs": 8}}))


def test_adapters_stand_apart() -> None:
    base = zoo.load("tiny-llama", layers=2)
    model = with_lora(base, Lora(rank=4))
    assert model.origin == base.origin and model != base
    assert with_lora(through_yaml(model), Lora(rank=4)) == model


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, "expected a name, or a mapping with a name such as {name: gpt2, layers: 4}; it is 5"),
        (["gpt2"], "expected a name"),
        ({"layers": 4}, "expected a name"),
        ({"name": 5}, "expected a name"),
        ({"name": "gpt2", 5: 1}, "field 5 must be a word"),
        ({"name": "m", "hf": 5}, "hf must hold the fields of a Hugging Face config; it is 5"),
        ({"name": "m", "hf": {}, "layers": 4}, "field 'layers' beside hf; put it into hf"),
        ({"name": "m", "hf": {}, "seq": 0}, "seq must be a whole number of at least 1; it is 0"),
        ({"name": "gpt2", "resized": {"vocab": 0}}, "resized must name dims and their sizes"),
        ({"name": "gpt2", "resized": [1]}, "resized must name dims and their sizes"),
        ({"name": "gpt2", "layers": {1, 2}}, "holds a value that no file can carry"),
        ({"name": "gpt2", "layers": "x" * MAX_ORIGIN_CHARS}, "is longer than 20000 characters"),
    ],
)
def test_a_form_that_says_no_model_is_refused(value: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        Origin.parse(value)
    assert message in str(caught.value)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
DIMS = st.sampled_from(
    [
        "layers",
        "seq",
        "experts",
        "latent",
        "tied",
        "norm",
        "image",
        "blocks",
        "bottom",
        "top",
        "rows",
        "patches",
        "hf",
        "?",
    ]
)


@given(st.sampled_from(["tiny-gpt", "tiny-moe", "tiny-cnn", "tiny-dlrm", "vit-b/16"]), st.dictionaries(DIMS, PLAIN))
def test_any_document_is_a_model_or_refused(name: str, rest: dict[str, Any]) -> None:
    try:
        model = zoo.rebuild(Origin.parse({"name": name, **rest}))
    except ProteusError as refusal:
        assert str(refusal)
        return
    assert through_yaml(model) == model


# -- another sequence length -----------------------------------------------------

SEQUENCES = [name for name in zoo.names() if "seq" in zoo.fields(name) and not name.startswith("vit")]


@pytest.mark.parametrize("name", SEQUENCES)
def test_another_length_is_the_model_loaded_at_it(name: str) -> None:
    seq = zoo.load(name).seq // 2
    assert same(zoo.load(name).with_seq(seq), zoo.load(name, seq=seq))


def by_hand(model: Model) -> Model:
    return replace(model, origin=None)


@pytest.mark.parametrize("name", SEQUENCES)
def test_dims_are_resized_where_that_is_exact(name: str) -> None:
    model = zoo.load(name)
    loaded = zoo.load(name, seq=model.seq // 2)
    if "experts" in model.facts:
        with pytest.raises(ModelError, match=r"slots that follow from seq=.*; build the model anew at this length"):
            by_hand(model).with_seq(model.seq // 2)
    else:
        resized = by_hand(model).with_seq(model.seq // 2)
        assert resized == loaded and resized.facts == loaded.facts


def test_a_length_of_the_user_replaces_the_assumed_one() -> None:
    model = from_hf(CONFIGS / "mistral-7b.json").with_seq(8192)
    assert model == from_hf(CONFIGS / "mistral-7b.json", seq=8192)
    (assumption,) = model.assumptions
    assert "sliding_window=4096 is below seq=8192" in assumption


def test_adapters_come_along() -> None:
    lora = Lora(rank=4, targets=("attention.qkv",))
    model = with_lora(zoo.load("tiny-llama"), lora)
    assert model.with_seq(32) == with_lora(zoo.load("tiny-llama", seq=32), lora)


def test_each_length_is_made_once() -> None:
    """What is compiled for a model is found again by the object."""
    model = with_lora(from_hf(CONFIGS / "mistral-7b.json"), Lora(rank=4))
    assert model.with_seq(4096) is model
    assert model.with_seq(512) is model.with_seq(512)


@pytest.mark.parametrize(
    ("model", "seq", "message"),
    [
        (zoo.load("resnet50"), 128, "resnet50: seq=128, but the model has no sequence; leave seq out"),
        (zoo.load("gpt2"), 2048, "seq=2048 is more than its 1024 learned positions"),
        (by_hand(zoo.load("gpt2")), 2048, "embedding has 1024 learned positions"),
        (by_hand(zoo.load("vit-b/16")), 64, "embedding makes the sequence in join"),
        (zoo.load("vit-b/16"), 64, "gives 196 tokens and one class token; leave seq out"),
        (by_hand(zoo.load("bert-base-pretraining", predictions=20)), 16, "head predicts 20 tokens of a sample"),
        (zoo.load("gpt2"), 0, "seq=0; it must be a whole number, at least 1"),
        (zoo.load("gpt2"), "512", "seq='512'; it must be a whole number"),
        (zoo.load("gpt2"), True, "seq=True; it must be a whole number"),
    ],
)
def test_a_length_that_cannot_be_is_refused(model: Model, seq: Any, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        model.with_seq(seq)
    assert message in str(caught.value)
