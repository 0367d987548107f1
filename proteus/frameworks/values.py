"""Which values a field may have, and how they are written in a line of text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from proteus.errors import InputError, unknown


@dataclass(frozen=True, slots=True)
class Kind:
    """The values of a field.

    Parameters
    ----------
    types
        ``bool``, ``int``, ``float``, ``str``; more than one where a word may stand for a number.
    choices
        Words that are allowed; none listed allows every word.
    is_list
        Some of them in a row, as a tuple.
    """

    types: tuple[type, ...]
    choices: tuple[str, ...] = ()
    is_list: bool = False

    def check(self, name: str, value: object) -> Any:
        """The value, whole numbers as floats where the field holds one; raises InputError on any other."""
        if self.is_list:
            if isinstance(value, str) or not isinstance(value, Iterable):
                raise InputError(f"{name}={value!r}; expected a list of {self}")
            one = Kind(self.types, self.choices)
            return tuple(one.check(name, item) for item in value)
        if isinstance(value, bool):
            if bool in self.types:
                return value
        elif isinstance(value, str):
            if str in self.types:
                if self.choices and value not in self.choices:
                    raise InputError(unknown(name, value, self.choices))
                return value
        elif isinstance(value, int | float) and (float in self.types or int in self.types):
            if not math.isfinite(value) or value < 0:
                raise InputError(f"{name}={value!r}; expected a finite number of at least 0")
            if float in self.types:
                return float(value)
            if value == int(value):
                return int(value)
        raise InputError(f"{name}={value!r}; expected {self}")

    def parse(self, name: str, text: str) -> Any:
        """The value that a text means."""
        if self.is_list:
            one = Kind(self.types, self.choices)
            return tuple(one.parse(name, part) for part in text.split("+") if part not in ("", "none"))
        if bool in self.types and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if int in self.types or float in self.types:
            try:
                number = float(text)
            except ValueError:
                if str not in self.types:
                    raise InputError(f"{name}={text!r}; expected {self}") from None
            else:
                return self.check(name, number)
        return self.check(name, text)

    def __str__(self) -> str:
        words = [", ".join(self.choices)] if self.choices else ["a word"] if str in self.types else []
        words += ["true or false"] if bool in self.types else []
        words += ["a number"] if float in self.types else ["a whole number"] if int in self.types else []
        return " or ".join(words)


def kind_of(hint: Any) -> Kind:
    """The kind that a type hint means.

    >>> str(kind_of(Literal["a", "b"])), str(kind_of(float))
    ('a, b', 'a number')
    """
    origin = get_origin(hint)
    if origin is Literal:
        return Kind((str,), get_args(hint))
    if origin is tuple:
        one = kind_of(get_args(hint)[0])
        return Kind(one.types, one.choices, is_list=True)
    if origin in (Union, UnionType):
        parts = [kind_of(part) for part in get_args(hint) if part is not type(None)]
        return Kind(tuple(t for part in parts for t in part.types), tuple(c for part in parts for c in part.choices))
    return Kind((hint,))


def written(value: object) -> str:
    """A value as :meth:`Kind.parse` reads it.

    >>> [written(value) for value in (True, 5e-06, ("a", "b"), ())]
    ['true', '5e-06', 'a+b', 'none']
    """
    if isinstance(value, tuple):
        return "+".join(map(written, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def checked(label: str, kinds: Mapping[str, Kind], changes: Mapping[str, object]) -> dict[str, Any]:
    """`changes`, each with a known name and a value of its kind."""
    for name in changes:
        if name not in kinds:
            raise InputError(unknown(label, name, kinds))
    return {name: kinds[name].check(name, value) for name, value in changes.items()}
