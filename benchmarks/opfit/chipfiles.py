"""Fitted curves into the files of chips: everything from the mark on is written, what stands above it stays."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "proteus" / "hardware" / "chips"
MARK = "# Written by benchmarks/fit_ops.py from published measurements; do not edit by hand.\n"
#: family -> dtype or variant -> params, sigma, rows, source
Curves = Mapping[str, Mapping[str, Mapping[str, Any]]]


def with_curves(text: str, curves: Curves) -> str:
    """The text of a chip's file with other curves.

    >>> print(with_curves("chip: x\\n", {"memory": {"stream": {"params": {"floor_s": 2e-6}, "sigma": 0.1, "rows": 1,
    ...       "source": "me"}}}))
    chip: x
    <BLANKLINE>
    # Written by benchmarks/fit_ops.py from published measurements; do not edit by hand.
    curves:
      memory:
        stream:
          params: {floor_s: 2.0e-06}
          sigma: 0.1
          rows: 1
          source: "me"
    <BLANKLINE>
    """
    above = text.partition(MARK)[0].rstrip("\n") + "\n"
    return above + ("\n" + MARK + "\n".join(_lines(curves)) + "\n" if curves else "")


def write(chip: str, curves: Curves) -> None:
    """Write the curves of a chip into its file."""
    path = FOLDER / f"{chip}.yaml"
    path.write_text(with_curves(path.read_text("utf-8"), curves), "utf-8")


def _lines(curves: Curves) -> Iterator[str]:
    yield "curves:"
    for family, keys in curves.items():
        yield f"  {family}:"
        for key, row in keys.items():
            params = ", ".join(f"{name}: {_number(value)}" for name, value in row["params"].items())
            yield f"    {key}:"
            yield f"      params: {{{params}}}"
            yield f"      sigma: {_number(row['sigma'])}"
            yield f"      rows: {row['rows']}"
            yield f"      source: {json.dumps(row['source'], ensure_ascii=False)}"


def _number(value: float) -> str:
    """As YAML 1.1 reads a number: with a point before the exponent."""
    text = repr(float(value))
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}.0e{exponent}" if e and "." not in mantissa else text
