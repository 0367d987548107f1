"""What to change: the neighbours of a strategy, tried one by one.

A neighbour differs in one setting (and in what follows from it).  Each is
simulated, so a gain is what the same simulator would show, not an estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from proteus.errors import ProteusError, Stopped
from proteus_widgets.moment import Moment, Outcome
from proteus_widgets.options import possible
from proteus_widgets.settings import Settings, follow

#: settings that change how the same training is carried out, not what is trained
TRIED = ("tp", "pp", "cp", "ep", "micro_batch", "schedule", "virtual_stages", "zero", "sequence_parallel", "recompute")
DEGREES = ("tp", "pp", "cp", "ep", "micro_batch", "virtual_stages")
MOST = 3
LEAST_GAIN = 0.005  # smaller gains are not worth a change


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A change and what it brings.

    `gain` is the share of time saved per sample; a strategy that fits where
    the present one does not comes first, whatever its speed.
    """

    label: str
    changes: dict[str, object]
    gain: float
    fits: bool


def neighbours(moment: Moment) -> list[Settings]:
    """Settings one step away, those that the recipe refuses left out."""
    settings, devices = moment.settings, moment.cluster.num_devices
    found = []
    for name in TRIED:
        options = possible(name, settings, moment.model, devices)
        values = [option.value for option in options]
        now = values.index(getattr(settings, name)) if getattr(settings, name) in values else -1
        for at, option in enumerate(options):
            if at == now or option.reason or (name in DEGREES and abs(at - now) > 1):
                continue
            found.append(follow(replace(settings, **{name: option.value}), frozenset({name}), devices))
    return found


def describe(now: Settings, then: Settings) -> str:
    """The difference in words.

    >>> describe(Settings(tp=4, dp=2), Settings(tp=2, dp=4))
    'dp 2 → 4, tp 4 → 2'
    """
    before, after = now.to_dict(), then.to_dict()
    return ", ".join(
        f"{name.replace('_', ' ')} {before[name]} → {after[name]}" for name in before if before[name] != after[name]
    )


def suggest(
    outcome: Outcome,
    run: Callable[[Moment], Outcome],
) -> tuple[Suggestion, ...]:
    """The most useful changes, best first; :class:`proteus.errors.Stopped` of a run ends the search."""
    moment = outcome.moment
    found = []
    for settings in neighbours(moment):
        try:
            result = run(replace(moment, settings=settings)).result
        except Stopped:
            raise
        except ProteusError:
            continue
        gain = 1.0 - outcome.result.samples_per_s / result.samples_per_s
        rescues = result.fits and not outcome.result.fits
        if not rescues and (gain < LEAST_GAIN or not result.fits):
            continue
        now, then = moment.settings.to_dict(), settings.to_dict()
        changes = {name: value for name, value in then.items() if value != now[name]}
        found.append(
            Suggestion(label=describe(moment.settings, settings), changes=changes, gain=gain, fits=bool(result.fits))
        )
    return tuple(sorted(found, key=lambda s: -s.gain)[:MOST])
