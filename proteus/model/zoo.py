"""Models by name; their published dims are the data files beside this module.

>>> load("llama3-8b").num_params
8030261248
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib import resources
from typing import Any

import yaml

from proteus.errors import ModelError, unknown
from proteus.model.convnet import convnet
from proteus.model.dlrm import dlrm
from proteus.model.graph import Model
from proteus.model.spec import Experts, LatentAttention, Patches, TransformerSpec
from proteus.model.transformer import transformer

_NESTED: Mapping[str, Callable[..., Any]] = {"latent": LatentAttention, "experts": Experts, "patches": Patches}


def transformer_spec(name: str, fields: Mapping[str, Any]) -> TransformerSpec:
    """A spec from plain values, nested ones included."""
    made = {key: _NESTED[key](**value) if key in _NESTED and value else value for key, value in fields.items()}
    return TransformerSpec(name=name, **made)


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
    values = fields(name) | changes
    if seq is not None:
        if "seq" not in values:
            raise ModelError(f"{name}: seq={seq}, but the model has no sequence; leave seq out")
        values["seq"] = seq
    for key in changes:
        if key not in _ARGUMENTS[family]:
            raise ModelError(f"{name}: {unknown('dim', key, _ARGUMENTS[family])}")
    try:
        key = json.dumps(values, sort_keys=True)
    except TypeError:  # not a plain value: let the family say what is wrong with it
        return _FAMILIES[family](name, values)
    return _made(name, family, key)


@lru_cache(maxsize=64)
def _made(name: str, family: str, values: str) -> Model:
    """Models are values, and what is compiled for one is found again by the object: make each once."""
    return _FAMILIES[family](name, json.loads(values))
