"""The workbench: all views of one session, laid out."""

from __future__ import annotations

import os
from typing import Any

import ipywidgets as w

from proteus.cluster import Cluster
from proteus.errors import InputError
from proteus.strategy import StrategyTree
from proteus_widgets import still
from proteus_widgets.changes import own
from proteus_widgets.charts import Charts
from proteus_widgets.code import Code
from proteus_widgets.compare import Compare
from proteus_widgets.controls import Controls
from proteus_widgets.editors import common, editors
from proteus_widgets.headline import Headline
from proteus_widgets.reading import (
    arrows,
    busy_by_device,
    critical_mask,
    first_link,
    members,
    memory_tracks,
    node_shares,
)
from proteus_widgets.selection import Lit
from proteus_widgets.session import Session
from proteus_widgets.sharing import Sharing
from proteus_widgets.tabs import Tabs
from proteus_widgets.timeline import Timeline
from proteus_widgets.topology import OVER_THE_STEP, TopologyView
from proteus_widgets.tree import TreeView
from proteus_widgets.why import Why

#: side by side where both have room, one under the other elsewhere; the styles of both ask for the same width
TREE_FLEX, TOPOLOGY_FLEX = "1 1 420px", "2 1 520px"


class Workbench(w.VBox):
    """Controls, headline, tree, topology, timeline, and tabs that explain and compare.

    Parameters
    ----------
    tree, cluster
        The strategy to begin with and where it runs.
    session
        A session that exists already, in place of both.

    Examples
    --------
    ::

        import proteus as pt
        tree = pt.StrategyTree(pt.models.load("llama3-8b")).parallelize(dp=4, tp=4, pp=2, global_batch=128)
        pt.lab(tree, pt.clusters.load("dgx-a100", nodes=4))
    """

    def __init__(
        self,
        tree: StrategyTree | None = None,
        cluster: Cluster | None = None,
        *,
        session: Session | None = None,
    ) -> None:
        if session is None:
            if tree is None or cluster is None:
                raise InputError("a workbench needs a tree and a cluster, or session=")
            session = Session(tree, cluster)
        self.session = session
        self._cursor_s: float | None = None
        self.headline = Headline(session)
        self.controls = Controls(session, on_price=self._price)
        self.tree = TreeView(lambda row, others: session.select("node", row, others), session.request_edit)
        self.topology = TopologyView(lambda link: session.select("link", link))
        self.timeline = Timeline(lambda span: session.select("span", span), self._moment)
        self.why, self.charts, self.compare, self.code = Why(session), Charts(session), Compare(session), Code(session)
        self.tree.layout = w.Layout(flex=TREE_FLEX, min_width="0")
        self.topology.layout = w.Layout(flex=TOPOLOGY_FLEX, min_width="0")
        middle = w.Box(
            [self.tree, self.topology],
            layout=w.Layout(display="flex", flex_flow="row wrap", grid_gap="12px", margin="6px 0"),
        )
        self.tabs = Tabs(
            {"Why is it slow?": self.why, "Charts": self.charts, "Compare": self.compare, "Code": self.code}
        )
        super().__init__([self.headline, self.controls, middle, self.timeline, self.tabs])
        self.layout.width = "100%"
        self.add_class("pt-workbench")
        session.observe(self._outcome, "outcome")
        session.observe(self._lit, "lit")
        session.observe(self._said, ["error", "busy"])
        session.observe(lambda _: self.headline.state(), "progress")
        session.observe(self._pinned, "pinned")
        session.observe(self._band, "band")
        self.tabs.observe(lambda _: self._tab(), "selected_index")
        self._outcome()

    # -- from the session to the views

    def _outcome(self, _change: Any = None) -> None:
        """A new result: what the eye follows goes first, menus and hidden tabs after it."""
        session = self.session
        result = session.result
        self.timeline.show(
            result.spans,
            result.timeline.makespan_s,
            memory=memory_tracks(result),
            critical=lambda: critical_mask(result),
            arrows=lambda span: arrows(result, span),
            members=members(result),
        )
        self._sharing, self._cursor_s = Sharing(result), None
        self.headline.show()
        self.topology.caption = OVER_THE_STEP
        self.topology.show(session.cluster, result.link_utilisation, busy_by_device(result), first_link(result))
        self.tree.show(session.rows, node_shares(result, session.rows))
        self._lit()
        self.controls.show()
        self._tab()
        session.request_band()

    def _band(self, change: Any) -> None:
        if change.new is not None:
            self.headline.show()
            if self.tabs.seen is self.why:
                self.why.draw()

    def _lit(self, _change: Any = None) -> None:
        session, lit = self.session, self.session.lit
        self.timeline.light(lit)
        picked = session.selection.id if session.selection and session.selection.what == "link" else -1
        self.topology.light(lit.links, picked, self._info(picked))
        with self.tree.hold_sync():
            self.tree.selected, self.tree.others = lit.node, list(lit.others)
            self.tree.editors = self._editors(lit)

    def _info(self, link: int) -> list[str]:
        return self._sharing.describe(link, self._cursor_s) if link >= 0 else []

    def _moment(self, time_s: float | None) -> None:
        """The cursor of the timeline stands at a time: the topology shows the use of then."""
        self._cursor_s = time_s
        use = self.session.result.link_utilisation if time_s is None else self._sharing.use_at(time_s)
        with self.topology.hold_sync():
            self.topology.show_moment(time_s, use)
            self.topology.info = self._info(self.topology.selected)

    def _editors(self, lit: Lit) -> list[dict[str, Any]]:
        if lit.node < 0:
            return []
        session = self.session
        rows = [session.rows[at] for at in (lit.node, *lit.others)]
        return common([editors(session.result.tree, row, own(session.tree, row.path)) for row in rows])

    def _said(self, _change: Any = None) -> None:
        self.headline.state()
        self.controls.say()
        self.tree.say(self.session.error, failed=bool(self.session.error))

    def _pinned(self, _change: Any = None) -> None:
        self.headline.state()
        self._tab()

    def _price(self, price_per_hour: float) -> None:
        self.headline.price_per_hour = price_per_hour
        self.headline.show()

    def _tab(self) -> None:
        """Only the tab that is seen is kept up to date."""
        if self.tabs.seen is not None:
            self.tabs.seen.show()

    # -- for users

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """The live views, and a table and a still picture for where no kernel runs."""
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        return {**bundle, "text/html": still.html(self.session.result)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the session as YAML; see :meth:`Session.save`."""
        self.session.save(path)
