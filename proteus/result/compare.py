"""Two results side by side, and what changed between them."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proteus.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from proteus.result.result import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One number of both results."""

    label: str
    before: float
    after: float
    unit: str  # s | bytes | 1/s | 1

    @property
    def change(self) -> float:
        return self.after - self.before

    @property
    def relative(self) -> float | None:
        """Change by what it was; None where it was nothing."""
        return self.change / self.before if self.before else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A table of differences.

    Parameters
    ----------
    rows
        Headline, then the rungs of both ladders.
    changes
        What differs between the strategy trees, one line each.
    """

    names: tuple[str, str]
    rows: tuple[Difference, ...]
    changes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "names": list(self.names),
            "rows": [
                {"label": r.label, "before": r.before, "after": r.after, "change": r.change, "unit": r.unit}
                for r in self.rows
            ],
            "changes": list(self.changes),
        }

    def table(self) -> list[tuple[str, str, str, str]]:
        """(label, before, after, change) as text."""
        return [(r.label, _text(r, r.before), _text(r, r.after), _change(r)) for r in self.rows]

    def __str__(self) -> str:
        rows = [("", *self.names, "change"), *self.table()]
        width = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = [
            "  ".join([f"{r[0]:<{width[0]}}", *(f"{c:>{w}}" for c, w in zip(r[1:], width[1:], strict=True))])
            for r in rows
        ]
        return "\n".join([*lines, *(["", *self.changes] if self.changes else [])])

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        del include, exclude
        head = "".join(f"<th>{html.escape(c)}</th>" for c in ("", *self.names, "change"))
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self.table()
        )
        return {"text/plain": str(self), "text/html": f"<table><tr>{head}</tr>{body}</table>"}


#: relative changes below this are rounding
_SAME = 1e-9
_UNITS: dict[str, Callable[[float], str]] = {
    "s": format_seconds,
    "bytes": format_bytes,
    "1/s": lambda value: f"{format_count(value)}/s",
    "1": lambda value: f"{value:.2%}",
}


def _text(row: Difference, value: float) -> str:
    return _UNITS[row.unit](value) if value else "0"


def _change(row: Difference) -> str:
    if abs(row.change) <= _SAME * abs(row.before):
        return "="
    if row.unit == "1":
        return f"{row.change * 100:+.2f} points"
    return f"{row.relative:+.1%}" if row.relative is not None else f"+{_text(row, row.change)}"


def compare(before: Result, after: Result, *, names: tuple[str, str] = ("before", "after")) -> Comparison:
    """What changed from one result to another: headline, ladder, strategy.

    Examples
    --------
    >>> import proteus as pt
    >>> tree = pt.StrategyTree(pt.models.load("gpt2"))
    >>> cluster = pt.clusters.load("dgx-a100")
    >>> one, two = (pt.simulate(tree.parallelize(dp=8, micro_batch=b, global_batch=64), cluster) for b in (1, 4))
    >>> compare(one, two).rows[0].change < 0
    True
    """
    headline: list[tuple[str, str, Callable[[Result], float]]] = [
        ("step time", "s", lambda r: r.step_time_s),
        ("samples/s", "1/s", lambda r: r.samples_per_s),
        ("MFU", "1", lambda r: r.mfu),
        ("peak memory", "bytes", lambda r: r.peak_memory_bytes),
        ("missing memory", "bytes", lambda r: r.missing_bytes),
        ("bubble", "1", lambda r: r.bubble_fraction),
    ]
    rows = [
        Difference(label=label, before=read(before), after=read(after), unit=unit) for label, unit, read in headline
    ]
    ladders = [{rung.label: rung.seconds for rung in r.explain().steps} for r in (before, after)]
    rows += [
        Difference(label=label, before=ladders[0].get(label, 0.0), after=ladders[1].get(label, 0.0), unit="s")
        for label in dict.fromkeys([*ladders[0], *ladders[1]])
    ]
    if before.model is after.model or before.model.name == after.model.name:
        changes = [str(line) for line in after.tree.diff(before.tree)]
    else:
        changes = [f"model: {before.model.name} → {after.model.name}"]
    if before.cluster != after.cluster:
        changes.append(f"cluster: {before.cluster!r} → {after.cluster!r}")
    return Comparison(names=names, rows=tuple(rows), changes=tuple(changes))
