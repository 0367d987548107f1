"""Kinds of values that public calls and the fields of a plan take: checked, read from text, written as text.

There is one kind per sort of value, and every way in uses it: Python, the
command line, YAML and the controls of the workbench.  ``check`` takes a
Python value, ``parse`` the text of a flag; both give the value as it is kept,
or raise ``ValueError`` with the rule that was broken.  :func:`takes` checks the
arguments of a public call, so that none ends in a bare Python error.
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, ParamSpec, Protocol, TypeVar

from proteus.errors import InputError, ProteusError, unknown

P = ParamSpec("P")
R = TypeVar("R")

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

    >>> Whole(minimum=1, words=("fill",)).check("fill"), Whole(minimum=1).check(8)
    ('fill', 8)
    >>> Whole(minimum=1).check(True)
    Traceback (most recent call last):
    ...
    ValueError: a whole number of at least 1
    """

    minimum: int
    maximum: int = MAX_COUNT
    words: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        range_ = f"from {self.minimum} to {self.maximum}" if self.maximum < MAX_COUNT else f"of at least {self.minimum}"
        return " or ".join([f"a whole number {range_}", *map(repr, self.words)])

    @property
    def metavar(self) -> str:
        return "|".join(["N", *self.words])

    def check(self, value: object) -> int | str:
        if isinstance(value, str) and value in self.words:
            return value
        is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        if not is_whole or not self.minimum <= int(value) <= self.maximum:  # type: ignore[call-overload]
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

    minimum: float = -math.inf
    above: float = -math.inf
    below: float = math.inf
    unit: str = ""

    @property
    def rule(self) -> str:
        parts = [f"of at least {self.minimum:g}"] if self.minimum > -math.inf else []
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
        if not (math.isfinite(number) and self.minimum <= number < self.below and number > self.above):
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
        names = tuple(value)
        known = None if self.names is None else tuple(self.names())
        for name in names:
            if not isinstance(name, str) or not name:
                raise ValueError(self.rule)
            if known is not None and name not in known:
                raise ValueError(unknown(self.what, name, known))
            if names.count(name) > 1:
                raise ValueError(f"{self.rule}; {name!r} is given twice")
        return names

    def parse(self, text: str) -> tuple[str, ...]:
        return self.check(tuple(part.strip() for part in text.split(",") if part.strip()))

    def text(self, value: tuple[str, ...]) -> str:
        return ",".join(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wholes:
    """Whole numbers in a row.

    >>> Wholes(minimum=1).parse("8,8,7,9")
    (8, 8, 7, 9)
    """

    minimum: int

    @property
    def rule(self) -> str:
        return f"a row of whole numbers of at least {self.minimum}"

    @property
    def metavar(self) -> str:
        return "N,N,..."

    def check(self, value: object) -> tuple[int, ...]:
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise ValueError(self.rule)
        each = Whole(minimum=self.minimum)
        try:
            numbers_ = tuple(int(each.check(item)) for item in value)
        except ValueError:
            raise ValueError(self.rule) from None
        if not numbers_:
            raise ValueError(self.rule)
        return numbers_

    def parse(self, text: str) -> tuple[int, ...]:
        try:
            return self.check(tuple(int(part) for part in text.split(",")))
        except ValueError:
            raise ValueError(self.rule) from None

    def text(self, value: tuple[int, ...]) -> str:
        return ",".join(map(str, value))


class Rule(Protocol):
    """What an argument of a call must be: a kind, or one of those below, which no flag has."""

    @property
    def rule(self) -> str: ...

    def check(self, value: object) -> Any: ...


@dataclass(frozen=True, slots=True)
class Text:
    """A text that is not empty.

    >>> Text("the name of a model").check("gpt2")
    'gpt2'
    """

    rule: str = "text"

    def check(self, value: object) -> str:
        if not isinstance(value, str) or not value:
            raise ValueError(self.rule)
        return value


@dataclass(frozen=True, slots=True)
class FilePath:
    """The path of a file, as text or :class:`os.PathLike`."""

    rule: ClassVar[str] = "the path of a file"

    def check(self, value: object) -> str | os.PathLike[str]:
        if not isinstance(value, str | os.PathLike):
            raise ValueError(self.rule)
        path = os.fspath(value)
        if not isinstance(path, str) or not path or "\0" in path:
            raise ValueError(self.rule)
        return value


@dataclass(frozen=True, slots=True)
class A:
    """An instance of a class, or of one of several.

    >>> A(int).check("x")
    Traceback (most recent call last):
    ...
    ValueError: an int
    """

    kinds: type | tuple[type, ...]
    words: str = ""

    @property
    def rule(self) -> str:
        kinds = self.kinds if isinstance(self.kinds, tuple) else (self.kinds,)
        names = " or ".join(kind.__name__ for kind in kinds)
        return self.words or f"{'an' if names[0] in 'aeiouAEIOU' else 'a'} {names}"

    def check(self, value: object) -> Any:
        if not isinstance(value, self.kinds):
            raise ValueError(self.rule)
        return value


@dataclass(frozen=True, slots=True)
class Maybe:
    """What another rule says, or None.

    >>> Maybe(Whole(minimum=1)).check(None)
    """

    kind: Rule

    @property
    def rule(self) -> str:
        return f"{self.kind.rule}, or None"

    def check(self, value: object) -> Any:
        return None if value is None else self.kind.check(value)


@dataclass(frozen=True, slots=True)
class Either:
    """What one of several rules says, the first that takes the value.

    >>> Either(Whole(minimum=0), Text("a name")).check("mlx5_0")
    'mlx5_0'
    """

    kinds: tuple[Rule, ...]

    def __init__(self, *kinds: Rule) -> None:
        object.__setattr__(self, "kinds", kinds)

    @property
    def rule(self) -> str:
        return " or ".join(kind.rule for kind in self.kinds)

    def check(self, value: object) -> Any:
        for kind in self.kinds:
            try:
                return kind.check(value)
            except ValueError:
                continue
        raise ValueError(self.rule)


@dataclass(frozen=True, slots=True)
class Each:
    """A row of what another rule says, as a tuple."""

    kind: Rule
    minimum: int = 0

    @property
    def rule(self) -> str:
        return f"a row of {self.kind.rule}"

    def check(self, value: object) -> tuple[Any, ...]:
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise ValueError(self.rule)
        row = tuple(value)
        if len(row) < self.minimum:
            raise ValueError(f"{self.rule}, at least {self.minimum}")
        return tuple(self.kind.check(item) for item in row)


def takes(error: type[ProteusError] = InputError, /, **rules: Rule) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Check the named arguments of a public call before it runs.

    Parameters
    ----------
    error
        What a broken rule raises.
    rules
        Argument → what it must be; arguments that are not named pass unchecked.

    Examples
    --------
    >>> @takes(nodes=Whole(minimum=1))
    ... def hosts(nodes=1):
    ...     return nodes
    >>> hosts(nodes=2.5)
    Traceback (most recent call last):
    ...
    proteus.errors.InputError: hosts: nodes=2.5; it must be a whole number of at least 1
    """

    def decorate(call: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(call)
        assert set(rules) <= set(signature.parameters), f"{call}: no such argument among {sorted(rules)}"

        @functools.wraps(call)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as wrong:  # an argument too many, too few, or one that does not exist
                raise error(f"{call.__name__}(): {wrong}; it takes {signature}") from None
            for name, value in bound.arguments.items():
                rule = rules.get(name)
                if rule is not None:
                    try:
                        bound.arguments[name] = rule.check(value)
                    except ProteusError:
                        raise
                    except ValueError as broken:
                        raise error(f"{call.__name__}: {broken_rule(name, value, broken)}") from None
            return call(*bound.args, **bound.kwargs)

        return checked

    return decorate


def check_fields(instance: Any, error: type[ProteusError], /, **rules: Rule) -> None:
    """Check the fields of a frozen dataclass while it is made, and keep them as the rules give them."""
    for name, rule in rules.items():
        value = getattr(instance, name)
        try:
            object.__setattr__(instance, name, rule.check(value))
        except ValueError as broken:
            raise error(f"{type(instance).__name__}: {broken_rule(name, value, broken)}") from None


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of a name and a whole number in a row, as a tuple."""

    minimum: int = 1

    @property
    def rule(self) -> str:
        return f"a row of (name, whole number of at least {self.minimum}), such as (('dp', 4), ('tp', 2))"

    def check(self, value: object) -> tuple[tuple[str, int], ...]:
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise ValueError(self.rule)
        try:
            rows = [(Text().check(name), int(Whole(minimum=self.minimum).check(size))) for name, size in value]
        except (ValueError, TypeError):
            raise ValueError(self.rule) from None
        return tuple(rows)


def broken_rule(name: str, value: object, broken: ValueError) -> str:
    """What a broken rule says of an argument: its value where the rule does not name it itself."""
    text, shown = str(broken), repr(value)
    if text.startswith("unknown "):
        return f"{name}: {text}"
    return f"{name}={shown if len(shown) <= 60 else f'{shown[:57]}...'}; it must be {text}"
