"""The error seen in predictions: kernels, the host and whole steps.

``data/residuals.json`` holds the numbers, written by ``benchmarks/fit_residuals.py``
from measurements that took no part in the fits.  All are standard deviations
of the logarithm of a time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any


class StepKind(StrEnum):
    """Steps that are predicted about equally well."""

    TRANSFORMER = "transformer"
    EXPERTS = "experts"
    OTHER = "other"  # convolutions, and what has neither


@cache
def table() -> dict[str, Any]:
    """The file as it is."""
    text = resources.files("proteus.costs").joinpath("data/residuals.json").read_text("utf-8")
    residuals: dict[str, Any] = json.loads(text)
    return residuals


@dataclass(frozen=True, slots=True)
class Spread:
    """What a curve is off by.

    Parameters
    ----------
    shared
        The same for all its kernels: how far whole sources of measurements lie from it.
    own
        Different for every kernel: how far those of one source lie apart.
    """

    shared: float
    own: float


def of_curve(family: str, key: str, mean_error: float, *, is_borrowed: bool) -> Spread:
    """What a curve is off by on a source that it was not fitted to.

    Parameters
    ----------
    family, key
        Of the kernels: ``gemm``, ``half``.
    mean_error
        Mean absolute error of the curve on the sources of its own chip.
    is_borrowed
        The curve was measured on another chip, or at another dtype.

    Notes
    -----
    A curve may lie near its own few sources and still not be better on the
    next one than its family is elsewhere; so the family's error counts where
    it is larger.

    >>> of_curve("gemm", "half", 0.0, is_borrowed=True).shared > of_curve("gemm", "half", 0.0, is_borrowed=False).shared
    True
    """
    rows = table()["kernels"][family]["borrowed" if is_borrowed else "own"]
    row = rows.get(key, rows["all"])
    worse = max(1.0, mean_error / row["mean_error"])
    return Spread(row["shared"] * worse, row["own"] * worse)


def host_sigma() -> float:
    """Spread of the time of steps that the host's launches set."""
    return float(table()["host"])


def step_sigma(kind: StepKind) -> float:
    """Spread of whole steps that neither kernels, links nor host explain."""
    return float(table()["step"][kind])


def calibrated_share() -> float:
    """What is left of the spread of a step once a step of the same machine was measured."""
    return float(table()["calibrated"])
