"""Modules that can be called as the function they are named after; see ``docs/decisions/callable-modules.md``."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def make_callable(module: str, function: Callable[..., Any]) -> None:
    """Let calling the module of that name call `function`.

    ``proteus.search`` is the package ``proteus/search/`` and, called, the
    function in it: were the name bound to the function, ``import
    proteus.search.space as sp`` would find no ``space``.

    Examples
    --------
    >>> import proteus as pt
    >>> import proteus.search.space as sp
    >>> callable(pt.search), sp.divisors(6)
    (True, [1, 2, 3, 6])
    """

    class CallableModule(ModuleType):
        """A module; its call signature and help are those of the function."""

        @functools.wraps(function)
        def __call__(self, *args: Any, **settings: Any) -> Any:
            return function(*args, **settings)

    loaded = sys.modules[module]
    # "Customizing module attribute access" in the language reference: a module's class may be replaced by a subclass
    loaded.__class__ = CallableModule
    loaded.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]  # before that of __call__
