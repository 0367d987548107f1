"""Reading a Hugging Face ``config.json`` field by field."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from proteus.errors import InputError
from proteus.files import read_json

_T = TypeVar("_T")
_REQUIRED: Any = object()
_GELUS = ("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh")
#: names of activation functions in configs to ours, by whether the MLP has a gate
_ACTIVATIONS: Mapping[bool, Mapping[str, str]] = {
    False: dict.fromkeys(_GELUS, "gelu") | {"silu": "silu", "swish": "silu", "relu": "relu", "relu2": "relu2"},
    True: dict.fromkeys(_GELUS, "geglu") | {"silu": "swiglu", "swish": "swiglu"},
}
_KINDS: Mapping[type, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}


class Config:
    """A config's fields, checked as they are read; errors name file, line and field.

    `read` has the names of the fields that were asked for, present or not.
    """

    def __init__(self, fields: Mapping[str, Any], where: str, text: str = "") -> None:
        self.fields, self.where, self._text = fields, where, text
        self.read: set[str] = set()

    def error(self, field: str, rule: str) -> InputError:
        match = re.search(rf'"{re.escape(field)}"\s*:', self._text)
        line = f", line {self._text.count(chr(10), 0, match.start()) + 1}" if match else ""
        return InputError(f"{self.where}{line}: field {field!r} {rule}")

    def _get(self, names: tuple[str, ...], kind: type[_T], default: _T) -> _T:
        self.read.update(names)
        for name in names:
            value = self.fields.get(name)
            if value is None:
                continue
            wrong = not isinstance(value, (int, float) if kind is float else kind)
            if wrong or (kind is not bool and isinstance(value, bool)):
                raise self.error(name, f"is {value!r}; it must be {_KINDS[kind]}")
            return kind(value)  # type: ignore[call-arg]
        if default is _REQUIRED:
            raise self.error(names[0], "is absent, and the model needs it; add it")
        return default

    def size(self, *names: str, default: int = _REQUIRED) -> int:
        """A positive whole number."""
        value = self._get(names, int, default)
        if value < 1:
            named = next(name for name in names if self.fields.get(name) is not None)
            raise self.error(named, f"is {value}; it must be at least 1")
        return value

    def count(self, *names: str, default: int = _REQUIRED) -> int:
        """A whole number, zero allowed."""
        value = self._get(names, int, default)
        if value < 0:
            raise self.error(names[0], f"is {value}; it must not be negative")
        return value

    def flag(self, *names: str, default: bool) -> bool:
        return self._get(names, bool, default)

    def rate(self, *names: str, default: float = 0.0) -> float:
        value = self._get(names, float, default)
        if not 0 <= value < 1:
            raise self.error(names[0], f"is {value}; it must be from 0 to below 1")
        return value

    def word(self, *names: str, default: str) -> str:
        return self._get(names, str, default)

    def mapping(self, name: str) -> Mapping[str, Any]:
        """The fields of a field; none where it is absent."""
        self.read.add(name)
        value = self.fields.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise self.error(name, f"is {value!r}; it must hold fields of its own")
        return value or {}

    def has(self, name: str) -> bool:
        self.read.add(name)
        return self.fields.get(name) is not None

    def activation(self, *names: str, gated: bool, default: str) -> Any:
        word = self.word(*names, default=default)
        known = _ACTIVATIONS[gated]
        if word not in known:
            stated_name = next((name for name in names if self.has(name)), names[0])
            raise self.error(stated_name, f"is {word!r}; known: {', '.join(known)}")
        return known[word]

    def only(self, name: str, *allowed: Any) -> None:
        """Refuse what the model graph cannot express."""
        if self.has(name) and self.fields[name] not in allowed:
            raise self.error(name, f"is {self.fields[name]!r}; only {' or '.join(map(repr, allowed))} is supported")

    def architecture(self) -> str:
        """The first of ``architectures``, or nothing."""
        self.read.add("architectures")
        named = self.fields.get("architectures")
        return str(named[0]) if isinstance(named, list) and named else ""


def read_config(config: str | os.PathLike[str] | Mapping[str, Any]) -> Config:
    """The fields of a file, of a folder's ``config.json``, or as given."""
    if isinstance(config, Mapping):
        return Config(config, "config")
    if not isinstance(config, str | os.PathLike):
        raise InputError(f"config: expected a path or the fields of a config, got {type(config).__name__}")
    path = Path(config)
    if path.is_dir():
        path = path / "config.json"
    fields, text = read_json(path)
    if not isinstance(fields, dict):
        raise InputError(f"{path}, line 1: holds a {type(fields).__name__}; a config is one JSON object")
    return Config(fields, str(path), text)
