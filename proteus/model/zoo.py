"""Models by name; their published dims are the data files beside this module.

>>> load("llama3-8b").num_params
8030261248
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from importlib import resources
from typing import Any

import yaml

from proteus.arguments import Maybe, Text, Whole, takes
from proteus.errors import ModelError, unknown
from proteus.identity import Same
from proteus.model.convnet import convnet
from proteus.model.dlrm import dlrm
from proteus.model.graph import Block, Model, OpKind, Role
from proteus.model.hf import from_hf
from proteus.model.lora import with_lora
from proteus.model.origin import Origin, is_plain
from proteus.model.spec import Experts, LatentAttention, Patches, TransformerSpec
from proteus.model.transformer import transformer

_NESTED: Mapping[str, Callable[..., Any]] = {"latent": LatentAttention, "experts": Experts, "patches": Patches}


def transformer_spec(name: str, fields: Mapping[str, Any]) -> TransformerSpec:
    """A spec from plain values, nested ones included."""
    made = {key: _nested(name, key, value) if key in _NESTED else value for key, value in fields.items()}
    return TransformerSpec(name=name, **made)


def _nested(name: str, key: str, value: Any) -> Any:
    """The value of a dim that has dims of its own."""
    if value is None:
        return None
    of = _NESTED[key]
    if not isinstance(value, Mapping):
        raise ModelError(f"{name}: {key}={value!r}; give its dims: {', '.join(inspect.signature(of).parameters)}")
    for dim in value:
        if dim not in inspect.signature(of).parameters:
            raise ModelError(f"{name}: {unknown(f'dim of {key}', str(dim), inspect.signature(of).parameters)}")
    needed = [p.name for p in inspect.signature(of).parameters.values() if p.default is p.empty]
    absent = [dim for dim in needed if dim not in value]
    if absent:
        raise ModelError(f"{name}: {key} lacks {', '.join(absent)}; add {'them' if len(absent) > 1 else 'it'}")
    return of(**value)


def _transformer(name: str, fields: Mapping[str, Any]) -> Model:
    return transformer(transformer_spec(name, fields))


#: data file to builder
_FAMILIES: Mapping[str, Callable[[str, Mapping[str, Any]], Model]] = {
    "transformers": _transformer,
    "convnets": lambda name, fields: convnet(name, **fields),
    "dlrms": lambda name, fields: dlrm(name, **fields),
}
#: what each family takes
_ARGUMENTS: Mapping[str, frozenset[str]] = {
    "transformers": frozenset(inspect.signature(TransformerSpec).parameters) - {"name"},
    "convnets": frozenset(inspect.signature(convnet).parameters) - {"name"},
    "dlrms": frozenset(inspect.signature(dlrm).parameters) - {"name"},
}
#: what an entry says beside the arguments of its family
_ABOUT = ("source", "note", "aliases")


@cache
def _entries() -> Mapping[str, tuple[str, Mapping[str, Any]]]:
    """Every model: its family and what the data file says."""
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for family in _FAMILIES:
        text = resources.files("proteus.model.data").joinpath(f"{family}.yaml").read_text(encoding="utf-8")
        found |= {name: (family, entry) for name, entry in yaml.safe_load(text).items()}
    return found


@cache
def _canonical() -> Mapping[str, str]:
    """Every name and alias, to the name."""
    known = {name: name for name in _entries()}
    for name, (_, entry) in _entries().items():
        for alias in entry.get("aliases", ()):
            assert alias not in known, f"{alias} names two models"
            known[alias] = name
    return known


def _letters(text: str) -> str:
    return re.sub(r"[\s_.-]", "", text.lower())


@cache
def _spelled() -> Mapping[str, str]:
    """Names and aliases without the separators that every source sets its own way."""
    spelled: dict[str, str] = {}
    for known, name in _canonical().items():
        assert spelled.setdefault(_letters(known), name) == name, f"{known} is spelled as another model"
    return spelled


def names() -> tuple[str, ...]:
    """The names of the zoo, sorted; :func:`load` takes some aliases beside them."""
    return tuple(sorted(_entries()))


def meant(text: str) -> str | None:
    """The model that a text names, however it is written; None when it names none of the zoo.

    >>> meant("Llama 3 8B"), meant("GPT3_175B"), meant("Llama of ours")
    ('llama3-8b', 'gpt3-175b', None)
    """
    return _spelled().get(_letters(text))


def source(name: str) -> str:
    """Where the dims of `name` were published."""
    return str(_find(name)[2]["source"])


def aliases(name: str) -> tuple[str, ...]:
    """What :func:`load` takes for `name` beside it.

    >>> aliases("gpt3-175b")
    ('gpt3',)
    """
    return tuple(_find(name)[2].get("aliases", ()))


def fields(name: str) -> dict[str, Any]:
    """The dims of `name` as its data file states them.

    >>> fields("llama3-8b")["kv_heads"]
    8
    """
    return {key: value for key, value in _find(name)[2].items() if key not in _ABOUT}


def _find(name: str) -> tuple[str, str, Mapping[str, Any]]:
    known = _canonical()
    key = name.strip().lower()
    if key not in known:
        raise ModelError(unknown("model", name, known))
    return known[key], *_entries()[known[key]]


@takes(ModelError, name=Text("the name of a model"), seq=Maybe(Whole(least=1)))
def load(name: str, *, seq: int | None = None, **changes: Any) -> Model:
    """A model of the zoo.

    Parameters
    ----------
    name
        One of :func:`names` or an alias.
    seq
        Tokens per sample; None takes the published training length.
    changes
        Dims to change, e.g. ``layers=4`` for the first four layers only.

    Raises
    ------
    ModelError
        For an unknown name (with the nearest ones), dim or an impossible size.
    """
    name, family, _ = _find(name)
    published = fields(name)
    values = published | changes
    if seq is not None:
        if "seq" not in values:
            raise ModelError(f"{name}: seq={seq}, but the model has no sequence; leave seq out")
        values["seq"] = seq
    for key in changes:
        if key not in _ARGUMENTS[family]:
            raise ModelError(f"{name}: {unknown('dim', key, _ARGUMENTS[family])}")
    for dim, value in changes.items():
        if not is_plain(value):
            raise ModelError(f"{name}: {dim}={value!r}; give plain values: numbers, words, lists, mappings")
    return _made(name, family, json.dumps(values, sort_keys=True))


@lru_cache(maxsize=64)
def _made(name: str, family: str, text: str) -> Model:
    """What is compiled for a model is found again by the object: make each once."""
    values, published = json.loads(text), fields(name)
    changes = {dim: value for dim, value in values.items() if dim not in published or published[dim] != value}
    try:
        model = _FAMILIES[family](name, values)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        if isinstance(error, ModelError) or not changes:  # an entry of ours that does not build is our own bug
            raise
        said = ", ".join(f"{dim}={value!r}" for dim, value in changes.items())
        raise ModelError(
            f"{name}: no model can be built with {said}: {error}; give each dim as {family}.yaml does"
        ) from error
    note = _entries()[name][1].get("note")
    return replace(model, origin=Origin.of("zoo", name, changes), assumptions=(f"{name}: {note}",) if note else ())


def rebuild(origin: Origin) -> Model:
    """The model of that origin: equal to the one that has it.

    Raises
    ------
    ModelError, InputError
        A name, dim or size that does not exist, as :func:`load` and
        :func:`proteus.model.hf.from_hf` say it.

    Examples
    --------
    >>> rebuild(Origin.parse({"name": "gpt2", "layers": 4, "seq": 512})) == load("gpt2", layers=4, seq=512)
    True
    """
    if origin.kind == "zoo":
        model = load(origin.name, **origin.values)
    else:
        model = from_hf(origin.values, seq=origin.seq, name=origin.name)
    for dim, size in origin.resized:
        if all(dim not in block.dims for block in model.blocks):
            raise ModelError(f"{origin.name}: {unknown('dim', dim, {d for block in model.blocks for d in block.dims})}")
        model = model.resized(dim, size)
    return model


def with_seq(model: Model, seq: int) -> Model:
    """The same model at another sequence length; see :meth:`proteus.Model.with_seq`."""
    if isinstance(seq, bool) or not isinstance(seq, int) or seq < 1:
        raise ModelError(f"{model.name}: seq={seq!r}; it must be a whole number, at least 1")
    return model if seq == model.seq else _with_seq(Same(model), seq)


@lru_cache(maxsize=64)
def _with_seq(same: Same[Model], seq: int) -> Model:
    """What is compiled for a model is found again by the object: make each once."""
    model = same.value
    if model.lora is not None and model.base is not None:
        return with_lora(with_seq(model.base, seq), model.lora)
    if all("seq" not in block.dims for block in model.blocks):
        raise ModelError(f"{model.name}: seq={seq}, but the model has no sequence; leave seq out")
    return _resized_seq(model, seq) if model.origin is None else rebuild(model.origin.with_seq(seq))


def _resized_seq(model: Model, seq: int) -> Model:
    for block in model.blocks:
        why = _fixes_seq(block, seq)
        if why:
            raise ModelError(f"{model.name}: seq={seq}: {block.name} {why}; build the model anew at this length")
    resized = replace(model.resized("seq", seq).resized("kv_seq", seq), seq=seq, facts={**model.facts, "seq": seq})
    resized.validate()
    return resized


def _fixes_seq(block: Block, seq: int) -> str:
    """Why a block cannot take another sequence length by resizing its dims; nothing where it can."""
    for dim, sources in block.derived.items():
        if "seq" in sources:
            return f"has {block.dims[dim]} {dim} that follow from seq={block.dims['seq']}"
    if block.dims.get("positions", seq) < seq:
        return f"has {block.dims['positions']} learned positions"
    if block.dims.get("masked", 0) > seq:
        return f"predicts {block.dims['masked']} tokens of a sample"
    fixed = (OpKind.CONCAT, OpKind.RESHAPE, OpKind.MAP, OpKind.OPAQUE)
    joins = [
        op.name
        for op in block.ops
        if op.kind in fixed
        and "seq" in op.dims
        and (op.kind is not OpKind.MAP or op.dims["seq"].role is Role.INDIVISIBLE)
    ]
    return f"makes the sequence in {joins[0]}" if joins else ""
