"""Kinds of values that a field of :class:`~proteus.strategy.plan.Plan` takes: checked, read from text, written as text.

There is one kind per sort of value, and every way in uses it: Python, the
command line, YAML and the controls of the workbench.  ``check`` takes a
Python value, ``parse`` the text of a flag; both give the value as the plan
keeps it, or raise ``ValueError`` with the rule that was broken.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from proteus.errors import unknown

#: no degree, batch or count is larger; a larger one is a slip of the keyboard
MAX_COUNT = 2**31


class Kind(Protocol):
    """A sort of value."""

    @property
    def rule(self) -> str:
        """What a value must be, for messages: ``a whole number of at least 1``."""
        ...

    @property
    def metavar(self) -> str:
        """What stands for the value in the help of a flag."""
        ...

    def check(self, value: object) -> Any:
        """The value as the plan keeps it; ValueError where it breaks the rule."""
        ...

    def parse(self, text: str) -> Any:
        """The value that the text of a flag means; ValueError where it means none."""
        ...

    def text(self, value: Any) -> str:
        """The text that :meth:`parse` reads as `value`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A whole number, or one of a few words that stand for one.

    >>> Whole(least=1, words=("fill",)).check("fill"), Whole(least=1).check(8)
    ('fill', 8)
    >>> Whole(least=1).check(True)
    Traceback (most recent call last):
    ...
    ValueError: a whole number of at least 1
    """

    least: int
    most: int = MAX_COUNT
    words: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        range_ = f"from {self.least} to {self.most}" if self.most < MAX_COUNT else f"of at least {self.least}"
        return " or ".join([f"a whole number {range_}", *map(repr, self.words)])

    @property
    def metavar(self) -> str:
        return "|".join(["N", *self.words])

    def check(self, value: object) -> int | str:
        if isinstance(value, str) and value in self.words:
            return value
        is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if not is_whole or not self.least <= int(value) <= self.most:  # type: ignore[call-overload]
            raise ValueError(self.rule)
        return int(value)  # type: ignore[call-overload]

    def parse(self, text: str) -> int | str:
        return self.check(int(text) if text.strip().isdecimal() and len(text) < 20 else text)

    def text(self, value: int | str) -> str:
        return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """A finite number.

    >>> Real(above=0.0, unit="bytes").parse("25e6")
    25000000.0
    """

    least: float = -math.inf
    above: float = -math.inf
    below: float = math.inf
    unit: str = ""

    @property
    def rule(self) -> str:
        parts = [f"of at least {self.least:g}"] if self.least > -math.inf else []
        parts += [f"above {self.above:g}"] if self.above > -math.inf else []
        parts += [f"below {self.below:g}"] if self.below < math.inf else []
        return " ".join(["a finite number", " and ".join(parts), f"[{self.unit}]" if self.unit else ""]).strip()

    @property
    def metavar(self) -> str:
        return self.unit.upper() or "X"

    def check(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise ValueError(self.rule)
        number = float(value)
        if not (math.isfinite(number) and self.least <= number < self.below and number > self.above):
            raise ValueError(self.rule)
        return number

    def parse(self, text: str) -> float:
        try:
            return self.check(float(text))
        except ValueError:
            raise ValueError(self.rule) from None

    def text(self, value: float) -> str:
        return repr(value)


@dataclass(frozen=True, slots=True)
class Switch:
    """True or False.

    >>> Switch().parse("true")
    True
    """

    rule: ClassVar[str] = "True or False"
    metavar: ClassVar[str] = "true|false"

    def check(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError(self.rule)
        return value

    def parse(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(self.rule)
        return text.lower() == "true"

    def text(self, value: bool) -> str:
        return str(value).lower()


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few names; `names` is asked when it is needed, since some lists live in data files.

    >>> Choice(lambda: ("none", "full"), "recompute").check("ful")
    Traceback (most recent call last):
    ...
    ValueError: unknown recompute 'ful'; nearest: full
    """

    names: Callable[[], Iterable[str]]
    what: str

    @property
    def rule(self) -> str:
        return f"one of {', '.join(self.names())}"

    @property
    def metavar(self) -> str:
        return "NAME"

    def check(self, value: object) -> str:
        known = tuple(self.names())
        if not isinstance(value, str):
            raise ValueError(self.rule)
        if value not in known:
            raise ValueError(unknown(self.what, value, known))
        return value

    def parse(self, text: str) -> str:
        return self.check(text.strip())

    def text(self, value: str) -> str:
        return value


@dataclass(frozen=True, slots=True)
class Names:
    """Names in a row: any, or each one of a few.

    >>> Names(lambda: ("optimizer", "activation"), "tensor role").parse("optimizer,activation")
    ('optimizer', 'activation')
    """

    names: Callable[[], Iterable[str]] | None = None
    what: str = "name"

    @property
    def rule(self) -> str:
        return "a row of names" + (f" out of {', '.join(self.names())}" if self.names is not None else "")

    @property
    def metavar(self) -> str:
        return "NAME,..."

    def check(self, value: object) -> tuple[str, ...]:
        if isinstance(value, str):
            raise ValueError(f"{self.rule}, such as ({value!r},)")
        if not isinstance(value, Iterable):
            raise ValueError(self.rule)
        found = tuple(value)
        known = None if self.names is None else tuple(self.names())
        for name in found:
            if not isinstance(name, str) or not name:
                raise ValueError(self.rule)
            if known is not None and name not in known:
                raise ValueError(unknown(self.what, name, known))
            if found.count(name) > 1:
                raise ValueError(f"{self.rule}; {name!r} stands there twice")
        return found

    def parse(self, text: str) -> tuple[str, ...]:
        return self.check(tuple(part.strip() for part in text.split(",") if part.strip()))

    def text(self, value: tuple[str, ...]) -> str:
        return ",".join(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wholes:
    """Whole numbers in a row.

    >>> Wholes(least=1).parse("8,8,7,9")
    (8, 8, 7, 9)
    """

    least: int

    @property
    def rule(self) -> str:
        return f"a row of whole numbers of at least {self.least}"

    @property
    def metavar(self) -> str:
        return "N,N,..."

    def check(self, value: object) -> tuple[int, ...]:
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise ValueError(self.rule)
        each = Whole(least=self.least)
        try:
            found = tuple(int(each.check(item)) for item in value)
        except ValueError:
            raise ValueError(self.rule) from None
        if not found:
            raise ValueError(self.rule)
        return found

    def parse(self, text: str) -> tuple[int, ...]:
        try:
            return self.check(tuple(int(part) for part in text.split(",")))
        except ValueError:
            raise ValueError(self.rule) from None

    def text(self, value: tuple[int, ...]) -> str:
        return ",".join(map(str, value))
