"""The workbench in a real browser: it draws, its views are linked, it is edited by keyboard.

All tests but the last share the page of `bench`: starting a kernel takes longer than any of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from proteus.strategy.plan import specs
from tests.browser.lab import Lab
from tests.browser.views import BUILD, DRAWN, TIMELINE, choose, probe, row, tab


def test_it_draws_in_light_and_dark(bench: Page, lab: Lab, screenshot: Callable[[Page, str], Path]) -> None:
    for theme in ("dark", "light"):
        lab.use_theme(bench, theme)
        bench.wait_for_timeout(200)
        screenshot(bench, f"workbench-{theme}")
    assert probe(bench, "timeline.drawn") > 20
    expect(bench.locator(".pt-metric-value").first).not_to_be_empty()


def test_views_are_linked_in_all_directions(bench: Page) -> None:
    # from a node of the tree
    row(bench, "layers").click()
    bench.wait_for_function("window.proteusProbe.topology.lit.length > 0")
    bench.wait_for_function("window.proteusProbe.tree.selected >= 0")  # every view learns of it by itself
    selected = probe(bench, "tree.selected")
    expect(bench.locator(f".pt-tree [data-id='{selected}']")).to_have_attribute("aria-selected", "true")
    # from a span: step with the keyboard until one crosses links
    canvas = bench.locator(TIMELINE).first
    canvas.focus()
    bench.keyboard.press("Escape")
    bench.wait_for_function("window.proteusProbe.tree.selected === -1")
    canvas.focus()
    bench.keyboard.press("ArrowRight")
    bench.keyboard.press("ArrowDown")  # from compute to the tensor stream beneath it
    bench.wait_for_function("window.proteusProbe.topology.lit.length > 0")
    bench.wait_for_function("window.proteusProbe.tree.selected >= 0")
    expect(bench.locator(".pt-live").first).to_contain_text("tensor comm")
    # from a link
    edge = bench.locator(".pt-link.pt-lit").first.get_attribute("aria-label")
    bench.get_by_role("button", name=edge, exact=True).first.focus()
    bench.keyboard.press("Enter")
    expect(bench.locator(".pt-info strong")).to_contain_text("used")
    expect(bench.locator(".pt-info div").first).to_contain_text("each flow gets")
    bench.wait_for_function("window.proteusProbe.tree.selected === -1")


def test_the_cursor_sets_the_time_of_the_topology(bench: Page) -> None:
    caption = bench.locator(".pt-topology .pt-ramp-label")
    expect(caption).to_have_text("link utilisation over the step")
    canvas = bench.locator(TIMELINE).first
    canvas.scroll_into_view_if_needed()
    canvas.hover(position={"x": 700, "y": 60})
    expect(caption).to_contain_text("link utilisation at")
    bench.mouse.move(0, 0)
    expect(caption).to_have_text("link utilisation over the step")
    canvas.focus()  # and by keyboard
    bench.keyboard.press("ArrowRight")
    bench.wait_for_function("window.proteusProbe.tree.selected >= 0")
    bench.keyboard.press("t")
    expect(caption).to_contain_text("link utilisation at")
    bench.keyboard.press("Escape")
    expect(caption).to_have_text("link utilisation over the step")


def test_a_device_unfolds_into_its_ranks(bench: Page) -> None:
    canvas = bench.locator(TIMELINE).first
    folded = probe(bench, "timeline.rows")
    canvas.focus()
    bench.keyboard.press("u")
    bench.wait_for_function(f"window.proteusProbe.timeline.rows > {folded}")
    expect(bench.locator(".pt-live").first).to_contain_text("with the same times: 0-3")
    canvas.scroll_into_view_if_needed()
    canvas.hover(position={"x": 30, "y": 34})
    expect(bench.locator(".pt-timeline .pt-tip").first).to_contain_text("4 ranks with the same times")
    canvas.click(position={"x": 30, "y": 34})
    bench.wait_for_function(f"window.proteusProbe.timeline.rows === {folded}")


def test_an_unfolded_device_may_stand_for_itself_alone_next(bench: Page) -> None:
    folded = probe(bench, "timeline.rows")
    bench.locator(TIMELINE).first.focus()
    bench.keyboard.press("u")
    bench.wait_for_function(f"window.proteusProbe.timeline.rows > {folded}")
    choose(bench, "tp", "1")
    choose(bench, "dp", "1")  # a pipeline of two, each device its own
    bench.wait_for_function(f"window.proteusProbe.timeline.rows <= {folded}")


def test_a_degree_is_changed_and_undone(bench: Page) -> None:
    steps = bench.locator(".pt-metric-value").first
    before = steps.inner_text()
    data = bench.locator(".pt-controls select[name=dp]")
    expect(data.locator("option:checked")).to_have_text("fill (2)")
    choose(bench, "tp", "4")
    expect(data.locator("option:checked")).to_have_text("fill (1)")
    expect(bench.locator(".pt-change").first).to_contain_text("%")
    assert steps.inner_text() != before
    bench.get_by_role("button", name="Undo the last change").click()
    expect(steps).to_have_text(before)
    bench.wait_for_function("window.proteusProbe.controls.values.tp === 2")


def test_impossible_values_are_greyed_with_their_reason(bench: Page) -> None:
    barred = bench.locator(".pt-controls select[name=tp] option[disabled]")
    assert barred.count() >= 1
    assert any(word in barred.first.inner_text() for word in ("needs", "divide", "there are 8"))


def test_a_batch_that_does_not_divide_is_refused_and_dp_stays(bench: Page) -> None:
    choose(bench, "dp", "2")
    batch = bench.locator(".pt-controls input[name=global_batch]")
    batch.fill("7")
    batch.press("Enter")
    expect(bench.locator(".pt-hint.pt-error")).to_contain_text("nearest: 6 or 8")
    expect(batch).to_have_value("16")
    assert probe(bench, "controls.values.dp") == 2


def test_every_field_of_the_plan_can_be_reached(bench: Page) -> None:
    more = bench.locator(".pt-more summary")
    steps = bench.locator(".pt-controls input[name=bucket_bytes]")
    expect(steps).to_be_hidden()
    more.focus()
    bench.keyboard.press("Enter")
    expect(steps).to_be_visible()
    names = bench.evaluate("[...document.querySelectorAll('.pt-controls :is(select, input)')].map(part => part.name)")
    assert set(specs()) <= set(names)
    for name, text in (("bucket_bytes", "25e6"), ("offload", "optimizer"), ("framework", "torchtitan")):
        before = probe(bench, "timeline.rev")
        entry = bench.locator(f".pt-controls input[name={name}]")
        entry.fill(text)
        entry.press("Enter")
        bench.wait_for_function(f"window.proteusProbe.timeline.rev > {before}")
    expect(bench.locator(".pt-facts")).to_contain_text("torchtitan")
    assert probe(bench, "controls.values.bucket_bytes") == 25e6
    before = probe(bench, "timeline.rev")
    entry = bench.locator(".pt-controls input[name=framework]")
    entry.fill("")  # the word is taken back
    entry.press("Enter")
    bench.wait_for_function(f"window.proteusProbe.timeline.rev > {before}")
    expect(bench.locator(".pt-facts")).not_to_contain_text("torchtitan")
    assert probe(bench, "controls.values.bucket_bytes") == 25e6
    more.click()


def test_idle_devices_are_a_warning_and_assumptions_can_be_read(bench: Page) -> None:
    facts = bench.locator(".pt-facts")
    expect(facts).to_contain_text("gpt2 · seq 1024 · global batch 16, micro-batch 1 · dp 2 × tp 2 × pp 2 · ZeRO 1")
    expect(facts).to_contain_text("8 of 8 devices")
    expect(bench.locator(".pt-warning")).to_be_hidden()
    choose(bench, "dp", "1")
    expect(bench.locator(".pt-warning")).to_contain_text("4 of 8 devices are idle")
    lines = bench.locator(".pt-assumed li")
    expect(lines.first).to_be_hidden()
    bench.locator(".pt-assumed summary").click()
    expect(lines.filter(has_text="framework megatron-core")).to_be_visible()
    bench.locator(".pt-assumed summary").click()


def test_a_node_is_edited_by_keyboard_alone(bench: Page) -> None:
    bench.locator(".pt-tree [role=treeitem][tabindex='0']").focus()
    cells = bench.locator(".jp-Cell").count()
    bench.keyboard.press("Home")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        bench.keyboard.press(key)
    bench.keyboard.press("Enter")
    select = bench.locator(".pt-inspector select[aria-label='recompute']")
    expect(select).to_be_visible()
    before = probe(bench, "timeline.rev")
    select.focus()
    bench.keyboard.type("full")
    bench.keyboard.press("Enter")
    bench.wait_for_function(f"window.proteusProbe.timeline.rev > {before}")
    expect(bench.locator(".pt-badge", has_text="recompute full").first).to_be_visible()
    assert bench.locator(".jp-Cell").count() == cells


def test_several_nodes_are_edited_at_once(bench: Page) -> None:
    row(bench, "layers").click()
    bench.keyboard.press("ArrowRight")
    bench.keyboard.press("ArrowRight")
    bench.keyboard.press("Space")
    bench.wait_for_function("window.proteusProbe.tree.picked.length === 1")
    bench.keyboard.press("Shift+ArrowDown")
    bench.wait_for_function("window.proteusProbe.tree.picked.length === 2")
    expect(bench.locator(".pt-inspector-title")).to_contain_text("2 nodes")
    picked = probe(bench, "tree.picked")
    bench.locator(f".pt-tree [data-id='{picked[0]}'] > .pt-row").click(modifiers=["Control"])
    bench.wait_for_function("window.proteusProbe.tree.picked.length === 1")
    bench.locator(f".pt-tree [data-id='{picked[0]}'] > .pt-row").click(modifiers=["Control"])
    bench.wait_for_function("window.proteusProbe.tree.picked.length === 2")
    before = probe(bench, "timeline.rev")
    bench.locator(".pt-inspector select[aria-label='recompute']").select_option(label="full")
    bench.wait_for_function(f"window.proteusProbe.timeline.rev > {before}")
    expect(bench.locator(".pt-badge", has_text="recompute full")).to_have_count(2)


def test_single_keys_stay_in_the_views(bench: Page) -> None:
    cells = bench.locator(".jp-Cell").count()
    kind = "window.jupyterapp.shell.currentWidget.content.activeCell.model.type"
    tab(bench, "Code")
    expect(bench.locator(".pt-source").first).to_contain_text("parallelize")
    views = (TIMELINE, ".pt-tree [role=treeitem]", ".pt-topology .pt-link", ".pt-chip:visible", ".pt-tools button")
    places = (*views, ".pt-tab:first-child", ".pt-source")
    for target in places:
        bench.locator(target).first.focus()
        for key in "wasdbfm0uutt":
            bench.keyboard.press(key)
        bench.wait_for_timeout(100)
        assert bench.evaluate(kind) == "code", target  # M would make it text
        assert bench.locator(".jp-Cell").count() == cells, target
    for beside in (".pt-metric-value", ".pt-group-name", ".pt-topology-head", ".pt-live", ".pt-code-head"):
        bench.locator(beside).first.click()
        bench.keyboard.press("d")
        bench.keyboard.press("d")
        assert bench.evaluate("Boolean(document.activeElement.closest('.pt'))"), beside
        assert bench.locator(".jp-Cell").count() == cells, beside


def test_zoom_by_keyboard_and_fit(bench: Page) -> None:
    bench.locator(TIMELINE).first.focus()
    whole = probe(bench, "timeline.to")
    for key in "www":
        bench.keyboard.press(key)
    bench.wait_for_function(f"window.proteusProbe.timeline.to < {whole}")
    bench.keyboard.press("0")
    bench.wait_for_function(f"window.proteusProbe.timeline.to === {whole}")


def test_tabs_explain_chart_and_compare(bench: Page, lab: Lab, screenshot: Callable[[Page, str], Path]) -> None:
    tab(bench, "Why is it slow?")
    bench.wait_for_function("window.proteusProbe.why?.steps > 3")
    tab(bench, "Charts")
    bench.wait_for_function("window.proteusProbe.charts?.count === 4")
    for theme in ("dark", "light"):
        drawn_at = probe(bench, "charts.at")
        lab.use_theme(bench, theme)
        bench.wait_for_function(f"window.proteusProbe.charts.at > {drawn_at}")
        bench.locator(".pt-charts figure").last.scroll_into_view_if_needed()
        bench.wait_for_timeout(300)
        screenshot(bench, f"charts-{theme}")
    bench.get_by_role("button", name="Pin this result").click()
    choose(bench, "tp", "1")
    tab(bench, "Compare")
    bench.wait_for_function("window.proteusProbe['pinned timeline']?.n > 0")
    expect(bench.locator(".pt-compare .pt-differences")).to_contain_text("tp 2 → 1")
    tab(bench, "Code")
    expect(bench.locator(".pt-source").first).to_contain_text("parallelize")


def test_untrusted_names_are_text(lab: Lab, page: Page) -> None:
    name = "<img src=x onerror=window.hacked=1>"
    source = BUILD.replace(
        'model = pt.models.load("gpt2")',
        f'from dataclasses import replace\nmodel = replace(pt.models.load("gpt2"), name="{name}")',
    )
    lab.write("evil.ipynb", source)
    lab.run_all(page, "evil.ipynb")
    page.wait_for_function(DRAWN)
    expect(page.locator(".pt-tree .pt-label").first).to_have_text(name)
    assert page.evaluate("window.hacked") is None
    lab.close(page)
