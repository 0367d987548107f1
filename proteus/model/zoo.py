"""Models by name; their published dims are the data files beside this module.

>>> load("llama3-8b").num_params
8030261248
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml

from proteus.errors import ModelError, context, unknown
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
#: what an entry says beside the arguments of its family
_ABOUT = ("source", "note", "aliases")


@cache
def _entries() -> Mapping[str, tuple[str, Mapping[str, Any]]]:
    """Every name, aliases included: its family and what the data file says."""
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for family in _FAMILIES:
        text = resources.files("proteus.model.data").joinpath(f"{family}.yaml").read_text(encoding="utf-8")
        for name, entry in yaml.safe_load(text).items():
            for key in (name, *entry.get("aliases", ())):
                found[key] = (family, entry)
    return found


def names() -> tuple[str, ...]:
    """All names, aliases included, sorted."""
    return tuple(sorted(_entries()))


def source(name: str) -> str:
    """Where the dims of `name` were published."""
    return str(_entry(name)[1]["source"])


def _entry(name: str) -> tuple[str, Mapping[str, Any]]:
    entries = _entries()
    key = name.strip().lower()
    if key not in entries:
        raise ModelError(unknown("model", name, entries))
    return entries[key]


def load(name: str, *, seq: int | None = None, **changes: Any) -> Model:
    """A model of the zoo.

    Parameters
    ----------
    name
        One of :func:`names`.
    seq
        Tokens per sample; None takes the published training length.
    changes
        Dims to change, e.g. ``layers=4`` for the first four layers only.

    Raises
    ------
    ModelError
        For an unknown name (with the nearest ones), dim or an impossible size.
    """
    family, entry = _entry(name)
    fields = {key: value for key, value in entry.items() if key not in _ABOUT} | changes
    if seq is not None:
        if "seq" not in fields:
            raise ModelError(f"{name}: seq={seq}, but the model has no sequence; leave seq out")
        fields["seq"] = seq
    with context(f"model {name!r}"):
        try:
            return _FAMILIES[family](name, fields)
        except TypeError as error:
            raise ModelError(f"{error}; known dims: {', '.join(sorted(fields))}") from error
