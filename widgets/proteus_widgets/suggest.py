"""What to change: the neighbours of a strategy, tried one by one.

A neighbour differs in one field of the plan, and in the data-parallel degree
where other degrees leave it more or fewer devices.  Each is simulated, so a
gain is what the same simulator would show, not an estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from proteus.errors import ProteusError, Stopped
from proteus.strategy import StrategyTree
from proteus.strategy.plan import FILL
from proteus_widgets.fields import BY_NAME, differences, is_word
from proteus_widgets.moment import Moment, Outcome
from proteus_widgets.options import attempt, candidates

#: fields that change how the same training is carried out, not what is trained
TRIED = ("tp", "pp", "cp", "ep", "micro_batch", "schedule", "virtual_stages", "zero", "sequence_parallel", "recompute")
DEGREES = ("tp", "pp", "cp", "ep", "micro_batch", "virtual_stages")
#: degrees that leave devices to data parallelism
SPREAD = ("tp", "pp", "cp")
#: not every framework has the one, and the other is a search of its own
NOT_TRIED = {"recompute": ("op", "auto")}
MOST = 3
MIN_GAIN = 0.005  # smaller gains are not worth a change


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A change and what it brings.

    `gain` is the share of time saved per sample; a strategy that fits where
    the present one does not comes first, whatever its speed.
    """

    label: str
    changes: dict[str, Any]
    gain: float
    fits: bool


def neighbours(moment: Moment) -> Iterator[tuple[dict[str, Any], StrategyTree]]:
    """(changes, tree) of strategies one step away, those that cannot be carried out left out."""
    for name in TRIED:
        field, now = BY_NAME[name], moment.tree.decided.value(name)
        values = [value for value in candidates(field, moment) if not is_word(field, value)]
        at_now = values.index(now) if now in values else -1
        for at, value in enumerate(values):
            if at == at_now or value in NOT_TRIED.get(name, ()) or (name in DEGREES and abs(at - at_now) > 1):
                continue
            for changes in _ways(moment, name, value):
                try:
                    tree = attempt(moment, changes)
                except ProteusError:
                    continue
                yield changes, tree
                break


def _ways(moment: Moment, name: str, value: Any) -> Iterator[dict[str, Any]]:
    """Changes that give a field a value, the best first."""
    plan, decided = moment.tree.plan, moment.tree.decided
    if name == "schedule" and plan is not None and plan.virtual_stages is not None:
        yield {name: value, "virtual_stages": None}  # as many chunks as the schedule has of its own
    elif name in SPREAD and plan is not None and plan.dp != FILL:
        others = {degree: decided.value(degree) for degree in SPREAD} | {name: value}
        room = moment.cluster.num_devices // (others["tp"] * others["pp"] * others["cp"])
        for dp in range(room, 0, -1):
            yield {"dp": dp, name: value} if dp != decided.value("dp") else {name: value}
    else:
        yield {name: value}


def suggest(outcome: Outcome, run: Callable[[Moment], Outcome]) -> tuple[Suggestion, ...]:
    """The most useful changes, best first; :class:`proteus.errors.Stopped` of a run ends the search."""
    moment, present = outcome.moment, outcome.result
    suggestions = []
    for changes, tree in neighbours(moment):
        try:
            result = run(replace(moment, tree=tree, notes=())).result
        except Stopped:
            raise
        except ProteusError:
            continue
        gain = 1.0 - present.samples_per_s / result.samples_per_s
        rescues = result.fits and not present.fits
        if not rescues and (gain < MIN_GAIN or not result.fits):
            continue
        label = ", ".join(differences(moment.tree, tree))
        suggestions.append(Suggestion(label=label, changes=changes, gain=gain, fits=bool(result.fits)))
    return tuple(sorted(suggestions, key=lambda s: -s.gain)[:MOST])
