"""What each control may be set to, and why not to the rest.

There is one source of truth: a value is possible when the recipe takes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from proteus.errors import ProteusError
from proteus.model.graph import Model
from proteus.strategy import StrategyTree
from proteus.strategy.config import RECOMPUTES
from proteus.strategy.degrees import num_experts, possible_tensor_degrees
from proteus.strategy.schedule import SCHEDULES
from proteus_widgets.settings import Settings, follow

#: choices that do not depend on the model or the cluster
FIXED: dict[str, tuple[tuple[Any, str], ...]] = {
    "schedule": tuple((name, name) for name in SCHEDULES),
    "zero": ((0, "0 · nothing"), (1, "1 · optimizer"), (2, "2 · + gradients"), (3, "3 · + parameters")),
    "recompute": tuple((name, name) for name in RECOMPUTES),
    "sequence_parallel": ((False, "off"), (True, "on")),
    "precision": tuple((name, name) for name in ("bf16", "fp16", "fp8", "fp8-rowwise", "nvfp4", "fp32", "tf32")),
    "optimizer": (("adam", "Adam"), ("sgd", "SGD")),
}
MOST_DEGREES = 12  # of a long list, those nearest to powers of two are enough for a menu


@dataclass(frozen=True, slots=True)
class Option:
    """A value of a control; `reason` says why it is impossible, empty when it is not."""

    value: Any
    label: str
    reason: str = ""


def _powers(limit: int) -> set[int]:
    return {2**k for k in range(limit.bit_length()) if 2**k <= limit}


def _degrees(candidates: Iterable[int], limit: int, current: int) -> list[int]:
    found = sorted({c for c in candidates if 1 <= c <= limit} | {current})
    if len(found) > MOST_DEGREES:
        found = sorted(_powers(limit) | {current})
    return found


def candidates(field: str, settings: Settings, model: Model, num_devices: int) -> list[tuple[Any, str]]:
    """Values worth showing, possible or not, with their labels."""
    if field in FIXED:
        return list(FIXED[field])
    now = getattr(settings, field)
    match field:
        case "tp":
            values = _degrees(
                set(possible_tensor_degrees(model)) | _powers(min(num_devices, 64)), min(num_devices, 64), now
            )
        case "dp":
            values = _degrees(range(1, num_devices + 1), num_devices, now)
        case "pp":
            blocks = max(block.count for block in model.blocks)
            divisors = {p for p in range(1, blocks + 1) if blocks % p == 0}
            values = _degrees(divisors | _powers(min(num_devices, 64)), min(num_devices, blocks), now)
        case "cp":
            values = _degrees(_powers(64), min(num_devices, 64), now)
        case "ep":
            experts = num_experts(model)
            values = _degrees(_powers(max(experts, 1)), max(experts, 1), now)
        case "virtual_stages":
            values = _degrees(range(1, 9), 8, now)
        case "micro_batch":
            values = sorted(_powers(64) | {now})
        case _:
            values = [now]
    return [(value, str(value)) for value in values]


def why_not(settings: Settings, model: Model, num_devices: int) -> str:
    """Empty when the recipe takes `settings`, else the rule that they break."""
    needed = settings.dp * settings.tp * settings.pp * settings.cp
    if needed > num_devices:
        return f"needs {needed} GPUs, the cluster has {num_devices}"
    try:
        StrategyTree(model).parallelize(**settings.to_dict())
    except ProteusError as error:
        return str(error).partition("; possible:")[0]
    return ""


def possible(field: str, settings: Settings, model: Model, num_devices: int) -> tuple[Option, ...]:
    """All options of `field`; each is tried with the degrees that would follow it."""
    found = []
    for value, label in candidates(field, settings, model, num_devices):
        trial = follow(replace(settings, **{field: value}), frozenset({field}), num_devices)
        found.append(Option(value, label, why_not(trial, model, num_devices)))
    return tuple(found)


def repair(settings: Settings, model: Model, num_devices: int) -> Settings:
    """The settings nearest to `settings` that another model or cluster can carry.

    Degrees give way one after another, each to the largest possible value
    that is not above the present one; dp fills what they leave.
    """
    if not why_not(settings, model, num_devices):
        return settings
    smallest = replace(settings, dp=1, tp=1, pp=1, cp=1, ep=1, virtual_stages=1, schedule="1f1b", zero=settings.zero)
    fitted = smallest
    for name in ("tp", "pp", "cp", "ep"):
        for value in range(getattr(settings, name), 0, -1):
            trial = fitted.changed(**{name: value})
            if name == "ep":
                trial = replace(trial, dp=value)
            if not why_not(trial, model, num_devices):
                fitted = trial
                break
    return follow(fitted, frozenset({"cluster"}), num_devices)
