"""axe finds nothing serious in the views, in light and dark."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser.lab import Lab
from tests.browser.views import row, tab

#: of axe's four grades; "minor" and "moderate" are advice
BARRED_IMPACTS = {"serious", "critical"}
#: rules that must have had something to look at: else the views were not examined
EXAMINED = {"button-name", "color-contrast", "select-name", "label", "aria-required-children"}


def findings(page: Page) -> list[str]:
    """What axe finds in our views, as ``impact rule: element``; the rest of the page is JupyterLab's."""
    response = Axe().run(page, context={"include": [[".pt"]]}).response
    assert {rule["id"] for rule in response["passes"] + response["violations"]} >= EXAMINED
    return [
        f"{rule['impact']} {rule['id']}: {node['html'][:160]} — {node['failureSummary'][:200]}"
        for rule in response["violations"]
        if rule["impact"] in BARRED_IMPACTS
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(bench: Page, lab: Lab, theme: str) -> None:
    lab.use_theme(bench, theme)
    tab(bench, "Why is it slow?")
    row(bench, "layers").click()
    bench.wait_for_function("window.proteusProbe.topology.lit.length > 0")
    found = findings(bench)
    lab.use_theme(bench, "light")
    assert found == []
