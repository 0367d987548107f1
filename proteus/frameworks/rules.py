"""Rules of a framework: what changes with its version and with the run."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proteus.errors import InputError
from proteus.frameworks.values import Kind

#: what a rule may ask of a run, beside the version
FACTS: Mapping[str, Kind] = {
    "precision": Kind((str,)),
    "compile": Kind((bool,)),
    "cuda_graphs": Kind((bool,)),
    "experts": Kind((bool,)),
    "lora": Kind((bool,)),
    "pure": Kind((bool,)),
    "virtual_stages": Kind((int,)),
    "gpu": Kind((str,)),
}
_COMPARISONS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_COMPARED = re.compile(r"\s*(<=|>=|==|!=|<|>)\s*(\d+(?:\.\d+)*)\s*")
_NUMBER = re.compile(r"(?<![0-9a-z.])[vr]?(\d+(?:\.\d+)*)(?![0-9a-z])")
#: what a condition writes where no version is named
UNKNOWN = "unknown"


def version_text(text: str) -> str:
    """The first version number of a text as it is written there; empty where there is none.

    >>> version_text("core_r0.7.0"), version_text("NeMo 24.05"), version_text("e156d2f")
    ('0.7.0', '24.05', '')
    """
    match = _NUMBER.search(text.lower())
    return match.group(1) if match else ""


def release(text: str) -> tuple[int, ...] | None:
    """The first version number of a text, or None.

    >>> release("v2.x"), release("24.05"), release("")
    ((2,), (24, 5), None)
    """
    number = version_text(text)
    return tuple(int(part) for part in number.split(".")) if number else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Values that hold under conditions.

    Parameters
    ----------
    conditions
        ``version`` and names of :data:`FACTS`, each with the text or the words that it must meet.
    values, defaults
        Fields of the framework, and of the plan, that they set.
    sources, tables
        Where a value is from, and the published tables that shaped it.
    """

    conditions: tuple[tuple[str, Any], ...]
    values: tuple[tuple[str, Any], ...]
    defaults: tuple[tuple[str, Any], ...]
    sources: tuple[tuple[str, str], ...]
    tables: tuple[tuple[str, tuple[str, ...]], ...]

    def holds(self, version: str, facts: Mapping[str, Any], defaults: Mapping[str, Any]) -> bool:
        """Whether all conditions are met; what is not said meets none but ``!=``."""
        for name, wanted in self.conditions:
            if name == "version":
                if not version_meets(version, wanted):
                    return False
                continue
            value = facts.get(name, defaults.get(name))
            if isinstance(wanted, str) and _COMPARED.match(wanted):
                if not _number_meets(value, wanted):
                    return False
            elif value not in (wanted if isinstance(wanted, tuple) else (wanted,)):
                return False
        return True


def version_meets(version: str, wanted: str) -> bool:
    """Whether a version lies where a condition says.

    >>> version_meets("24.05", "<24.09"), version_meets("24.09.1", "<24.09"), version_meets("", "<24.09")
    (True, False, False)
    >>> version_meets("", "unknown"), version_meets("2.1", ">=2.0, <2.2")
    (True, True)
    """
    have = release(version)
    if wanted == UNKNOWN:
        return have is None
    if have is None:
        return False
    for part in wanted.split(","):
        compare, limit = _comparison(part)
        width = max(len(have), len(limit))
        if not compare(have + (0,) * (width - len(have)), limit + (0,) * (width - len(limit))):
            return False
    return True


def check_condition(name: str, wanted: Any) -> Any:
    """A condition as rules keep it; raises InputError on one that cannot be met."""
    if name == "version":
        if not isinstance(wanted, str):
            raise InputError(f"version: {wanted!r}; write a comparison in quotes, such as '<24.09', or {UNKNOWN}")
        if wanted != UNKNOWN:
            for part in wanted.split(","):
                _comparison(part)
        return wanted
    kind = FACTS[name]
    if kind.types == (int,) and isinstance(wanted, str):
        _comparison(wanted)
        return wanted
    if isinstance(wanted, list):
        return tuple(kind.check(name, item) for item in wanted)
    return kind.check(name, wanted)


def _number_meets(value: Any, wanted: str) -> bool:
    compare, limit = _comparison(wanted)
    return bool(compare(value, limit[0])) if value is not None else compare is operator.ne


def _comparison(text: str) -> tuple[Any, tuple[int, ...]]:
    match = _COMPARED.fullmatch(text)
    if match is None:
        raise InputError(f"{text!r} is no comparison; write one such as '<24.09' or '!=1'")
    return _COMPARISONS[match.group(1)], tuple(int(part) for part in match.group(2).split("."))
