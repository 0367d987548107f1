"""What a published run states besides its columns: ``field=value; field=value`` in terms of the public API.

A field is one of the plan, of the framework, of the hosts or a dim of the
model, and its value is written as the flag of that name takes it::

    framework=megatron-lm@2; attention=fused_softmax; overlap_gradients=false; document=200; peer_to_peer=false

An unknown field, or a value that a field cannot have, is an error of the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proteus.cluster import described
from proteus.errors import InputError, StrategyError, unknown
from proteus.frameworks import FACTS, FIELDS
from proteus.model import dims
from proteus.strategy.plan import specs

#: facts of a framework that are no field of the plan, such as ``pure``
_FACTS = tuple(name for name in FACTS if name not in specs())


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is stated, by what it is a field of.

    Parameters
    ----------
    plan
        Fields of the plan.
    framework
        Fields of the framework, and facts for its rules.
    model
        Dims.
    hosts
        Fields of the hosts, as text.
    """

    plan: Mapping[str, Any] = field(default_factory=dict)
    framework: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)


def parse(text: str) -> Settings:
    """The settings that a cell states.

    Raises
    ------
    StrategyError
        A part that is no ``field=value``, an unknown field, or a value that it cannot have.

    >>> found = parse("zero=1; loss=in_place; document=200; peer_to_peer=false")
    >>> found.plan, found.framework, found.model, found.hosts
    ({'zero': 1}, {'loss': 'in_place'}, {'document': 200}, {'peer_to_peer': 'false'})
    """
    plan: dict[str, Any] = {}
    framework: dict[str, Any] = {}
    model: list[str] = []
    hosts: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, equals, value = (word.strip() for word in part.partition("="))
        first = name.partition(".")[0]
        try:
            if not equals:
                raise InputError(f"{part!r} states nothing; write field=value")
            if name in specs():
                plan[name] = specs()[name].kind.parse(value)
            elif name in FIELDS or name in _FACTS:
                framework[name] = {**FIELDS, **FACTS}[name].parse(name, value)
            elif first in MODEL_DIMS:
                model.append(f"{name}={value}")
            elif name in described.FIELDS:
                described.FIELDS[name](value)
                hosts[name] = value
            else:
                raise InputError(unknown("field", name, (*specs(), *FIELDS, *MODEL_DIMS, *described.FIELDS)))
        except ValueError as error:
            raise StrategyError(f"settings: {part}: {error}") from None
    return Settings(plan=plan, framework=framework, model=dims.parse(",".join(model)) if model else {}, hosts=hosts)


#: dims that a row may state without a column for them
MODEL_DIMS = ("document", "dropout", "attention_dropout", "experts", "vocab", "predictions", "activation", "norm_bias")
