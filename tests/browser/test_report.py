"""The offline report opens from disk, asks the network for nothing, and its views are linked."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.views import open_report


def test_report_is_offline_and_linked(page: Page, tmp_path: Path) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    open_report(page, tmp_path / "report.html")
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    page.locator(".pt-row", has_text="layers").first.click()
    page.wait_for_function("window.proteusProbe.topology.lit.length > 0")
    canvas = page.locator(".pt-timeline canvas")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("window.proteusProbe.topology.lit.length === 0")  # compute crosses no link
    assert page.evaluate("window.proteusProbe.tree.selected") >= 0
    expect(page.locator(".pt-live")).to_contain_text("lasts")
