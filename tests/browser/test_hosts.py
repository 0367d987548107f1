"""The workbench in the other places that show notebooks: Notebook 7 and Voila.

Both are extensions of the server that the other tests use, so they cost no start of their own.
What they write to the console of their own accord (Voila asks the network for fonts) is not ours;
our modules have ``blob:`` addresses, and an error is ours where one of those, or anywidget's name, is in its trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import new_context
from tests.browser.lab import KERNEL_TIMEOUT_MS, Lab
from tests.browser.views import BUILD, DRAWN, OFFERED, choose, tab

IDLE = ".jp-Notebook-ExecutionIndicator[data-status='idle']"
#: the prompt of a cell that was never run, and how often it is asked to
NOT_RUN, RUN_TRIES, TRY_MS = "[ ]:", 60, 1000
OURS = ("blob:", "anywidget")


@pytest.fixture
def hosted(browser: Browser) -> Iterator[tuple[Page, list[str]]]:
    """An empty page, and the errors of ours on it."""
    context = new_context(browser)
    page = context.new_page()
    errors: list[str] = []

    def take(text: str) -> None:
        if any(word in text for word in OURS):
            errors.append(text)

    page.on("pageerror", lambda error: take(f"{error} {error.stack}"))
    page.on("console", lambda message: take(f"{message.text} {message.location}") if message.type == "error" else None)
    yield page, errors
    context.close()


def open_voila(page: Page, lab: Lab) -> None:
    page.goto(f"{lab.url}/voila/render/host.ipynb")


def open_notebook(page: Page, lab: Lab) -> None:
    page.goto(f"{lab.url}/notebooks/host.ipynb")
    page.wait_for_selector(IDLE)  # before that the keys do nothing yet
    prompt = page.locator(".jp-CodeCell .jp-InputPrompt").first
    for _ in range(RUN_TRIES):  # on a busy host the first keys are lost while extensions still start
        page.locator(".jp-Cell .cm-content").first.click()
        page.keyboard.press("Control+Enter")
        page.wait_for_timeout(TRY_MS)
        if prompt.inner_text().strip() != NOT_RUN:
            return


@pytest.mark.parametrize(("name", "open_host"), [("notebook", open_notebook), ("voila", open_voila)])
def test_it_draws_and_answers(
    lab: Lab,
    hosted: tuple[Page, list[str]],
    screenshot: Callable[[Page, str], Path],
    name: str,
    open_host: Callable[[Page, Lab], None],
) -> None:
    page, errors = hosted
    lab.write("host.ipynb", BUILD)
    open_host(page, lab)
    page.wait_for_function(DRAWN, timeout=KERNEL_TIMEOUT_MS)
    page.wait_for_function(OFFERED)
    screenshot(page, name)
    before = page.locator(".pt-metric-value").first.inner_text()
    choose(page, "tp", "4")
    expect(page.locator(".pt-metric-value").first).not_to_have_text(before)
    tab(page, "Charts")  # the one view that loads a library of its own
    page.wait_for_function("window.proteusProbe.charts?.count === 4")
    assert errors == []
