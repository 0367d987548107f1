"""A real JupyterLab and a real Chromium for the tests of the views.

``lab`` is the server, ``page`` an empty browser page.  A typical test::

    def test_draws(lab, page):
        lab.write("draws.ipynb", "import proteus as pt", "pt.lab(tree, cluster)")
        lab.run_all(page, "draws.ipynb")
        page.wait_for_selector(".proteus-timeline canvas")

``bench`` is a page with the workbench open, the same for all tests, in its
first state.  A page that raised a JavaScript error fails its test.  Screenshots that a
test takes with ``screenshot(page, "name")`` lie in tests/browser/screenshots.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser import views
from tests.browser.lab import KERNEL_IDLE, Lab, free_port, server_command, server_environment, write_settings
from tests.find_browser import ADVICE, find

SCREENSHOTS = Path(__file__).parent / "screenshots"
#: no sandbox for root in a container; no GPU, so that pictures are the same everywhere; nothing asked of the network
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
STOP_TIMEOUT_S = 20
#: patience with a machine that does other things as well; nothing waits longer than it must
ANSWER_TIMEOUT_MS, EXPECT_TIMEOUT_MS = 90_000, 30_000
expect.set_options(timeout=EXPECT_TIMEOUT_MS)
#: press the button if it can be; whether it could
UNDO = """() => {
    const button = document.querySelector('.pt-headline button[aria-label^="Undo"]');
    const can = !button.disabled;
    button.click();
    return can;
}"""
VIEWPORT = {"width": 1500, "height": 1100}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab server of this run's own, with its settings and notebooks in a temporary folder."""
    folder = tmp_path_factory.mktemp("lab")
    write_settings(folder)
    server = Lab(port=free_port(), folder=folder / "notebooks", log=folder / "server.log")
    server.folder.mkdir()
    with server.log.open("w") as log:
        process = subprocess.Popen(
            server_command(server), env=server_environment(folder), stdout=log, stderr=subprocess.STDOUT
        )
        try:
            server.wait_until_up(process)
            yield server
        finally:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, without a window."""
    path = find()
    if path is None:
        pytest.fail(ADVICE, pytrace=False)  # never a skip: a view that nobody opened is not tested
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield chromium
        chromium.close()


def new_context(browser: Browser) -> BrowserContext:
    """A fresh profile."""
    context = browser.new_context(viewport=VIEWPORT)
    context.set_default_timeout(ANSWER_TIMEOUT_MS)
    return context


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page of a fresh profile; its JavaScript errors fail the test."""
    context = new_context(browser)
    fresh = context.new_page()
    errors: list[str] = []
    fresh.on("pageerror", lambda error: errors.append(str(error)))
    yield fresh
    context.close()
    assert errors == []


@pytest.fixture(scope="session")
def opened(lab: Lab, browser: Browser) -> Iterator[tuple[Page, list[str]]]:
    """The page that the tests of the workbench share, with its errors: a kernel starts slower than any test runs."""
    context = new_context(browser)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    lab.write("bench.ipynb", views.BUILD)
    lab.run_all(page, "bench.ipynb")
    page.wait_for_function(views.DRAWN)
    page.wait_for_function(views.OFFERED)
    yield page, errors
    lab.close(page)
    context.close()


@pytest.fixture
def bench(opened: tuple[Page, list[str]]) -> Iterator[Page]:
    """The shared page with nothing selected and the first strategy back; its errors fail the test."""
    page, errors = opened
    if errors:
        pytest.fail(f"an earlier test left errors: {errors}")
    before = views.probe(page, "timeline.rev")
    while page.evaluate(UNDO):
        page.wait_for_function(f"window.proteusProbe.timeline.rev > {before}")
        page.wait_for_function(KERNEL_IDLE)  # all views have followed
        before = views.probe(page, "timeline.rev")
    page.mouse.move(0, 0)
    page.locator(views.TIMELINE).first.focus()
    page.keyboard.press("Escape")
    page.wait_for_function("window.proteusProbe.tree.selected === -1 && window.proteusProbe.topology.lit.length === 0")
    page.keyboard.press("0")
    yield page
    found = list(errors)
    errors.clear()
    assert found == []


@pytest.fixture(scope="session")
def screenshot() -> Callable[[Page, str], Path]:
    """Save what a page shows, for people to look at."""
    SCREENSHOTS.mkdir(exist_ok=True)

    def save(page: Page, name: str) -> Path:
        path = SCREENSHOTS / f"{name}.png"
        page.screenshot(path=os.fspath(path))
        return path

    return save
