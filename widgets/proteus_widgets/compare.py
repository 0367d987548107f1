"""Compare: the pinned result and the present one, on one scale."""

from __future__ import annotations

from typing import Any

import anywidget
import ipywidgets as w
import traitlets as t

from proteus.strategy import NodeConfig
from proteus_widgets.assets import module, style
from proteus_widgets.facts import change, metrics
from proteus_widgets.fields import differences as plan_differences
from proteus_widgets.moment import Moment, Outcome
from proteus_widgets.session import Session
from proteus_widgets.timeline import Timeline


class ComparisonTable(anywidget.AnyWidget):
    """Metrics of two results side by side, and the differences of their trees."""

    _esm = module("compare")
    _css = style("compare")

    comparison = t.Dict().tag(sync=True)


class Compare(w.VBox):
    """Table and both timelines; see ``docs/views/compare.md``."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.table = ComparisonTable()
        self.pinned = Timeline(height=260, probe="pinned timeline")
        self.present = Timeline(height=260, probe="present timeline")
        w.jslink((self.pinned, "view"), (self.present, "view"))
        self._timelines = (w.Label("Pinned"), self.pinned, w.Label("Now"), self.present)
        super().__init__([self.table])

    def show(self) -> None:
        """Show the comparison; without a pin, how to get one."""
        pinned, now = self._session.pinned, self._session.outcome
        assert now is not None
        if pinned is None:
            self.table.comparison = {}
            self.children = [self.table]
            return
        self.table.comparison = comparison(pinned, now)
        extent = max(pinned.result.timeline.makespan_s, now.result.timeline.makespan_s)
        for timeline, outcome in ((self.pinned, pinned), (self.present, now)):
            with timeline.hold_sync():
                timeline.extent_s = extent
                timeline.show(outcome.result.spans, outcome.result.timeline.makespan_s)
        self.children = [self.table, *self._timelines]


def comparison(pinned: Outcome, now: Outcome) -> dict[str, Any]:
    """The rows of the table."""
    rows = []
    for metric in metrics(now.result):
        a, b = metric.read(pinned.result), metric.read(now.result)
        words, good = change(metric, b, a)
        rows.append(
            {"label": metric.label, "pinned": metric.show(a), "now": metric.show(b), "change": words, "good": good}
        )
    for kind in sorted({*pinned.result.exposed_comm_s, *now.result.exposed_comm_s}):
        a, b = (outcome.result.exposed_comm_s.get(kind, 0.0) for outcome in (pinned, now))
        rows.append(
            {
                "label": f"exposed {kind}",
                "pinned": f"{a * 1e3:.4g} ms",
                "now": f"{b * 1e3:.4g} ms",
                "change": f"{(b - a) * 1e3:+.4g} ms",
                "good": None if a == b else b < a,
            }
        )
    return {"title": "Pinned and now", "rows": rows, "changes": differences(pinned.moment, now.moment)}


def differences(pinned: Moment, now: Moment) -> list[str]:
    """What the user changed from `pinned` to `now`, a line each."""
    sentences = []
    if pinned.model.name != now.model.name:
        sentences.append(f"model {pinned.model.name} → {now.model.name}")
    if pinned.cluster != now.cluster:
        sentences.append(f"{pinned.cluster!r} → {now.cluster!r}")
    sentences += plan_differences(pinned.tree, now.tree)
    before, after = dict(pinned.edits), dict(now.edits)
    for path in sorted({*before, *after}):
        a, b = before.get(path, NodeConfig()), after.get(path, NodeConfig())
        if a != b:
            sentences.append(f"{path or 'model'}: {_words(a)} → {_words(b)}")
    return sentences


def _words(config: NodeConfig | None) -> str:
    return "says nothing" if config is None else repr(config)
