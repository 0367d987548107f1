"""A module by the name of the function that makes it: ``my_pkg.models:make``.

This runs the user's code, because the user names it; nothing else in Proteus does.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from proteus.errors import InputError
from proteus.model.graph import Model
from proteus.torch_import.importer import from_torch

_FORM = (
    "write --model package.module:function, a function that returns (module, example_inputs) or "
    "(module, example_inputs, loss)"
)


def load_named(name: str) -> Model:
    """The model that the named function makes, called on the meta device, with the current folder on the path.

    Raises
    ------
    InputError
        No such function, or it fails, or it returns something else.
    """
    make = _resolve(name)
    try:
        with torch.device("meta"):
            made = make()
    except Exception as error:
        raise InputError(f"{name}() raises {type(error).__name__}: {error}") from error
    if isinstance(made, Model):
        return made
    if not isinstance(made, Sequence) or len(made) not in (2, 3) or not isinstance(made[0], nn.Module):
        raise InputError(f"{name}() returns a {type(made).__name__}; {_FORM}")
    return from_torch(made[0], made[1], loss=made[2] if len(made) > 2 else None)


def _resolve(name: str) -> Any:
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"--model {name}: {error}; {_FORM}") from error
    except Exception as error:
        raise InputError(f"--model {name}: importing it raises {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(folder)
    if not callable(found):
        raise InputError(f"--model {name} is a {type(found).__name__}; {_FORM}")
    return found
