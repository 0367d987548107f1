"""The workbench in a real browser: it draws, its views are linked, it is edited by keyboard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.lab import Lab

BUILD = """
import proteus as pt
model = pt.models.load("gpt2")
tree = pt.StrategyTree(model).parallelize(dp=2, tp=2, pp=2, micro_batch=1, global_batch=16, zero=1)
bench = pt.lab(tree, pt.clusters.load("dgx-a100"))
bench
"""
DRAWN = "window.proteusProbe?.timeline?.n > 0 && window.proteusProbe?.topology?.edges > 0"
TIMELINE = ".pt-timeline canvas"


def probe(page: Page, expression: str) -> object:
    return page.evaluate(f"window.proteusProbe.{expression}")


def choose(page: Page, setting: str, value: str) -> None:
    """Pick a value in the controls and wait for the new picture."""
    before = probe(page, "timeline.rev")
    page.locator(f".pt-controls select[name={setting}]").select_option(label=value)
    page.wait_for_function(f"window.proteusProbe.timeline.rev > {before}")


@pytest.fixture
def bench(lab: Lab, page: Page) -> Page:
    lab.write("bench.ipynb", BUILD)
    lab.run_all(page, "bench.ipynb")
    page.wait_for_function(DRAWN)
    page.wait_for_function("document.querySelectorAll('.pt-controls select[name=tp] option').length > 1")
    return page


def test_it_draws_in_light_and_dark(bench: Page, lab: Lab, screenshot: Callable[[Page, str], Path]) -> None:
    for theme in ("dark", "light"):
        lab.use_theme(bench, theme)
        bench.wait_for_timeout(200)
        screenshot(bench, f"workbench-{theme}")
    assert probe(bench, "timeline.drawn") > 20
    expect(bench.locator(".pt-metric-value").first).not_to_be_empty()
    lab.close(bench)


def test_views_are_linked_in_all_directions(bench: Page, lab: Lab) -> None:
    # from a node of the tree
    bench.locator(".pt-tree [role=treeitem] .pt-row", has_text="layers").first.click()
    bench.wait_for_function("window.proteusProbe.topology.lit.length > 0")
    row = probe(bench, "tree.selected")
    expect(bench.locator(f".pt-tree [data-id='{row}']")).to_have_attribute("aria-selected", "true")
    # from a span: step with the keyboard until one crosses links
    canvas = bench.locator(TIMELINE).first
    canvas.focus()
    bench.keyboard.press("Escape")
    bench.wait_for_function("window.proteusProbe.tree.selected === -1")
    canvas.focus()
    bench.keyboard.press("ArrowRight")
    bench.keyboard.press("ArrowDown")  # from compute to the tensor stream beneath it
    bench.wait_for_function("window.proteusProbe.topology.lit.length > 0")
    assert probe(bench, "tree.selected") >= 0
    expect(bench.locator(".pt-live").first).to_contain_text("tensor comm")
    # from a link
    link = probe(bench, "topology.lit")[0]
    edge = bench.evaluate(
        """link => { const view = [...document.querySelectorAll('.pt-link.pt-lit')][0];
             return view.getAttribute('aria-label'); }""",
        link,
    )
    bench.get_by_role("button", name=edge, exact=True).first.focus()
    bench.keyboard.press("Enter")
    expect(bench.locator(".pt-info strong")).to_contain_text("used")
    assert probe(bench, "tree.selected") == -1
    lab.close(bench)


def test_a_degree_is_changed_and_undone(bench: Page, lab: Lab) -> None:
    steps = bench.locator(".pt-metric-value").first
    before = steps.inner_text()
    choose(bench, "tp", "4")
    bench.wait_for_function("window.proteusProbe.controls.values.dp === 1")
    expect(bench.locator(".pt-change").first).to_contain_text("%")
    assert steps.inner_text() != before
    bench.get_by_role("button", name="Undo the last change").click()
    expect(steps).to_have_text(before)
    assert probe(bench, "controls.values.tp") == 2
    lab.close(bench)


def test_impossible_values_are_greyed_with_their_reason(bench: Page, lab: Lab) -> None:
    barred = bench.locator(".pt-controls select[name=tp] option[disabled]")
    assert barred.count() >= 1
    assert "needs" in barred.first.inner_text() or "divide" in barred.first.inner_text()
    lab.close(bench)


def test_a_node_is_edited_by_keyboard_alone(bench: Page, lab: Lab) -> None:
    bench.locator(".pt-tree [role=treeitem][tabindex='0']").focus()
    cells = bench.locator(".jp-Cell").count()
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
    lab.close(bench)


def test_single_keys_stay_in_the_views(bench: Page, lab: Lab) -> None:
    cells = bench.locator(".jp-Cell").count()
    for target in (TIMELINE, ".pt-tree [role=treeitem]", ".pt-topology .pt-link"):
        bench.locator(target).first.focus()
        for key in "wasdbfm0cx":
            bench.keyboard.press(key)
    bench.wait_for_timeout(300)
    assert bench.locator(".jp-Cell").count() == cells
    lab.close(bench)


def test_zoom_by_keyboard_and_fit(bench: Page, lab: Lab) -> None:
    bench.locator(TIMELINE).first.focus()
    whole = probe(bench, "timeline.to")
    for key in "www":
        bench.keyboard.press(key)
    bench.wait_for_function(f"window.proteusProbe.timeline.to < {whole}")
    bench.keyboard.press("0")
    bench.wait_for_function(f"window.proteusProbe.timeline.to === {whole}")
    lab.close(bench)


def test_tabs_explain_chart_and_compare(bench: Page, lab: Lab) -> None:
    def tab(name: str) -> None:
        bench.locator(".jupyter-widget-tab .lm-TabBar-tab", has_text=name).click()

    tab("Why is it slow?")
    bench.wait_for_function("window.proteusProbe.why?.steps > 3")
    tab("Charts")
    bench.wait_for_function("window.proteusProbe.charts?.count === 3")
    bench.get_by_role("button", name="Pin this result").click()
    choose(bench, "tp", "1")
    tab("Compare")
    bench.wait_for_function("window.proteusProbe['pinned timeline']?.n > 0")
    expect(bench.locator(".pt-compare .pt-differences")).to_contain_text("tp 2 → 1")
    tab("Code")
    expect(bench.locator("pre", has_text="parallelize").last).to_be_visible()
    lab.close(bench)


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
