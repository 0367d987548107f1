"""axe finds nothing serious in the views and in reports, in light and dark."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser.lab import Lab
from tests.browser.views import choose, open_report, row, tab

#: of axe's four grades; "minor" and "moderate" are advice
BARRED_IMPACTS = {"serious", "critical"}
#: tab and when it is drawn
TABS = {
    "Why is it slow?": "window.proteusProbe.why?.steps > 3",
    "Charts": "window.proteusProbe.charts?.count === 4",
    "Compare": "window.proteusProbe['pinned timeline']?.n > 0",
    "Code": "document.querySelector('.pt-source')?.textContent.includes('parallelize')",
}
#: rules that must have had something to look at: else the views were not examined
EXAMINED = {"button-name", "color-contrast", "label", "aria-required-children"}


def findings(page: Page, where: str) -> list[str]:
    """What axe finds in `where`, as ``impact rule: element``; the rest of a page is JupyterLab's."""
    response = Axe().run(page, context={"include": [[where]]}).response
    assert {rule["id"] for rule in response["passes"] + response["violations"]} >= EXAMINED
    return [
        f"{rule['impact']} {rule['id']}: {node['html'][:160]} — {node['failureSummary'][:200]}"
        for rule in response["violations"]
        if rule["impact"] in BARRED_IMPACTS
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_any_tab(bench: Page, lab: Lab, theme: str) -> None:
    lab.use_theme(bench, theme)
    bench.get_by_role("button", name="Pin this result").click()
    disclosures = bench.locator(".pt-headline summary, .pt-controls summary")
    for at in range(disclosures.count()):
        disclosures.nth(at).click()
    choose(bench, "dp", "1")  # with a warning of idle devices
    row(bench, "layers").click()
    bench.wait_for_function("window.proteusProbe.topology.lit.length > 0")
    findings_by_tab = {}
    for name, is_drawn in TABS.items():
        tab(bench, name)
        bench.wait_for_function(is_drawn)
        findings_by_tab[name] = findings(bench, ".pt-workbench")
    bench.get_by_role("button", name="Pin this result").click()
    tab(bench, "Why is it slow?")
    for at in range(disclosures.count()):
        disclosures.nth(at).click()
    lab.use_theme(bench, "light")
    assert {name: violations for name, violations in findings_by_tab.items() if violations} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_a_report(page: Page, tmp_path: Path, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=scheme)
    open_report(page, tmp_path / "report.html")
    row(page, "layers").click()
    page.wait_for_function("window.proteusProbe.topology.lit.length > 0")
    assert findings(page, "body") == []
