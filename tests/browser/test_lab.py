"""JupyterLab itself works here: kernels run, widgets answer, errors are seen."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.lab import Lab

SLIDER = """
import ipywidgets
slider, label = ipywidgets.IntSlider(3, 0, 10), ipywidgets.Label()
slider.observe(lambda change: setattr(label, "value", f"now {change.new}"), "value")
ipywidgets.VBox([slider, label])
"""


def test_widget_answers_a_key_and_themes_switch(lab: Lab, page: Page) -> None:
    lab.write("slider.ipynb", SLIDER)
    lab.run_all(page, "slider.ipynb")
    page.locator(".widget-slider .noUi-handle").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".widget-label >> text=now 4")).to_be_visible()
    for theme in ("dark", "light"):
        lab.use_theme(page, theme)
        assert page.evaluate("document.body.dataset.jpThemeLight") == ("true" if theme == "light" else "false")
    lab.close(page)


def test_error_of_a_cell_is_seen(lab: Lab, page: Page) -> None:
    lab.write("wrong.ipynb", "1 / 0")
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        lab.run_all(page, "wrong.ipynb")
    lab.close(page)
