"""Dims of a model in a line of text, as the flag ``--set`` takes them: ``layers=4,experts.num=8``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proteus.errors import InputError

_WORDS: Mapping[str, Any] = {"true": True, "false": False, "none": None}


def parse(text: str) -> dict[str, Any]:
    """The dims that a text sets; a dot reaches into a dim that has dims of its own.

    Raises
    ------
    InputError
        A part that is no ``dim=value``, or a dim that is given twice.

    >>> parse("layers=4,dropout=0.1,experts.num=8,experts.topk=2,latent=none")
    {'layers': 4, 'dropout': 0.1, 'experts': {'num': 8, 'topk': 2}, 'latent': None}
    """
    dims: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not (equals and key and value):
            raise InputError(f"{part.strip()!r} sets no dim; write dim=value, such as layers=4")
        *path, last = key.split(".")
        at = dims
        for step in path:
            at = at.setdefault(step, {})
            if not isinstance(at, dict):
                raise InputError(f"{step} and {key} both stand there; keep one")
        if last in at:
            raise InputError(f"{key} is given twice; keep one")
        at[last] = _value(value)
    return dims


def text(dims: Mapping[str, Any]) -> str:
    """The text that :func:`parse` reads as `dims`.

    >>> text({"layers": 4, "experts": {"num": 8}, "latent": None})
    'layers=4,experts.num=8,latent=none'
    """
    return ",".join(f"{key}={_written(value)}" for key, value in _flat(dims, ""))


def _flat(dims: Mapping[str, Any], before: str) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for key, value in dims.items():
        rows += _flat(value, f"{before}{key}.") if isinstance(value, Mapping) else [(f"{before}{key}", value)]
    return rows


def _value(text: str) -> Any:
    if "+" in text and not text.startswith("+"):
        return [_value(part) for part in text.split("+")]
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _written(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "+".join(map(_written, value))
    return next((word for word, meaning in _WORDS.items() if value is meaning), str(value))
