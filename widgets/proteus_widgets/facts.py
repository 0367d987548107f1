"""What the views read off a result: one place that knows its shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proteus.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from proteus.result.band import Band
    from proteus.result.result import Result

SECONDS_PER_HOUR = 3600.0
#: relative changes below this are noise to a reader
UNCHANGED = 5e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A headline number: `more_is_better` is None where neither is."""

    label: str
    read: Callable[[Result], float]
    show: Callable[[float], str]
    more_is_better: bool | None
    tip: str = ""
    absolute: bool = False  # the change is shown as a difference of percentages


def percent(value: float) -> str:
    return f"{value:.1%}"


def metrics(result: Result, price_per_hour: float = 0.0) -> list[Metric]:
    """Headline metrics of `result`, the cost only where a price [$/GPU-hour] is set."""
    tokens = result.model.seq > 1
    rows = [
        Metric(label="Step time", read=lambda r: r.step_time_s, show=format_seconds, more_is_better=False),
        Metric(label="Tokens / s", read=lambda r: r.samples_per_s * r.model.seq, show=format_count, more_is_better=True)
        if tokens
        else Metric(label="Samples / s", read=lambda r: r.samples_per_s, show=format_count, more_is_better=True),
        Metric(
            label="MFU",
            read=lambda r: r.mfu,
            show=percent,
            more_is_better=True,
            absolute=True,
            tip="model FLOP utilisation: model FLOP per second over peak",
        ),
        Metric(label="Peak memory", read=lambda r: r.peak_memory_bytes, show=format_bytes, more_is_better=False),
        Metric(
            label="Bubble",
            read=lambda r: r.bubble_fraction,
            show=percent,
            more_is_better=False,
            absolute=True,
            tip="share of the step that devices idle because of the pipeline",
        ),
    ]
    if price_per_hour > 0 and tokens:
        rows.append(
            Metric(
                label="$ / M tokens",
                read=lambda r: cost_per_token(r, price_per_hour) * 1e6,
                show=lambda value: f"{value:.3g}",
                more_is_better=False,
            )
        )
    return rows


def cost_per_token(result: Result, price_per_hour: float) -> float:
    """What one token costs at `price_per_hour` of a GPU, in its currency."""
    price_per_s = price_per_hour * result.num_devices / SECONDS_PER_HOUR
    return price_per_s / (result.samples_per_s * result.model.seq)


def change(metric: Metric, now: float, before: float | None) -> tuple[str, bool | None]:
    """The change in words, and whether it is good."""
    if before is None or not before:
        return "", None
    relative = now / before - 1.0
    if abs(relative) < UNCHANGED:
        return "unchanged", None
    good = None if metric.more_is_better is None else (relative > 0) == metric.more_is_better
    if metric.absolute:
        return f"{(now - before) * 100:+.1f} points", good
    return f"{relative:+.1%}", good


def band_reasons(result: Result, band: Band | None = None) -> str:
    """The band of the step time and its main uncertainties, in words.

    Parameters
    ----------
    band
        None while undecided switches are still being simulated both ways.
    """
    if band is None:
        return f"{result.kernel_band}; main uncertainties: {result.kernel_band.reasons}; trying undecided switches"
    return f"{band}; main uncertainties: {band.reasons}"


def memory_verdict(result: Result) -> str:
    """Whether it fits, in words."""
    capacity = format_bytes(result.cluster.gpu(result.peak_device).memory_bytes)
    return f"fits in {capacity}" if result.fits else f"{format_bytes(result.missing_bytes)} too much for {capacity}"
