"""The browser's modules are bundled whole, once, and without names that clash."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from proteus_widgets.assets import module, sources, style

ENTRIES = [
    "timeline/timeline.js",
    "topology/topology.js",
    "tree/tree.js",
    *(f"panels/{name}.js" for name in ("controls", "headline", "why", "compare", "chart", "tabs", "code")),
]
STATIC = Path(str(files("proteus_widgets") / "static"))


@pytest.mark.parametrize("entry", ENTRIES)
def test_bundle_has_one_export_and_no_import(entry: str) -> None:
    text = module(entry)
    assert re.findall(r"^export .*", text, re.MULTILINE) == ["export default { render };"]
    assert not re.search(r"^import ", text, re.MULTILINE)


@pytest.mark.parametrize("entry", [*ENTRIES, "offline/report.js"])
def test_what_is_imported_stands_before_its_user(entry: str) -> None:
    order = sources(entry)
    assert order[-1] == entry
    assert len(set(order)) == len(order)
    for position, path in enumerate(order):
        for target in re.findall(r'from "\./?([^"]+)"', (STATIC / path).read_text()):
            assert any(seen.endswith(target.lstrip("./")) for seen in order[:position])


def test_every_module_is_used() -> None:
    used = {path for entry in [*ENTRIES, "offline/report.js"] for path in sources(entry)}
    there = {path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*.js")}
    assert there == used


def test_untrusted_text_never_becomes_markup() -> None:
    for path in STATIC.rglob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", path.read_text()), path.name


def test_nothing_is_fetched() -> None:
    for path in [*STATIC.rglob("*.js"), *STATIC.rglob("*.css")]:
        found = re.findall(r"https?://[^\s\"']+", path.read_text())
        assert [url for url in found if not url.startswith("http://www.w3.org/")] == [], path.name


def test_styles_begin_with_what_all_share() -> None:
    assert style("tree").startswith(style())
