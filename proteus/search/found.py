"""What a search finds: strategies that fit, fastest first, as values and as a table."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

from proteus.model.graph import Model
from proteus.strategy.tree import StrategyTree
from proteus.units import format_bytes, format_count, format_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A strategy that fits, simulated.

    Parameters
    ----------
    settings
        Arguments of ``StrategyTree.parallelize``.
    """

    settings: dict[str, Any]
    step_time_s: float
    samples_per_s: float
    tokens_per_s: float | None
    mfu: float
    peak_memory_bytes: float
    bubble_fraction: float
    exposed_comm_s: float

    def tree(self, model: Model) -> StrategyTree:
        """The strategy as a tree."""
        return StrategyTree(model).parallelize(**self.settings)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What a search found, fastest first.

    Parameters
    ----------
    num_shapes
        Shapes that break no rule.
    num_pruned
        Of those, without a simulation: too slow or too large at the least.
    num_simulated
        Simulations.
    num_left
        Shapes not looked at because the budget was used up.
    """

    model: Model
    found: tuple[Found, ...]
    num_shapes: int
    num_pruned: int
    num_simulated: int
    num_left: int
    seconds: float

    @property
    def best(self) -> StrategyTree:
        """The fastest strategy."""
        return self.found[0].tree(self.model)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "found": [f.to_dict() for f in self.found],
            "shapes": self.num_shapes,
            "pruned": self.num_pruned,
            "simulated": self.num_simulated,
            "left": self.num_left,
            "seconds": self.seconds,
        }

    def table(self) -> list[tuple[str, ...]]:
        """Head and rows as text."""
        names = ("dp", "tp", "pp", "cp", "ep", "etp", "micro_batch", "schedule", "virtual_stages", "zero", "recompute")
        always, plain = ("dp", "tp", "pp"), {1, None}
        shown = [n for n in names if n in always or {f.settings[n] for f in self.found} - plain]
        head = ("step", "samples/s", "MFU", "memory", "bubble", *(n.replace("_", " ") for n in shown))
        rows = [
            (
                format_seconds(f.step_time_s),
                format_count(f.samples_per_s),
                f"{f.mfu:.1%}",
                format_bytes(f.peak_memory_bytes),
                f"{f.bubble_fraction:.1%}",
                *("as tp" if f.settings[n] is None else str(f.settings[n]) for n in shown),
            )
            for f in self.found
        ]
        return [head, *rows]

    def __str__(self) -> str:
        rows = self.table()
        width = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(f"{cell:>{w}}" for cell, w in zip(row, width, strict=True)) for row in rows]
        left = f", {self.num_left} not simulated (budget used up)" if self.num_left else ""
        lines.append(
            f"{self.num_shapes} shapes: {self.num_pruned} pruned by bounds{left}; "
            f"{self.num_simulated} simulations in {format_seconds(self.seconds)}"
        )
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        del include, exclude
        rows = ["<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in self.table()]
        return {"text/plain": str(self), "text/html": f"<table>{''.join(rows)}</table>"}
