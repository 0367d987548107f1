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
from proteus.identity import ById
from proteus.model.convnet import convnet
from proteus.model.dlrm import dlrm
from proteus.model.graph import Block, Model, OpKind, Role
from proteus.model.hf import from_hf
from proteus.model.lora import with_lora
from proteus.model.origin import Origin, is_plain
from proteus.model.spec import Experts, LatentAttention, Patches, TransformerSpec
from proteus.model.transformer import transformer

#: learned positions of an architecture, which has no length of its own
AS_LONG_AS_SEQ = "seq"
#: width of the MLP where none is given: GPT's (Radford et al. 2018)
FFN_BY_HIDDEN = 4
#: dims that are sizes of one model and not of its architecture, and those that `load` needs to be given
SIZES = (
    "layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "seq", "document", "predictions", "latent", "experts",
    "patches",
)  # fmt: skip
NEEDED_SIZES = ("layers", "hidden", "heads", "vocab", "seq")
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
    known = dict(fields)
    if known.get("positions") == AS_LONG_AS_SEQ:
        known["positions"] = known["seq"]
    if known.get("ffn") is None:
        known["ffn"] = FFN_BY_HIDDEN * known["hidden"]
    return transformer(transformer_spec(name, known))


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
    entries: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for family in _FAMILIES:
        text = resources.files("proteus.model.data").joinpath(f"{family}.yaml").read_text(encoding="utf-8")
        entries |= {name: (family, entry) for name, entry in yaml.safe_load(text).items()}
    return entries


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


@cache
def _architectures() -> Mapping[str, Mapping[str, Any]]:
    """Every architecture: its switches, the words that name it and its source."""
    text = resources.files("proteus.model.data").joinpath("architectures.yaml").read_text(encoding="utf-8")
    by_name = {}
    for name, row in yaml.safe_load(text).items():
        assert name not in _canonical(), f"{name} is a model and an architecture"
        switches = {key: value for key, value in fields(row["like"]).items() if key not in SIZES}
        if switches.get("positions"):
            switches["positions"] = AS_LONG_AS_SEQ
        by_name[name] = {**row, "switches": switches | row.get("fields", {})}
    return by_name


def architectures() -> tuple[str, ...]:
    """Families that :func:`load` builds a model of when it is given the sizes.

    >>> "llama" in architectures()
    True
    """
    return tuple(_architectures())


def architecture_of(text: str) -> str | None:
    """The architecture that a free text names, or None.

    >>> architecture_of("Llama of ours"), architecture_of("unheard of")
    ('llama', None)
    """
    plain = text.lower()
    return next((name for name, row in _architectures().items() if any(word in plain for word in row["words"])), None)


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
        raise ModelError(unknown("model", name, (*known, *_architectures())))
    return known[key], *_entries()[known[key]]


def _published(name: str) -> tuple[str, str, dict[str, Any]]:
    """Name, family and dims of a model, or of an architecture, which has no sizes."""
    key = name.strip().lower()
    if key in _architectures():
        return key, "transformers", dict(_architectures()[key]["switches"])
    known, family, _ = _find(name)
    return known, family, fields(known)


@takes(ModelError, name=Text("the name of a model"), seq=Maybe(Whole(minimum=1)))
def load(name: str, *, seq: int | None = None, **changes: Any) -> Model:
    """A built-in model, or an architecture with the given sizes.

    Parameters
    ----------
    name
        One of :func:`names` or an alias; or one of :func:`architectures`,
        which needs ``layers``, ``hidden``, ``heads``, ``vocab`` and ``seq``.
    seq
        Tokens per sample; None takes the published training length.
    changes
        Dims to change, e.g. ``layers=4`` for the first four layers only; of a
        dim with dims of its own those that differ, ``experts={"num": 16}``.

    Raises
    ------
    ModelError
        For an unknown name (with the nearest ones), dim or an impossible size.

    >>> load("llama", layers=2, hidden=512, heads=8, ffn=1024, vocab=32000, seq=256).facts["activation"]
    'swiglu'
    """
    name, family, published = _published(name)
    for key in changes:
        if key not in _ARGUMENTS[family]:
            raise ModelError(f"{name}: {unknown('dim', key, _ARGUMENTS[family])}")
    for dim, value in changes.items():
        if not is_plain(value):
            raise ModelError(f"{name}: {dim}={value!r}; give plain values: numbers, words, lists, mappings")
    values = published | {dim: _over(published.get(dim), value) for dim, value in changes.items()}
    if seq is not None:
        if name not in _architectures() and "seq" not in values:
            raise ModelError(f"{name}: seq={seq}, but the model has no sequence; leave seq out")
        values["seq"] = seq
    if name in _architectures():
        absent = [dim for dim in NEEDED_SIZES if values.get(dim) is None]
        if absent:
            raise ModelError(
                f"{name} is an architecture without sizes; give {', '.join(absent)} as well, "
                f"as in load({name!r}, layers=32, hidden=4096, heads=32, vocab=32000, seq=2048)"
            )
    return _made(name, family, json.dumps(values, sort_keys=True))


def _over(published: Any, value: Any) -> Any:
    """A dim with dims of its own keeps those that are not changed."""
    both = isinstance(published, Mapping) and isinstance(value, Mapping)
    return {**published, **value} if both else value


@lru_cache(maxsize=64)
def _made(name: str, family: str, text: str) -> Model:
    """What is compiled for a model is found again by the object: make each once."""
    values, published = json.loads(text), _published(name)[2]
    changes = {dim: value for dim, value in values.items() if dim not in published or published[dim] != value}
    try:
        model = _FAMILIES[family](name, values)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        if isinstance(error, ModelError) or not changes:  # an entry of ours that does not build is our own bug
            raise
        given_dims = ", ".join(f"{dim}={value!r}" for dim, value in changes.items())
        raise ModelError(
            f"{name}: no model can be built with {given_dims}: {error}; give each dim as {family}.yaml does"
        ) from error
    note = _entries()[name][1].get("note") if name in _entries() else None
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
    return model if seq == model.seq else _with_seq(ById(model), seq)


@lru_cache(maxsize=64)
def _with_seq(same: ById[Model], seq: int) -> Model:
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
