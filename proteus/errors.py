"""The errors a user can meet, one family per part of the input.

::

    ProteusError
    ├── InputError       (ValueError)    a file, a flag or an argument
    ├── ModelError       (ValueError)    the model graph or its config
    ├── TopologyError    (ValueError)    the cluster or a topology file
    ├── StrategyError    (ValueError)    the strategy tree, a degree, a schedule
    ├── SimulationError  (RuntimeError)  a task graph that cannot finish
    └── Stopped                          a simulation that somebody ended: no fault of the input

A message says where (file and line, or tree path), which rule, the actual
numbers, and what to change.  Inner code raises short; the public call adds
the context once with :func:`context`.  ``assert`` marks our own bugs only.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

#: a message is to be read at a glance
_MAX_NAMES = 20


class ProteusError(Exception):
    """Base of every error that Proteus raises on purpose."""


class InputError(ProteusError, ValueError):
    """A file, a flag or an argument that cannot be used."""


class ModelError(ProteusError, ValueError):
    """A model config or graph that is inconsistent."""


class TopologyError(ProteusError, ValueError):
    """A cluster or topology file that cannot be used."""


class StrategyError(ProteusError, ValueError):
    """A strategy that cannot be carried out on this model and cluster."""


class SimulationError(ProteusError, RuntimeError):
    """A task graph that cannot finish."""


class Stopped(ProteusError):
    """A simulation that was ended by :meth:`proteus.Progress.stop`."""


@contextmanager
def context(where: str) -> Iterator[None]:
    """Put `where` in front of the message of a :class:`ProteusError`.

    >>> with context("layers.3.attention"):
    ...     raise StrategyError("tp=8 does not divide 71 heads")
    Traceback (most recent call last):
    ...
    proteus.errors.StrategyError: layers.3.attention: tp=8 does not divide 71 heads
    """
    try:
        yield
    except ProteusError as error:
        raise type(error)(f"{where}: {error}") from error


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Say which extra of the package `what` needs, where an import in the block finds a library missing.

    >>> with needs_extra("lab", "the workbench"):
    ...     import no_such_library
    Traceback (most recent call last):
    ...
    proteus.errors.InputError: the workbench needs no_such_library; install it: pip install 'proteus-sim[lab]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith(("proteus.", "proteus_widgets.")):
            raise  # a fault of ours
        raise InputError(f"{what} needs {error.name}; install it: pip install 'proteus-sim[{extra}]'") from error


def unknown(noun: str, name: str, known: Iterable[str]) -> str:
    """The message for an unknown name, with the nearest known ones.

    >>> unknown("model", "lama3-8b", ["llama3-8b", "gpt2"])
    "unknown model 'lama3-8b'; nearest: llama3-8b"
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    tail = f"nearest: {', '.join(near)}" if near else f"known: {', '.join(names[:_MAX_NAMES])}{more}"
    return f"unknown {noun} {name!r}; {tail}"
