"""GPT-3 on 1,024 GPUs in a real browser: levels of detail, a long simulation that is watched and stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.lab import Lab
from tests.browser.views import OFFERED, TIMELINE, choose, probe

#: a change to tp=4 is half done at once and goes on until it is stopped; every other one is simulated
LARGE = """
import time
import proteus as pt
from proteus_widgets import Session, Workbench

def simulate(tree, cluster, progress=None):
    if progress and dict(tree.mesh.axes)["tp"] == 4:
        progress.begin(2)
        progress.signal[1] = 1
        while True:
            progress.check()
            time.sleep(0.01)
    return pt.simulate(tree, cluster, progress=progress)

tree = pt.StrategyTree(pt.models.load("gpt3-175b")).parallelize(
    dp=16, tp=8, pp=8, global_batch=1536, sequence_parallel=True)
Workbench(session=Session(tree, pt.clusters.load("dgx-a100", nodes=128), simulate=simulate))
"""


def test_a_thousand_gpus(lab: Lab, page: Page, screenshot: Callable[[Page, str], Path]) -> None:
    lab.write("large.ipynb", LARGE)
    lab.run_all(page, "large.ipynb")
    page.wait_for_function("window.proteusProbe?.timeline?.n > 0")
    page.wait_for_function(OFFERED)
    # only what the pixels can show is sent, and the whole step is there
    assert probe(page, "timeline.lod") and probe(page, "timeline.total") > 300_000
    assert probe(page, "timeline.n") < 60_000
    # the bars of a host's tile stand for its links
    page.locator(".pt-link[aria-label^='host 5 to network']").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("window.proteusProbe.topology.lit.length > 0")
    expect(page.locator(".pt-info strong")).to_contain_text("host5/")
    screenshot(page, "thousand-link")
    page.keyboard.press("Escape")
    page.wait_for_function("window.proteusProbe.topology.lit.length === 0")
    # a change brings another picture
    step = page.locator(".pt-metric-value").first.inner_text()
    choose(page, "sequence_parallel", "off")
    page.wait_for_function("window.proteusProbe.timeline.show === 2")
    expect(page.locator(".pt-metric-value").first).not_to_have_text(step)
    # zoomed in, more detail of a part is asked for
    canvas = page.locator(TIMELINE).first
    canvas.focus()
    for _ in range(12):
        page.keyboard.press("w")
    rev = probe(page, "timeline.rev")
    page.wait_for_function(f"window.proteusProbe.timeline.rev > {rev}")
    # a long simulation shows how far it is, the views answer meanwhile, and it is stopped
    step = page.locator(".pt-metric-value").first.inner_text()
    page.locator(".pt-controls select[name=tp]").select_option(label="4")
    bar = page.get_by_role("progressbar", name="simulated")
    expect(bar).to_have_attribute("value", "0.5")
    canvas.focus()
    rev = probe(page, "timeline.rev")
    page.keyboard.press("ArrowRight")  # to the first span that was sent, left of what is seen: the view follows
    page.wait_for_function("window.proteusProbe.tree.selected >= 0")
    page.wait_for_function(f"window.proteusProbe.timeline.rev > {rev}")
    screenshot(page, "thousand-gpus-busy")
    page.get_by_role("button", name="Stop").click()
    expect(bar).to_be_hidden()
    expect(page.locator(".pt-controls select[name=tp] option:checked")).to_have_text("8")
    expect(page.locator(".pt-metric-value").first).to_have_text(step)
    # the thread that was stopped is free for the next change
    choose(page, "sequence_parallel", "on")
    page.wait_for_function("window.proteusProbe.timeline.show === 3")
    lab.close(page)
