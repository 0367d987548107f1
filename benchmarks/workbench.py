"""How fast the workbench answers: a real Chromium on a real JupyterLab, medians of 20.

    python -m benchmarks.workbench [--large]

Prints milliseconds from a changed degree to the new picture, from a click on a
span to lit links, and of a frame while the timeline is panned and zoomed.
``--large`` takes GPT-3 175B on 1,024 GPUs instead of Llama-3-8B on 32.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import ARGUMENTS
from tests.browser.lab import Lab, free_port, server_command, server_environment, write_settings
from tests.find_browser import find

SMALL = (
    'import proteus as pt\ntree = pt.StrategyTree(pt.models.load("llama3-8b")).parallelize('
    "dp=4, tp=4, pp=2, global_batch=64, sequence_parallel=True, zero=1)\n"
    'pt.lab(tree, pt.clusters.load("dgx-a100", nodes=4))'
)
LARGE = (
    'import proteus as pt\ntree = pt.StrategyTree(pt.models.load("gpt3-175b")).parallelize('
    "dp=16, tp=8, pp=8, global_batch=1536, sequence_parallel=True)\n"
    'pt.lab(tree, pt.clusters.load("dgx-a100", nodes=128))'
)
CHANGE_DEGREE = """async (wanted) => {
    const menu = document.querySelector('.pt-controls select[name=tp]');
    const values = [...menu.options].filter(o => wanted.includes(o.value)).map(o => o.index);
    const times = [];
    for (let k = 0; k < 20; k++) {
        const revision = proteusProbe.timeline.rev, begin = performance.now();
        menu.selectedIndex = values[k % 2] === menu.selectedIndex ? values[(k + 1) % 2] : values[k % 2];
        menu.dispatchEvent(new Event('change'));
        while (proteusProbe.timeline.rev === revision) await new Promise(r => setTimeout(r, 1));
        times.push(performance.now() - begin);
        await new Promise(r => setTimeout(r, 400));
    }
    return times;
}"""
SELECT = """async () => {
    const canvas = document.querySelector('.pt-timeline canvas'), box = canvas.getBoundingClientRect(), times = [];
    for (let k = 0; k < 20; k++) {
        const at = proteusProbe.topology.at, begin = performance.now();
        const [x, y] = [box.left + 200 + 37 * k, box.top + (k % 2 ? 51 : 36)];
        const where = {clientX: x, clientY: y, pointerId: 1, bubbles: true};
        for (const type of ['pointerdown', 'pointerup']) canvas.dispatchEvent(new PointerEvent(type, where));
        for (let n = 0; proteusProbe.topology.at === at && n < 500; n++) await new Promise(r => setTimeout(r, 1));
        if (proteusProbe.topology.at !== at) times.push(performance.now() - begin);
        await new Promise(r => setTimeout(r, 150));
    }
    return times;
}"""
PAN_AND_ZOOM = """async () => {
    const canvas = document.querySelector('.pt-timeline canvas'), times = [];
    canvas.focus();
    for (let k = 0; k < 40; k++) {
        const at = proteusProbe.timeline.at;
        canvas.dispatchEvent(new KeyboardEvent('keydown', {key: 'wdsa'[k % 4], bubbles: true}));
        while (proteusProbe.timeline.at === at) await new Promise(r => requestAnimationFrame(r));
        times.push(proteusProbe.timeline.draw_ms);
    }
    return times;
}"""


def measure(page: Page, degrees: list[str]) -> None:
    """Print the three measurements of an open workbench, whose tp goes to and fro between `degrees`."""
    for name, script in (("degree to picture", CHANGE_DEGREE), ("click to links", SELECT), ("frame", PAN_AND_ZOOM)):
        times = sorted(page.evaluate(script, degrees))
        p90 = times[int(0.9 * (len(times) - 1))] if times else float("nan")
        print(f"{name:<18} median {statistics.median(times):6.1f} ms   p90 {p90:6.1f} ms   of {len(times)}")
    print(
        f"spans drawn {page.evaluate('proteusProbe.timeline.n')}, in all {page.evaluate('proteusProbe.timeline.total')}"
    )


def main() -> None:
    """Start the server and the browser, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="GPT-3 175B on 1,024 GPUs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_settings(folder)
        lab = Lab(port=free_port(), folder=folder / "notebooks", log=folder / "server.log")
        lab.folder.mkdir()
        lab.write("bench.ipynb", LARGE if options.large else SMALL)
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
                measure(page, ["4", "8"] if options.large else ["2", "4"])
                lab.close(page)
                browser.close()
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
