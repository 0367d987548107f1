"""The workbench that the browser tests share, and what they do with it."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Locator, Page

import proteus as pt

BUILD = """
import proteus as pt
model = pt.models.load("gpt2")
tree = pt.StrategyTree(model).parallelize(dp="fill", tp=2, pp=2, micro_batch=1, global_batch=16, zero=1)
bench = pt.lab(tree, pt.clusters.load("dgx-a100"))
bench
"""
DRAWN = "window.proteusProbe?.timeline?.n > 0 && window.proteusProbe?.topology?.edges > 0"
OFFERED = "document.querySelectorAll('.pt-controls select[name=tp] option').length > 1"
TIMELINE = ".pt-timeline canvas"


def probe(page: Page, expression: str) -> object:
    return page.evaluate(f"window.proteusProbe.{expression}")


def choose(page: Page, setting: str, value: str) -> None:
    """Pick a value in the controls and wait for the new picture."""
    before = probe(page, "timeline.rev")
    page.locator(f".pt-controls select[name={setting}]").select_option(label=value)
    page.wait_for_function(f"window.proteusProbe.timeline.rev > {before}")


def row(page: Page, text: str, nth: int = 0) -> Locator:
    return page.locator(".pt-tree [role=treeitem] > .pt-row", has_text=text).nth(nth)


def tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()


def open_report(page: Page, path: Path) -> None:
    """Write the report of a small result to `path` and open it from there."""
    tree = pt.StrategyTree(pt.models.load("gpt2")).parallelize(dp=2, tp=2, pp=2, global_batch=16)
    pt.simulate(tree, pt.clusters.load("dgx-a100")).to_html(path)
    page.goto(path.as_uri())
    page.wait_for_function(DRAWN)
