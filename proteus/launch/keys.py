"""The keys of a launch file: each with its value and its place, taken one by one.

What nobody took is reported at the end, so that no key is ignored in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from proteus.errors import InputError

_YES = ("true", "yes", "on", "1")
_NO = ("false", "no", "off", "0")
#: what stands for "nothing is said"
_NOTHING = (None, "", "null", "none", "None", "~")
#: characters of a value that a message quotes
_MAX_QUOTED = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A key of the file.

    Parameters
    ----------
    key
        As the file writes it: ``--num-layers``, ``model.num_layers``.
    line
        Line of the file, from 1; None for an argument list.
    """

    key: str
    value: Any
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unused:
    """A key of the file that changes nothing of the model or the plan.

    Parameters
    ----------
    why
        ``no effect``: the key is known and changes neither time nor memory of a step;
        ``unknown``: the reader does not know it; otherwise what cannot be said of it.
    """

    key: str
    value: Any
    line: int | None
    why: str

    def __str__(self) -> str:
        place = "" if self.line is None else f"line {self.line}: "
        return f"{place}{self.key}={quoted(self.value)}: {self.why}"


NO_EFFECT = "no effect on the time or memory of a step"
UNKNOWN = "unknown to this reader"


def quoted(value: Any) -> str:
    text = repr(value) if not isinstance(value, str) else value
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."


def plain_name(key: str) -> str:
    """The name under which a key is looked up.

    >>> plain_name("--Num-layers"), plain_name("pipe-parallel-size")
    ('num_layers', 'pipe_parallel_size')
    """
    return key.lstrip("-").replace("-", "_").lower()


class Keys:
    """Entries by plain name, with a note of which were taken.

    >>> keys = Keys([Entry(key="--num-layers", value="24", line=3)], "run.sh")
    >>> keys.whole("num_layers"), keys.unused()
    (24, ())
    """

    def __init__(
        self, entries: Iterable[Entry], source: str, *, named: Callable[[str], str] = lambda name: name
    ) -> None:
        self.source = source
        self._entries: dict[str, Entry] = {}
        for entry in entries:  # of a flag given twice the last one counts, as argparse does
            self._entries[named(plain_name(entry.key))] = entry
        self._taken: set[str] = set()
        self._why: dict[str, str] = {}
        self._dropped: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def entry(self, name: str) -> Entry:
        return self._entries[name]

    def under(self, prefix: str) -> tuple[str, ...]:
        """Names that begin with `prefix` and a dot."""
        return tuple(name for name in self._entries if name.startswith(f"{prefix}."))

    def error(self, name: str, rule: str) -> InputError:
        entry = self._entries[name]
        place = "" if entry.line is None else f", line {entry.line}"
        return InputError(f"{self.source}{place}: {entry.key}={quoted(entry.value)}; {rule}")

    def raw(self, *names: str, default: Any = None) -> Any:
        """The value of the first of `names` that is there; all of them count as taken."""
        for name in names:
            if name in self._entries:
                self._taken.add(name)
        for name in names:
            if name in self._entries and name not in self._dropped and not _is_nothing(self._entries[name].value):
                return self._entries[name].value
        return default

    def _first(self, names: tuple[str, ...]) -> str:
        return next(
            n
            for n in names
            if n in self._entries and n not in self._dropped and not _is_nothing(self._entries[n].value)
        )

    def whole(self, *names: str, default: Any = None, least: int = 1) -> Any:
        """A whole number of at least `least`."""
        value = self.raw(*names)
        if value is None:
            return default
        number = _number(value)
        if number is None or number != int(number) or number < least:
            raise self.error(self._first(names), f"it must be a whole number of at least {least}")
        return int(number)

    def real(self, *names: str, default: Any = None) -> Any:
        value = self.raw(*names)
        if value is None:
            return default
        number = _number(value)
        if number is None:
            raise self.error(self._first(names), "it must be a number")
        return number

    def switch(self, *names: str, default: Any = None) -> Any:
        """True or False; a bare flag is True, and so are the words that people write for it."""
        value = self.raw(*names)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        text = str(value).strip().lower()
        if text in _YES or text in _NO:
            return text in _YES
        raise self.error(self._first(names), "it must be true or false")

    def word(self, *names: str, default: Any = None, known: Iterable[str] = ()) -> Any:
        """A word in lower case; one of `known` where they are given."""
        value = self.raw(*names)
        if value is None:
            return default
        if isinstance(value, (list, dict)):
            raise self.error(self._first(names), "it must be one word")
        text = str(value).strip().lower()
        if known and text not in known:
            raise self.error(self._first(names), f"it must be one of {', '.join(known)}")
        return text

    def words(self, *names: str) -> tuple[str, ...]:
        """Words in a row: a list, or text with blanks or commas between them."""
        value = self.raw(*names)
        if value is None:
            return ()
        parts = value if isinstance(value, list) else str(value).replace(",", " ").split()
        return tuple(str(part) for part in parts)

    def note(self, name: str, why: str) -> None:
        """Say why a key that is there is not used, or only in part."""
        if name in self._entries:
            self._why[name] = why

    def drop(self, name: str, why: str) -> None:
        """Take no value from this key any more; it is reported with `why`."""
        self._dropped.add(name)
        self._why[name] = why

    def ignore(self, names: Iterable[str]) -> None:
        """Keys that change neither time nor memory; ``optimizer.*`` stands for all below."""
        for pattern in names:
            below = self.under(pattern[:-2]) if pattern.endswith(".*") else (pattern,)
            for name in below:
                if name in self._entries and name not in self._taken:
                    self._why.setdefault(name, NO_EFFECT)

    def unused(self) -> tuple[Unused, ...]:
        """Every key that was not used, in the order of the file."""
        return tuple(
            Unused(key=entry.key, value=entry.value, line=entry.line, why=self._why.get(name, UNKNOWN))
            for name, entry in self._entries.items()
            if name not in self._taken or name in self._why
        )


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value in _NOTHING)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < 1e18 else None


def flat(values: Mapping[str, Any], lines: Mapping[tuple[str, ...], int], at: tuple[str, ...] = ()) -> Iterator[Entry]:
    """Entries of a nested document, with dots between the names; lists stay values.

    >>> [entry.key for entry in flat({"a": {"b": 1}, "c": [1]}, {})]
    ['a.b', 'c']
    """
    for key, value in values.items():
        path = (*at, str(key))
        if isinstance(value, Mapping) and value:
            yield from flat(value, lines, path)
        else:
            yield Entry(key=".".join(path), value=value, line=lines.get(path))
