"""The workbench as people use it: searching, measuring, applying advice, larger clusters; on the shared page."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.lab import KERNEL_IDLE
from tests.browser.views import TIMELINE, choose, probe, row, tab


def test_undo_and_redo_by_keyboard(bench: Page) -> None:
    cells = bench.locator(".jp-Cell").count()
    choose(bench, "tp", "4")
    for place, keys, tp in (
        (TIMELINE, "Control+z", 2),
        (".pt-tree [role=treeitem][tabindex='0']", "Control+Shift+z", 4),
        (".pt-controls select[name=zero]", "Control+z", 2),
        (".pt-tab[tabindex='0']", "Control+y", 4),
    ):
        bench.locator(place).first.focus()
        bench.keyboard.press(keys)
        bench.wait_for_function(f"window.proteusProbe.controls.values.tp === {tp}")
    assert bench.locator(".jp-Cell").count() == cells


def test_spans_are_found_by_name(bench: Page) -> None:
    search = bench.get_by_label("Search spans by name").first
    search.fill("layernorm")
    expect(bench.locator(".pt-found").first).to_have_text("0 found")
    search.fill("norm")
    expect(bench.locator(".pt-found").first).to_have_text(re.compile(r"[1-9][\d,]* found"))
    search.press("Enter")
    bench.wait_for_function("window.proteusProbe.tree.selected >= 0")
    expect(bench.locator(".pt-live").first).to_contain_text("norm")
    search.press("Escape")
    expect(bench.locator(".pt-found").first).to_have_text("")


def test_one_kind_is_singled_out(bench: Page) -> None:
    chip = bench.locator(".pt-chip:visible", has_text="tensor comm").first
    chip.click()
    expect(chip).to_have_attribute("aria-pressed", "true")
    chip.click()
    expect(chip).to_have_attribute("aria-pressed", "false")


def test_a_range_is_measured_by_keyboard_and_mouse(bench: Page) -> None:
    canvas, live = bench.locator(TIMELINE).first, bench.locator(".pt-live").first
    canvas.focus()
    bench.keyboard.press("ArrowRight")
    bench.wait_for_function("window.proteusProbe.tree.selected >= 0")
    bench.keyboard.press("m")
    expect(live).to_have_text(re.compile(r"^[\d.]+ (ms|µs) from "))
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    bench.keyboard.down("Shift")
    bench.mouse.move(box["x"] + 300, box["y"] + 60)
    bench.mouse.down()
    bench.mouse.move(box["x"] + 500, box["y"] + 60, steps=3)
    bench.mouse.up()
    bench.keyboard.up("Shift")
    expect(live).to_have_text(re.compile(r"^[\d.]+ ms from "))


def test_the_critical_path_is_shown(bench: Page) -> None:
    button = bench.get_by_role("button", name="Show the critical path (C)").first
    before = probe(bench, "timeline.rev")
    bench.locator(TIMELINE).first.focus()
    bench.keyboard.press("c")
    bench.wait_for_function(f"window.proteusProbe.timeline.rev > {before}")
    expect(button).to_have_attribute("aria-pressed", "true")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")


def test_a_node_is_found_in_the_tree(bench: Page) -> None:
    search = bench.get_by_label("Find a node in the tree")
    search.fill("fc1")
    expect(row(bench, "fc1")).to_be_visible()
    expect(row(bench, "embedding")).to_be_hidden()
    search.press("Escape")
    expect(row(bench, "embedding")).to_be_visible()


def test_advice_is_applied_and_taken_back(bench: Page) -> None:
    tab(bench, "Why is it slow?")
    steps = bench.locator(".pt-metric-value").first
    before, rev = steps.inner_text(), probe(bench, "timeline.rev")
    bench.get_by_role("button", name=re.compile("^Apply: ")).first.click()
    bench.wait_for_function(f"window.proteusProbe.timeline.rev > {rev}")
    expect(steps).not_to_have_text(before)
    expect(bench.locator(".pt-change").first.locator(".pt-good")).to_have_text(re.compile(r"^-[\d.]+%$"))
    bench.get_by_role("button", name="Undo the last change").click()
    expect(steps).to_have_text(before)


def test_a_cause_of_exposed_communication_is_selected_everywhere(bench: Page) -> None:
    tab(bench, "Why is it slow?")
    cause = bench.locator(".pt-why .pt-link-text").first
    path = cause.inner_text()
    cause.click()
    expect(bench.locator(".pt-inspector-title")).to_have_text(path)
    bench.wait_for_function("window.proteusProbe.topology.lit.length > 0")


def test_half_width_stacks_the_views_without_holes(bench: Page) -> None:
    size = bench.viewport_size
    assert size is not None
    bench.set_viewport_size({"width": 700, "height": size["height"]})
    parts = ("tree", "topology", "timeline")
    bench.wait_for_function(
        "document.querySelector('.pt-topology').offsetTop >= document.querySelector('.pt-tree').offsetHeight"
    )
    tree, topology, timeline = (bench.locator(f".pt-{part}").first.bounding_box() for part in parts)
    picture, frame = (bench.locator(f".pt-topology {part}").bounding_box() for part in ("svg", ".pt-topology-stage"))
    bench.set_viewport_size(size)
    assert tree and topology and timeline and picture and frame
    assert tree["y"] + tree["height"] <= topology["y"] and tree["height"] < 320
    assert timeline["y"] - topology["y"] - topology["height"] < 30
    assert frame["height"] - picture["height"] < 30


def test_a_price_gives_a_cost(bench: Page) -> None:
    price = bench.locator(".pt-controls input[name=price]")
    for value, count in (("2", 1), ("0", 0)):
        price.fill(value)
        price.press("Enter")
        expect(bench.locator(".pt-metric", has_text="$ / M tokens")).to_have_count(count)


def test_a_number_that_is_being_typed_stays_when_menus_follow(bench: Page) -> None:
    batch = bench.locator(".pt-controls input[name=global_batch]")
    choose(bench, "tp", "4")
    filled = probe(bench, "controls.at")
    batch.fill("32")
    bench.wait_for_function(f"window.proteusProbe.controls.at > {filled}")  # what may be picked now was found out
    expect(batch).to_have_value("32")
    batch.press("Enter")
    bench.wait_for_function("window.proteusProbe.controls.values.global_batch === 32")
    batch.fill("0")  # impossible: the last possible value comes back
    batch.press("Enter")
    expect(bench.locator(".pt-hint.pt-error")).to_be_visible()
    expect(batch).to_have_value("32")


def test_hosts_beyond_64_gpus_are_tiles_that_open(bench: Page) -> None:
    choose(bench, "nodes", "16")
    expect(bench.locator(".pt-tile")).to_have_count(16)
    bench.locator(".pt-tile").first.focus()
    bench.keyboard.press("Enter")
    expect(bench.locator(".pt-tile")).to_have_count(15)
    bench.wait_for_function(KERNEL_IDLE)


def test_the_code_is_copied(bench: Page) -> None:
    tab(bench, "Code")
    expect(bench.locator(".pt-source").first).to_contain_text("pt.models.load('gpt2')")
    bench.get_by_role("button", name="Copy the Python").click()
    expect(bench.locator(".pt-code-head [role=status]").first).to_have_text(re.compile("copied|selected"))
    tab(bench, "Why is it slow?")


def test_a_pin_is_compared_and_both_timelines_move_together(bench: Page) -> None:
    bench.get_by_role("button", name="Pin this result").click()
    choose(bench, "tp", "4")
    tab(bench, "Compare")
    bench.wait_for_function("window.proteusProbe['present timeline']?.n > 0")
    bench.locator(TIMELINE).nth(1).focus()
    bench.keyboard.press("w")
    both = [f"window.proteusProbe['{name} timeline'].to" for name in ("pinned", "present")]
    bench.wait_for_function(f"{both[0]} === {both[1]} && {both[0]} < window.proteusProbe.timeline.to")
    tab(bench, "Why is it slow?")
