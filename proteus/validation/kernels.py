"""The error of kernel curves on sources left out of their fit; written by ``benchmarks/fit_ops.py``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from proteus.validation.report import percent

DATA = Path(__file__).with_name("data")
#: rows of the table by family and dtypes, and the error wanted
ROWS = (
    ("GEMMs, 16 bits", "gemm", ("half",), "12 %"),
    ("GEMMs, 8 bits", "gemm", ("fp8",), "12 %"),
    ("GEMMs, fp32 without tensor cores", "gemm", ("fp32",), "12 %"),
    ("attention", "attention", (), "15 %"),
    ("memory-bound", "memory", (), "15 %"),
    ("convolutions", "conv", (), "20 %"),
)


def load() -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = json.loads((DATA / "kernels.json").read_text(encoding="utf-8"))
    return rows


def mean_error(rows: Sequence[dict[str, Any]]) -> tuple[float | None, float | None]:
    """Mean over rows, and over sources.

    >>> mean_error([{"rows": 1, "error": 0.25}, {"rows": 3, "error": 0.75}, {"rows": 0, "error": None}])
    (0.625, 0.5)
    """
    scored = [row for row in rows if row["rows"]]
    if not scored:
        return None, None
    total = sum(row["rows"] for row in scored)
    return sum(row["rows"] * row["error"] for row in scored) / total, fmean(row["error"] for row in scored)


def tables() -> tuple[list[tuple[str, ...]], list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Cells: by family; by source; and of sources that measured the same."""
    data = load()
    families: list[tuple[str, ...]] = []
    sources: list[tuple[str, ...]] = []
    for name, family, keys, wanted in ROWS:
        rows = [row for row in data["scores"] if row["family"] == family and (not keys or row["key"] in keys)]
        same = mean_error([row for row in rows if row["held_out"] == "same chip"])
        every = mean_error(rows)
        families.append((name, str(sum(row["rows"] for row in rows)), *map(percent, (*same, *every)), wanted))
        for row in rows:
            if row["rows"]:
                labels = (row["chip"], row["key"], row["source"].partition(",")[0], row["held_out"])
                host = f"{row['host_us']:.0f}"
                sources.append((name, *labels, str(row["rows"]), percent(row["error"]), percent(row["bias"]), host))
    agree = [
        (
            *(str(row[name]) for name in ("family", "chip", "key", "one", "other", "rows")),
            f"{row['factor']:.2f}",
            percent(row["spread"]),
        )
        for row in data["agreement"]
    ]
    return families, sources, agree


def notes() -> str:
    """Why targets are missed."""
    return (DATA / "kernels_notes.md").read_text(encoding="utf-8").strip()
