"""What Python sends is what ``static/types.d.ts`` tells the JavaScript that it sends."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import anywidget
import numpy as np
import pytest

import proteus as pt
from proteus_widgets import Session, Workbench
from proteus_widgets.charts import Charts
from proteus_widgets.code import Code
from proteus_widgets.compare import ComparisonTable
from proteus_widgets.controls import Controls
from proteus_widgets.headline import Headline
from proteus_widgets.reading import arrows
from proteus_widgets.tabs import TabBar
from proteus_widgets.timeline import Timeline
from proteus_widgets.topology import TopologyView
from proteus_widgets.tree import TreeView
from proteus_widgets.why import Why

TYPES = (files("proteus_widgets") / "static" / "types.d.ts").read_text(encoding="utf-8")
TRAITS: dict[str, type[anywidget.AnyWidget]] = {
    "ChartTraits": Charts,
    "CodeTraits": Code,
    "CompareTraits": ComparisonTable,
    "ControlsTraits": Controls,
    "HeadlineTraits": Headline,
    "TabsTraits": TabBar,
    "TimelineTraits": Timeline,
    "TopologyTraits": TopologyView,
    "TreeTraits": TreeView,
    "WhyTraits": Why,
}


def fields(interface: str) -> dict[str, bool]:
    """Names of an interface's fields, and whether each is always there."""
    body = re.search(rf"^export interface {interface}(?:<.*>)? \{{\n(.*?)^\}}", TYPES, re.MULTILINE | re.DOTALL)
    assert body, interface
    return {name: not optional for name, optional in re.findall(r"^  (\w+)(\??):", body[1], re.MULTILINE)}


def check(interface: str, *messages: dict[str, Any]) -> None:
    """Every message has the fields of the interface, and no others."""
    assert messages, interface
    known = fields(interface)
    for message in messages:
        assert message.keys() <= known.keys(), interface
        assert {name for name, always in known.items() if always} <= message.keys(), interface


def test_every_view_is_compared() -> None:
    assert TRAITS.keys() == set(re.findall(r"^export interface (\w+Traits) ", TYPES, re.MULTILINE))


@pytest.mark.parametrize("interface", TRAITS)
def test_traits_are_those_of_the_class(interface: str) -> None:
    widget = TRAITS[interface]
    traits = set(widget.class_trait_names(sync=True)) - set(anywidget.AnyWidget.class_trait_names())
    assert fields(interface).keys() == {name for name in traits if not name.startswith("_")}


@pytest.fixture(scope="module")
def bench(small_tree: pt.StrategyTree, box: pt.Cluster) -> Workbench:
    session = Session(small_tree, box)
    bench = Workbench(session=session)
    session.pin()
    session.change(tp=4)
    communication = np.flatnonzero(session.result.spans.pattern >= 0)
    session.select("span", int(next(span for span in communication if arrows(session.result, span))))
    return bench


def test_timeline(bench: Workbench) -> None:
    timeline = bench.timeline
    check("FrameData", timeline.data)
    check("Lane", *timeline.data["lanes"])
    check("MemoryMessage", *timeline.data["memory"])
    check("SpanPlace", timeline.span)
    check("Arrow", *timeline.span["arrows"])
    check("Kind", *timeline.kinds)


def test_topology(bench: Workbench) -> None:
    picture = bench.topology.picture
    check("Picture", picture)
    check("PictureNode", *picture["nodes"])
    check("PictureEdge", *picture["edges"])
    check("PictureHost", *picture["hosts"])


def test_tree(bench: Workbench) -> None:
    check("TreeRow", *bench.tree.rows)
    bench.session.select("node", next(row.id for row in bench.session.rows if row.kind == "op"))
    check("Editor", *bench.tree.editors)
    check("Option", *(option for editor in bench.tree.editors for option in editor["options"]))


def test_panels(bench: Workbench) -> None:
    check("Field", *bench.controls.fields)
    check("Option", *(option for field in bench.controls.fields for option in field.get("options", ())))
    check("Metric", *bench.headline.metrics)
    check("Abilities", bench.headline.can)
    bench.tabs.selected_index = 0
    check("Explanation", bench.why.why)
    check("Rung", *bench.why.why["ladder"])
    check("Exposed", *bench.why.why["exposed"])
    bench.tabs.selected_index = 2
    comparison = bench.compare.table.comparison
    check("Comparison", comparison)
    check("ComparedMetric", *comparison["rows"])
