"""Clicks and keys at random: whatever a user does, nothing is written to the console as an error.

``PROTEUS_CLICKS=600`` goes on for ten minutes, ``PROTEUS_CLICK_SEED=7`` does other things.
"""

from __future__ import annotations

import os
import random
import time

from playwright.sync_api import ConsoleMessage, ElementHandle, Error, Page, TimeoutError

from tests.browser.views import TIMELINE, probe

SECONDS = float(os.environ.get("PROTEUS_CLICKS", "20"))
SEED = int(os.environ.get("PROTEUS_CLICK_SEED", "20"))
ANSWER_TIMEOUT_MS = 120_000
PATIENCE_MS = 1000
#: what a user can do something with
PARTS = ".pt :is(button, select, input, canvas, .pt-row, [role=button])"
KEYS = (*"wasdfmctu0np", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Enter", "Escape", "Space", "Tab")
TEXTS = ("", "1", "16", "64", "-3", "fc", "<b>", "nonsense")
MODIFIERS = ([], [], ["Control"], ["Shift"])
INSIDE = "at => Boolean(document.elementFromPoint(at.x, at.y)?.closest('.pt'))"
#: elsewhere single keys are JupyterLab's own: D D deletes the cell
IN_A_VIEW = "Boolean(document.activeElement?.closest('.pt'))"
PICK = """([parts, chance]) => {
    const seen = [...document.querySelectorAll(parts)].filter(part => part.checkVisibility() && !part.disabled);
    return seen[Math.floor(chance * seen.length)];
}"""


def act(page: Page, part: ElementHandle, chance: random.Random) -> str:
    """Do one thing to `part`; what was done, in words."""
    tag = part.evaluate("part => part.tagName.toLowerCase()")
    if tag == "select":
        values = part.evaluate("part => [...part.options].filter(o => !o.disabled).map(o => o.value)")
        value = chance.choice(values)
        part.select_option(value, timeout=PATIENCE_MS)
        return f"{part.get_attribute('name') or part.get_attribute('aria-label')} = {value}"
    part.evaluate("part => part.scrollIntoView({ block: 'nearest' })")
    box = part.bounding_box()
    if not box:
        return "nothing"
    x, y = box["x"] + box["width"] * chance.random(), box["y"] + box["height"] * chance.random()
    if not page.evaluate(INSIDE, {"x": x, "y": y}):  # something else lies over it
        return "nothing"
    page.mouse.move(x, y)
    for key in chance.choice(MODIFIERS):
        page.keyboard.down(key)
    page.mouse.click(x, y)
    for key in ("Control", "Shift"):
        page.keyboard.up(key)
    if tag == "input":
        text = chance.choice(TEXTS)
        part.evaluate(
            "(part, text) => { part.value = text; }", text if part.get_attribute("type") != "number" else "16"
        )
        part.dispatch_event("change")
        return f"typed {text!r}"
    key = chance.choice(KEYS)
    if page.evaluate(IN_A_VIEW):
        page.keyboard.press(key)
    return f"clicked {part.evaluate('part => part.outerHTML.slice(0, 80)')} and pressed {key}"


def test_random_clicks_leave_no_error(bench: Page) -> None:
    chance = random.Random(SEED)
    errors: list[str] = []
    done: list[str] = []

    def listen(message: ConsoleMessage) -> None:
        if message.type == "error":
            errors.append(f"{message.text} after {done[-3:]}")

    bench.on("console", listen)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and not errors:
        part = bench.evaluate_handle(PICK, [PARTS, chance.random()]).as_element()
        assert part is not None, f"nothing is left to click after {done[-5:]}"
        try:
            done.append(act(bench, part, chance))
        except Error as gone:  # the views redraw at any time; a part that is gone is no finding
            if "not attached" not in str(gone) and not isinstance(gone, TimeoutError):
                raise
    bench.remove_listener("console", listen)
    assert errors == []
    assert len(done) > SECONDS
    # it still answers
    bench.wait_for_function("!document.querySelector('.pt-busy')?.textContent", timeout=ANSWER_TIMEOUT_MS)
    bench.locator(TIMELINE).first.focus()
    drawn_at = probe(bench, "timeline.at")
    bench.keyboard.press("w")
    bench.wait_for_function(f"window.proteusProbe.timeline.at > {drawn_at}")
