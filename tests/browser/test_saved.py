"""What is saved comes back: notebooks after a restart of their kernel, sessions in another notebook."""

from __future__ import annotations

import nbformat
from playwright.sync_api import Page

from tests.browser.lab import KERNEL_IDLE, Lab
from tests.browser.views import BUILD, DRAWN, OFFERED, TIMELINE, choose, probe

MAX_BYTES = 300e3
AGAIN = """
from proteus_widgets import Session, Workbench
Workbench(session=Session.load("mine.proteus.yaml"))
"""
KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"
PICTURE = f"document.querySelector('{TIMELINE}').toDataURL()"


def picture(page: Page) -> tuple[object, object]:
    """The timeline as drawn, and the numbers of the headline."""
    page.wait_for_function(DRAWN)
    page.wait_for_function(OFFERED)
    page.wait_for_function(KERNEL_IDLE)
    page.locator(TIMELINE).first.focus()
    page.mouse.move(0, 0)
    page.wait_for_timeout(200)
    return page.evaluate(PICTURE), probe(page, "headline.metrics")


def test_a_restart_and_run_all_gives_the_same_picture_and_a_small_file(lab: Lab, page: Page) -> None:
    path = lab.write("restart.ipynb", BUILD)
    lab.run_all(page, "restart.ipynb")
    before = picture(page)
    lab.command(page, "docmanager:save")
    page.wait_for_function("!window.jupyterapp.shell.currentWidget.context.model.dirty")
    assert path.stat().st_size < MAX_BYTES
    output = nbformat.read(path, as_version=4).cells[0].outputs[0]
    assert "<table>" in output.data["text/html"] and "data:image/svg+xml" in output.data["text/html"]
    page.evaluate(f"{KERNEL}.restart()")
    page.wait_for_function(KERNEL_IDLE)
    page.evaluate("delete window.proteusProbe")
    lab.command(page, "notebook:run-all-cells")
    assert picture(page) == before
    lab.close(page)


def test_a_session_is_saved_and_loaded_elsewhere(lab: Lab, page: Page) -> None:
    lab.write("mine.ipynb", BUILD)
    lab.run_all(page, "mine.ipynb")
    page.wait_for_function(DRAWN)
    page.wait_for_function(OFFERED)
    choose(page, "tp", "4")
    saved = picture(page)
    page.evaluate(f"{KERNEL}.requestExecute({{ code: \"bench.save('mine.proteus.yaml')\" }}).done")
    lab.close(page)
    lab.write("again.ipynb", AGAIN)
    lab.run_all(page, "again.ipynb")
    drawn, numbers = picture(page)
    assert numbers == saved[1]
    assert probe(page, "controls.values.tp") == 4
    assert drawn == saved[0]
    lab.close(page)
