"""What the commands print."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Mapping
from typing import Any


def print_json(value: Mapping[str, Any] | list[Any]) -> None:
    """One JSON value on stdout.

    Raises
    ------
    ValueError
        A number is not finite: JSON has no word for it, so a command says
        null for what it does not know.
    """
    print(json.dumps(plain(value), indent=2, allow_nan=False))


def plain(value: Any) -> Any:
    """Mappings, sequences, dataclasses and numpy scalars as JSON knows them; what is not finite as null.

    >>> plain({"a": (1, 2.5), "b": float("nan")})
    {'a': [1, 2.5], 'b': None}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy's scalars and arrays
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def announce(message: str) -> None:
    """Tell the user what takes time; on stderr, beside the answer."""
    print(f"proteus: {message}", file=sys.stderr, flush=True)
