"""YAML that may come from anywhere: small, shallow, without aliases and doubled keys; every value asked for by kind."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from proteus.errors import InputError, unknown

#: files beyond this are refused [characters]; the largest chip takes 10,000
MAX_CHARACTERS = 1_000_000
#: deepest nesting; a chip's file takes 5
MAX_DEPTH = 12
#: numbers as YAML 1.2 and people write them, which YAML 1.1 takes for text: 8e-06
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)")


def load_trusted(text: str) -> Any:
    """The values of a file that ships with Proteus."""
    import yaml  # here, so that `import proteus` stays quick

    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def load_untrusted(text: str) -> Any:
    """The values of a user's file.

    Raises
    ------
    InputError
        No YAML, too long, too deep, with aliases or with a key twice in one place; the message has the line.
    """
    import yaml

    if len(text) > MAX_CHARACTERS:
        raise InputError(f"{len(text):,} characters; a GPU's file has at most {MAX_CHARACTERS:,}")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for event in yaml.parse(text, Loader=loader):
            line = event.start_mark.line + 1
            if isinstance(event, yaml.AliasEvent):
                raise InputError(f"line {line}: an alias (*{event.anchor}); write the value out")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise InputError(f"line {line}: nested more than {MAX_DEPTH} deep; a GPU's file needs 5")
        _check_keys(yaml.compose(text, Loader=loader))
        return yaml.load(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise InputError(f"{where}no YAML: {getattr(error, 'problem', None) or error}") from error
    except (ValueError, RecursionError) as error:  # a date or an integer that cannot be, as the loader meets them
        if isinstance(error, InputError):
            raise
        raise InputError(f"no YAML: {error}") from error


def _check_keys(node: Any) -> None:
    import yaml

    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise InputError(f"line {line}: a key that is not a word")
            if key.value in seen:
                raise InputError(f"line {line}: {key.value!r} stands twice; keep one")
            seen.add(key.value)
            _check_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_keys(item)


class Section:
    """A mapping of a file whose values are asked for by name and kind; `where` leads every message.

    Unknown keys are an error of :meth:`done`.
    """

    def __init__(self, values: Any, where: str) -> None:
        if not isinstance(values, dict):
            raise InputError(f"{where}: {_shown(values)} where keys with values are needed")
        for key in values:
            if not isinstance(key, str):
                raise InputError(f"{where}: the key {key!r} is not a word; put it in quotes")
        self.values: dict[str, Any] = values
        self.where = where
        self._asked: dict[str, None] = {}

    def __contains__(self, name: str) -> bool:
        self._asked[name] = None
        return self.values.get(name) is not None

    def _at(self, name: str) -> str:
        return f"{self.where}: {name}"

    def _get(self, name: str) -> Any:
        if name not in self:
            raise InputError(f"{self.where}: {name} is missing")
        return self.values[name]

    def text(self, name: str, default: str | None = None) -> str:
        """A word or sentence."""
        if default is not None and name not in self:
            return default
        value = self._get(name)
        if not isinstance(value, str) or not value.strip() or len(value) > 4000:
            raise InputError(f"{self._at(name)}: {_shown(value)} is not text")
        return value

    def word(self, name: str, known: Sequence[str], default: str | None = None) -> str:
        """One of the `known` words."""
        value = self.text(name, default)
        if value not in known:
            raise InputError(f"{self._at(name)}: {unknown('word', value, known)}")
        return value

    def words(self, name: str, known: Sequence[str] | None = None) -> tuple[str, ...]:
        """A list of words; empty where there is none."""
        value = self.values[name] if name in self else []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise InputError(f"{self._at(name)}: {_shown(value)} is not a list of words; put numbers in quotes")
        for item in value:
            if known is not None and item not in known:
                raise InputError(f"{self._at(name)}: {unknown('word', item, known)}")
        return tuple(value)

    def boolean(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self.values[name] if name in self else default
        if not isinstance(value, bool):
            raise InputError(f"{self._at(name)}: {_shown(value)} is neither true nor false")
        return value

    def number(
        self, name: str, default: float | None = None, *, minimum: float = 0.0, maximum: float = math.inf
    ) -> float:
        """A finite number from `least` to `most`."""
        if default is not None and name not in self:
            return default
        return _number(self._get(name), self._at(name), minimum, maximum)

    def numbers(self, name: str, count: int, *, minimum: float = 0.0, maximum: float = math.inf) -> tuple[float, ...]:
        """A list of `count` numbers."""
        value = self._get(name)
        if not isinstance(value, list) or len(value) != count:
            raise InputError(f"{self._at(name)}: {_shown(value)} is not a list of {count} numbers")
        return tuple(_number(item, self._at(name), minimum, maximum) for item in value)

    def whole(self, name: str, default: int | None = None, *, minimum: int = 0, maximum: int = 10**15) -> int:
        """A whole number from `least` to `most`."""
        if default is not None and name not in self:
            return default
        value = self._get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise InputError(f"{self._at(name)}: {_shown(value)} is not a whole number from {minimum} to {maximum}")
        return value

    def section(self, name: str) -> Section:
        """A mapping below; empty where there is none."""
        return Section(self.values[name] if name in self else {}, f"{self.where}: {name}")

    def sections(self) -> Iterable[tuple[str, Section]]:
        """All below, each a mapping."""
        for name in self.values:
            self._asked[name] = None
            yield name, Section(self.values[name], f"{self.where}: {name}")

    def done(self) -> None:
        """Every key was asked for; else the first that was not is an error."""
        for name in self.values:
            if name not in self._asked:
                raise InputError(f"{self.where}: {unknown('key', name, self._asked)}")


def _number(value: Any, where: str, minimum: float, maximum: float) -> float:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{where}: {_shown(value)} is not a number")
    try:
        as_float = float(value)
    except OverflowError:
        as_float = math.inf
    if not (math.isfinite(as_float) and minimum <= as_float <= maximum):
        limit = f"from {minimum:g} to {maximum:g}" if math.isfinite(maximum) else f"finite and at least {minimum:g}"
        raise InputError(f"{where}: {_shown(value)}; it must be {limit}")
    return as_float


def _shown(value: Any) -> str:
    """A value of a file, short enough for a message."""
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
