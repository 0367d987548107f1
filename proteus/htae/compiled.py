"""How the kernels of the engine are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., object])

#: numba's options are checked by numba: one of them is not in its type hints
_njit: Any = njit


def _cached(function: F, **options: object) -> F:
    """Compile on first use and keep the machine code on disk where that is possible."""
    options |= {"error_model": "numpy", "nogil": True}  # other threads go on meanwhile: views stay alive
    try:
        return cast(F, _njit(cache=True, **options)(function))
    except RuntimeError:  # no folder that can be written: compile in every process
        return cast(F, _njit(**options)(function))


def jit(function: F) -> F:
    """A kernel that may allocate its results."""
    return _cached(function)


def quick(function: F) -> F:
    """A kernel without reference counts, which cost more than its work; it cannot allocate."""
    return _cached(function, _nrt=False)


def inline(function: F) -> F:
    """A step of a quick kernel, compiled into it; it stands in the file of its callers."""
    return cast(F, _njit(forceinline=True, _nrt=False, error_model="numpy")(function))
