"""What each control may be set to, and why not to the rest.

There is one source of truth: a value is possible when the change to it can be
carried out, with everything else as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from proteus.arguments import Choice, Switch, Whole
from proteus.errors import ProteusError, StrategyError, unknown
from proteus.strategy import StrategyTree
from proteus.strategy.degrees import num_experts, possible_tensor_degrees
from proteus_widgets.changes import changed, check_fits
from proteus_widgets.fields import BY_NAME, DEGREES, Field, is_word, said, shown
from proteus_widgets.moment import Moment

#: of a long list, those nearest to powers of two are enough for a menu
MAX_DEGREES = 12
#: no menu goes further
MAX_RANKS, MAX_CHUNKS, MAX_SAMPLES = 64, 8, 64


@dataclass(frozen=True, slots=True)
class Option:
    """A value of a control; `reason` says why it is impossible, empty when it is not.

    None is the value of a field that the user says nothing of.
    """

    value: Any
    label: str
    reason: str = ""


def _powers(limit: int) -> set[int]:
    return {2**k for k in range(limit.bit_length()) if 2**k <= limit}


def _degrees(candidates: Iterable[int], limit: int, current: int) -> list[int]:
    degrees = sorted({c for c in candidates if 1 <= c <= limit} | {current})
    if len(degrees) > MAX_DEGREES:
        degrees = sorted(_powers(limit) | {current})
    return degrees


def candidates(field: Field, moment: Moment) -> list[Any]:
    """Values worth showing, possible or not."""
    kind = field.kind
    match kind:
        case Choice():
            return list(kind.names())
        case Switch():
            return [False, True]
        case Whole() if field.name not in DEGREES:
            return list(range(kind.minimum, kind.maximum + 1))
        case Whole():
            return [*kind.words, *_numbers(field.name, moment)]
        case _:
            return []


def _numbers(name: str, moment: Moment) -> list[int]:
    model, devices = moment.model, moment.cluster.num_devices
    value = moment.tree.decided.value(name)
    now = value if isinstance(value, int) else 1
    ranks = min(devices, MAX_RANKS)
    match name:
        case "tp" | "etp":
            return _degrees(set(possible_tensor_degrees(model)) | _powers(ranks), ranks, now)
        case "dp" | "shard":
            return _degrees(range(1, devices + 1), devices, now)
        case "pp":
            blocks = max(block.count for block in model.blocks)
            divisors = {p for p in range(1, blocks + 1) if blocks % p == 0}
            return _degrees(divisors | _powers(ranks), min(devices, blocks), now)
        case "cp":
            return _degrees(_powers(MAX_RANKS), ranks, now)
        case "ep":
            experts = max(num_experts(model), 1)
            return _degrees(_powers(experts), experts, now)
        case "virtual_stages":
            return _degrees(range(1, MAX_CHUNKS + 1), MAX_CHUNKS, now)
        case _:
            return sorted(_powers(MAX_SAMPLES) | {now})


def attempt(moment: Moment, changes: dict[str, Any]) -> StrategyTree:
    """The tree of the moment with `changes`.

    Raises
    ------
    ProteusError
        The rule that they break.
    """
    tree = changed(moment.tree, changes).on_devices(moment.cluster.num_devices)
    check_fits(tree, moment.cluster)
    return tree


def _tried(field: Field, value: Any, moment: Moment) -> tuple[str, StrategyTree | None]:
    """(why a value is impossible, the tree where it is not)."""
    try:
        tree = attempt(moment, {field.name: value})
    except ProteusError as error:
        return str(error).partition("; possible:")[0], None
    holds = tree.decided.value(field.name)
    if value is not None and holds != value and not is_word(field, value):
        return f"with the other settings this becomes {field.text(holds)}", tree
    return "", tree


def possible(name: str, moment: Moment) -> tuple[Option, ...]:
    """All options of a field that has a menu, each tried with everything else as it is.

    Raises
    ------
    StrategyError
        A name that is not a field of the plan.
    """
    if name not in BY_NAME:
        raise StrategyError(unknown("field of a plan", name, BY_NAME))
    field = BY_NAME[name]
    options = []
    values = candidates(field, moment)
    for value in [None, *values] if offers_default(field, moment) else values:
        reason, tree = _tried(field, value, moment)
        text = ("default" if value is None else field.text(value)) if tree is None else label(field, value, tree)
        options.append(Option(value, text, reason))
    return tuple(options)


def label(field: Field, value: Any, tree: StrategyTree) -> str:
    """How a menu names a value of a field, `tree` being what it leads to."""
    if value is None:
        return f"{shown(tree, field.name)} (default)"
    return shown(tree, field.name) if is_word(field, value) else field.text(value)


def offers_default(field: Field, moment: Moment) -> bool:
    """Whether there is an entry for saying nothing, which means something else than one of the values."""
    return moment.tree.plan is not None and not field.plain_default


def current(field: Field, moment: Moment) -> Any:
    """The value that the control of a field shows; None for a field that the user says nothing of."""
    word = said(moment.tree, field.name)
    if is_word(field, word) or (word is None and offers_default(field, moment)):
        return word
    value = moment.tree.decided.value(field.name)
    return field.kind.text(value) if field.form == "text" and value is not None else value
