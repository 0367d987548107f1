"""How fast the workbench answers: a real Chromium on a real JupyterLab, medians of 20.

    python -m benchmarks.workbench [small | large | million] [--edits N]

Prints milliseconds from a changed menu to the new picture, from a click on a
span to what it lights, and of a frame while the timeline is panned and zoomed.
``small`` is Llama-3-8B on 32 GPUs, ``large`` GPT-3 175B on 1,024 GPUs, and
``million`` the same with 3 × the batch, which has over a million spans.
``--edits`` measures instead how the memory of the kernel grows over so many
changes.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import ARGUMENTS
from tests.browser.lab import KERNEL_IDLE, Lab, free_port, server_command, server_environment, write_settings
from tests.find_browser import find


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A workbench, and the menu whose two values it is switched between."""

    cell: str
    menu: str
    values: tuple[str, str]


def gpt3(global_batch: int) -> str:
    """The cell that opens GPT-3 175B on 1,024 GPUs."""
    return (
        'import proteus as pt\ntree = pt.StrategyTree(pt.models.load("gpt3-175b")).parallelize('
        f"dp='fill', tp=8, pp=8, global_batch={global_batch}, sequence_parallel=True)\n"
        'pt.lab(tree, pt.clusters.load("dgx-a100", nodes=128))'
    )


CASES = {
    "small": Case(
        cell='import proteus as pt\ntree = pt.StrategyTree(pt.models.load("llama3-8b")).parallelize('
        "dp='fill', tp=4, pp=2, global_batch=64, sequence_parallel=True, zero=1)\n"
        'pt.lab(tree, pt.clusters.load("dgx-a100", nodes=4))',
        menu="tp",
        values=("2", "4"),
    ),
    "large": Case(cell=gpt3(1536), menu="tp", values=("4", "8")),
    "million": Case(cell=gpt3(4608), menu="sequence_parallel", values=("off", "on")),
}
#: MB of memory that the kernel holds
RESIDENT = """import os
print(int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6)"""
#: times of so many changes [ms]; one that brings no picture within half a minute is an error
CHANGE = """async ([menu, values, count, pause]) => {
    const select = document.querySelector(`.pt-controls select[name=${menu}]`), times = [];
    const indices = values.map(value => [...select.options].findIndex(o => o.textContent.trim() === value));
    if (indices.includes(-1)) throw Error(`${menu} offers ${[...select.options].map(o => o.textContent)}`);
    for (let k = 0; k < count; k++) {
        const show = proteusProbe.timeline.show, begin = performance.now();
        select.selectedIndex = indices.find(index => index !== select.selectedIndex);
        select.dispatchEvent(new Event('change'));
        while (proteusProbe.timeline.show === show) {
            await new Promise(r => setTimeout(r, 1));
            if (performance.now() - begin > 3e4) throw Error(`change ${k} of ${menu} brought no picture`);
        }
        times.push(performance.now() - begin);
        await new Promise(r => setTimeout(r, pause));
    }
    return times;
}"""
#: clicks on three streams of the first device: the links light up, or the node of the tree where no link is drawn
SELECT = """async () => {
    const canvas = document.querySelector('.pt-timeline canvas'), box = canvas.getBoundingClientRect(), times = [];
    const seen = () => proteusProbe.topology.at + proteusProbe.tree.at;
    for (let k = 0; k < 120 && times.length < 20; k++) {
        const before = seen(), begin = performance.now();
        const [x, y] = [box.left + 180 + 7 * k, box.top + [36, 51, 62][k % 3]];
        const where = {clientX: x, clientY: y, pointerId: 1, bubbles: true};
        for (const type of ['pointerdown', 'pointerup']) canvas.dispatchEvent(new PointerEvent(type, where));
        while (seen() === before && performance.now() - begin < 400) await new Promise(r => setTimeout(r, 1));
        if (seen() !== before) times.push(performance.now() - begin);
        await new Promise(r => setTimeout(r, 100));
    }
    return times;
}"""
PAN_AND_ZOOM = """async () => {
    const canvas = document.querySelector('.pt-timeline canvas'), times = [];
    canvas.focus();
    for (let k = 0; k < 44; k++) {
        const at = proteusProbe.timeline.at;
        canvas.dispatchEvent(new KeyboardEvent('keydown', {key: 'wdsa'[k % 4], bubbles: true}));
        while (proteusProbe.timeline.at === at) await new Promise(r => requestAnimationFrame(r));
        if (k >= 4) times.push(proteusProbe.timeline.draw_ms);
    }
    return times;
}"""


def say(name: str, times: Sequence[float]) -> None:
    """Print the median of `times` [ms] and the time that nine of ten do not exceed."""
    times = sorted(times)
    p90 = times[int(0.9 * (len(times) - 1))] if times else float("nan")
    print(f"{name:<18} median {statistics.median(times):6.1f} ms   p90 {p90:6.1f} ms   of {len(times)}", flush=True)


def measure(page: Page, case: Case) -> None:
    """Print the three measurements of an open workbench."""
    say("change to picture", page.evaluate(CHANGE, [case.menu, case.values, 20, 400]))
    probe = page.evaluate("proteusProbe.timeline")
    print(f"spans drawn {probe['n']}, in all {probe['total']}", flush=True)
    say("click to lit", page.evaluate(SELECT))
    say("frame", page.evaluate(PAN_AND_ZOOM))


def follow_memory(page: Page, lab: Lab, case: Case, edits: int) -> None:
    """Print what the kernel holds after every tenth of `edits` changes."""
    for done in range(0, edits + 1, max(edits // 10, 1)):
        if done:
            page.evaluate(CHANGE, [case.menu, case.values, max(edits // 10, 1), 0])
        lab.command(page, "notebook:run-cell")
        page.wait_for_function(KERNEL_IDLE)
        text = page.locator(".jp-OutputArea-output pre").last.inner_text()
        print(f"after {done:5d} changes {float(text):7.0f} MB", flush=True)


def main() -> None:
    """Start the server and the browser, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="?", choices=CASES, default="small")
    parser.add_argument("--edits", type=int, default=0, help="follow the memory of the kernel over so many changes")
    options = parser.parse_args()
    case = CASES[options.case]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_settings(folder)
        lab = Lab(port=free_port(), folder=folder / "notebooks", log=folder / "server.log")
        lab.folder.mkdir()
        lab.write("bench.ipynb", case.cell, RESIDENT)
        with lab.log.open("w") as log:
            server = subprocess.Popen(
                server_command(lab), env=server_environment(folder), stdout=log, stderr=subprocess.STDOUT
            )
        try:
            lab.wait_until_up(server)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=find(), args=list(ARGUMENTS))
                page = browser.new_page(viewport={"width": 1380, "height": 1500})
                lab.run_all(page, "bench.ipynb")
                page.wait_for_function("window.proteusProbe?.timeline?.n > 0")
                page.wait_for_timeout(3000)
                if options.edits:
                    follow_memory(page, lab, case, options.edits)
                else:
                    measure(page, case)
                lab.close(page)
                browser.close()
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
