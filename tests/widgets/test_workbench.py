"""The views follow the session, and nothing is sent twice."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import proteus as pt
from proteus_widgets import Session, Workbench
from tests.widgets.conftest import Wire


@pytest.fixture
def bench(wire: Wire, session: Session) -> Workbench:
    made = Workbench(session=session)
    wire.clear()
    return made


def say(view: Any, **message: Any) -> None:
    """What the browser would send."""
    view._handle_custom_msg(message, [])


def test_lab_gives_a_workbench(small_tree: pt.StrategyTree, box: pt.Cluster) -> None:
    assert isinstance(pt.lab(small_tree, box), Workbench)


def test_it_needs_a_strategy() -> None:
    with pytest.raises(pt.InputError, match="needs a tree and a cluster"):
        Workbench()


def test_one_large_message_per_change(bench: Workbench, wire: Wire) -> None:
    say(bench.controls, type="set", name="tp", value=4)
    assert bench.session.decided.value("tp") == 4
    columns = [names for names in wire.large() if names == ["data"]]
    assert len(columns) == 1
    assert bench.timeline.data["total"] == len(bench.session.result.spans)


def test_a_refused_change_sends_no_columns(bench: Workbench, wire: Wire) -> None:
    say(bench.controls, type="set", name="tp", value=5)
    assert not [names for names in wire.large() if "data" in names]
    assert bench.controls.failed and "tp=5" in bench.controls.message
    assert bench.tree.failed


def test_controls_show_values_and_reasons(bench: Workbench) -> None:
    fields = {field["name"]: field for field in bench.controls.fields}
    assert fields["tp"]["value"] == 2
    reasons = {option["value"]: option["reason"] for option in fields["tp"]["options"]}
    assert reasons[2] == "" and "does not divide 12 attention heads" in reasons[8]


def test_span_marks_node_and_links(bench: Workbench) -> None:
    spans = bench.session.result.spans
    span = int((spans.pattern >= 0).nonzero()[0][0])
    say(bench.timeline, type="select", what="span", id=span)
    assert bench.timeline.span["id"] == span
    assert bench.tree.selected == spans.node[span]
    assert set(bench.topology.lit) >= set(spans.links_of(span).tolist()) & {
        link for edge in bench.topology.picture["edges"] for link in edge["links"]
    }


def test_link_marks_spans_and_says_who_uses_it(bench: Workbench) -> None:
    used = int(bench.session.result.link_utilisation.argmax())
    say(bench.topology, type="select", what="link", id=used)
    assert any(bench.timeline.lit["patterns"])
    assert bench.topology.selected == used
    assert "% used" in bench.topology.info[0] and len(bench.topology.info) > 1


def test_node_marks_spans_and_links_and_opens_its_editors(bench: Workbench) -> None:
    row = next(row for row in bench.session.rows if row.label == "fc1")
    say(bench.tree, type="select", what="node", id=row.id)
    assert any(bench.timeline.lit["nodes"])
    assert {"partition.ffn", "recompute"} <= {editor["field"] for editor in bench.tree.editors}


def test_edit_in_the_tree(bench: Workbench) -> None:
    row = next(row for row in bench.session.rows if row.label == "fc1")
    say(bench.tree, type="edit", paths=[row.path], field="recompute", value="full")
    assert dict(bench.session.tree.configs)[row.path].recompute == "full"
    say(bench.tree, type="edit", paths=[row.path], field="partition.ffn", value="nonsense")
    assert bench.tree.failed and "nonsense" in bench.tree.message


def test_several_nodes_are_edited_as_one_step(bench: Workbench) -> None:
    names = ("fc1", "fc2")
    rows = [next(row for row in bench.session.rows if row.label == name) for name in names]
    say(bench.tree, type="edit", paths=[rows[0].path], field="recompute", value="full")
    say(bench.tree, type="select", what="node", id=rows[0].id, others=[rows[1].id, 10**6])
    assert (bench.tree.selected, bench.tree.others) == (rows[0].id, [rows[1].id])
    lit = np.frombuffer(bench.timeline.lit["nodes"], "u1")
    assert lit[[row.id for row in rows]].all() and lit.sum() == 2
    fields = {editor["field"]: editor for editor in bench.tree.editors}
    assert "partition.ffn" in fields  # both have it; what only one has is not offered
    assert fields["recompute"]["options"][0]["reason"] == "they differ"
    say(bench.tree, type="edit", paths=[row.path for row in rows], field="recompute", value="full")
    assert all(dict(bench.session.tree.configs)[row.path].recompute == "full" for row in rows)
    bench.session.undo()
    assert [row.path in dict(bench.session.tree.configs) for row in rows] == [True, False]


def test_an_edit_that_one_node_refuses_changes_none(bench: Workbench) -> None:
    before = bench.session.moment
    rows = [row for row in bench.session.rows if row.label in ("fc1", "softmax", "ln1") and row.kind == "op"][:2]
    say(bench.tree, type="edit", paths=[row.path for row in rows], field="partition.ffn", value="nonsense")
    assert bench.tree.failed and bench.session.moment == before


def test_the_cursor_shows_the_links_of_its_time(bench: Workbench) -> None:
    over_the_step = bench.topology.use
    spans = bench.session.result.spans
    span = int((spans.pattern >= 0).nonzero()[0][0])
    link = int(spans.links_of(span)[0])
    say(bench.topology, type="select", what="link", id=link)
    say(bench.timeline, type="cursor", at_s=float(spans.start_s[span] + 0.7 * spans.duration_s[span]))
    assert bench.topology.caption.startswith("link utilisation at")
    assert bench.topology.use != over_the_step
    assert "used at" in bench.topology.info[0] and "each flow gets" in bench.topology.info[1]
    say(bench.timeline, type="cursor", at_s=None)
    assert bench.topology.use == over_the_step and bench.topology.caption == "link utilisation over the step"


def test_folded_devices_name_their_ranks(wire: Wire, small_tree: pt.StrategyTree) -> None:
    tree = pt.StrategyTree(small_tree.model).parallelize(dp=16, tp=2, global_batch=32)
    bench = Workbench(tree, pt.clusters.load("dgx-a100", nodes=4))
    members = bench.timeline.data["members"]
    for lane in bench.timeline.data["lanes"]:
        ranks = members.get(str(lane["device"]), [lane["device"]])
        assert ranks[0] == lane["device"] and len(ranks) == lane["multiplicity"]
    assert sum(len(ranks) for ranks in members.values()) == 32


def test_malformed_messages_are_ignored(bench: Workbench, wire: Wire) -> None:
    for message in (
        {},
        {"type": "select"},
        {"type": "select", "what": "span", "id": "x"},
        {"type": "edit", "paths": 3},
        {"type": "edit", "paths": [3], "field": "x", "value": 1},
    ):
        for view in (bench.timeline, bench.topology, bench.tree, bench.controls, bench.headline, bench.why):
            say(view, **message)
    assert wire == []


def test_headline_tells_the_change(bench: Workbench) -> None:
    say(bench.controls, type="set", name="tp", value=4)
    entries = {entry["label"]: entry for entry in bench.headline.metrics}
    assert entries["Step time"]["change"].endswith("%")
    band = bench.session.result.step_time_band
    assert entries["Step time"]["note"] == band.ends
    assert band.reasons in entries["Step time"]["tip"]
    assert entries["Step time"]["good"] in (True, False)
    assert bench.headline.can["undo"]
    say(bench.headline, type="action", name="undo")
    assert bench.session.decided.value("tp") == 2


def test_price_adds_the_cost(bench: Workbench) -> None:
    assert not any("$" in entry["label"] for entry in bench.headline.metrics)
    say(bench.controls, type="set", name="price", value=2.5)
    cost = next(entry for entry in bench.headline.metrics if "$" in entry["label"])
    result = bench.session.result
    assert float(cost["value"]) == pytest.approx(2.5 * result.num_devices / 3600 / result.tokens_per_s * 1e6, rel=0.01)


def test_ladder_sums_to_the_step(bench: Workbench) -> None:
    bench.tabs.selected_index = 0
    ladder = bench.why.why["ladder"]
    assert str(bench.session.result.step_time_band) in bench.why.why["band"]
    assert sum(step["seconds"] for step in ladder) == pytest.approx(bench.session.result.step_time_s)


def test_exposed_communication_selects_its_node(bench: Workbench) -> None:
    bench.tabs.selected_index = 0
    entry = bench.why.why["exposed"][0]
    say(bench.why, type="select", what="node", id=entry["node"])
    assert bench.session.rows[bench.tree.selected].path == entry["label"]


def test_compare_after_a_pin(bench: Workbench) -> None:
    bench.tabs.selected_index = 2
    assert bench.compare.table.comparison == {}
    say(bench.headline, type="action", name="pin")
    say(bench.controls, type="set", name="tp", value=4)
    comparison = bench.compare.table.comparison
    assert comparison["changes"] == ["dp fill (2) → fill (1)", "tp 2 → 4"]
    assert bench.compare.pinned.extent_s == bench.compare.present.extent_s


def test_one_tab_is_seen(bench: Workbench) -> None:
    bench.tabs.bar.selected = 3  # what the browser would set
    assert bench.tabs.seen is bench.code and bench.code.python
    hidden = [panel for panel in bench.tabs.panels if panel.layout.display == "none"]
    assert hidden == [bench.why, bench.charts, bench.compare]


def test_hidden_tabs_cost_nothing(bench: Workbench) -> None:
    bench.tabs.selected_index = 3
    say(bench.controls, type="set", name="tp", value=4)
    assert "tp=4" in bench.code.python
    assert bench.charts.items == []


def test_code_runs_and_gives_the_same_tree(bench: Workbench) -> None:
    from proteus_widgets.code import python_of

    bench.session.edit("layers.0-5.mlp", "recompute", "full")
    bench.session.edit("layers.0-5.mlp", "memory.optimizer", "S(dp)")
    names: dict[str, Any] = {}
    exec(python_of(bench.session.moment), names)
    assert names["result"].tree == bench.session.tree and names["tree"].plan == bench.session.plan


def test_charts_have_text_for_those_who_cannot_see_them(bench: Workbench) -> None:
    bench.tabs.selected_index = 1
    assert len(bench.charts.items) == 4
    assert all(item["alt"] for item in bench.charts.items)


def test_kernel_memory_stays_flat(session: Session) -> None:
    import gc
    import tracemalloc

    bench = Workbench(session=session)  # without a wire that keeps what was sent

    def after_changes() -> int:
        for tp in (4, 2) * 3:
            bench.session.change(tp=tp)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        first = after_changes()
        grown = after_changes() - first
    finally:
        tracemalloc.stop()
    columns = sum(len(column) for column in bench.timeline.data.values() if isinstance(column, memoryview))
    assert grown < columns  # six results came and went; not even the columns of one stayed


def test_suggestions_are_sought_again_after_a_stop(bench: Workbench) -> None:
    """The change had ended the search; the result that is still shown wants its suggestions."""

    async def play() -> None:
        bench.why.show()
        await asyncio.sleep(0.7)  # the search has begun
        bench.session.request(tp=4)
        bench.session.stop()
        while bench.why.searching:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(play(), 60))
    assert bench.session.decided.value("tp") == 2 and bench.session.suggestions
