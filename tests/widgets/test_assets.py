"""The bundles are those of the sources, hold all of them, and fetch nothing."""

from __future__ import annotations

import re
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from proteus_widgets.assets import module, style

VIEWS = ["timeline", "topology", "tree", "chart", "code", "compare", "controls", "headline", "tabs", "why"]
STATIC = Path(str(files("proteus_widgets") / "static"))
DIST = STATIC / "dist"
BUNDLES = sorted(DIST.iterdir())
SOURCES = sorted(path for path in STATIC.rglob("*") if path.suffix in {".js", ".css"} and DIST not in path.parents)


def parts(bundle: str) -> list[str]:
    """Paths below ``static/`` of what a bundle is made of, from the comments that the bundler writes."""
    return re.findall(r"^(?://|/\*) proteus_widgets/static/(\S+)", bundle, re.MULTILINE)


def test_bundles_are_those_of_the_sources(root: Path, tmp_path: Path) -> None:
    if not (root / "widgets" / "node_modules").exists():
        pytest.skip("the bundler is not installed: make bundle")
    subprocess.run(["node", "bundle.js", str(tmp_path)], cwd=root / "widgets", check=True)
    fresh = {path.name: path.read_text() for path in tmp_path.iterdir()}
    stale = {path.name for path in BUNDLES if fresh.get(path.name) != path.read_text()}
    assert stale == set() and fresh.keys() == {path.name for path in BUNDLES}, "make bundle"


def test_every_source_is_in_a_bundle() -> None:
    used = {part for bundle in BUNDLES for part in parts(bundle.read_text())}
    assert used == {path.relative_to(STATIC).as_posix() for path in SOURCES}


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_one_module_with_render(view: str) -> None:
    text = module(view)
    assert re.findall(r"^export \{\n  (.*)\n\};", text, re.MULTILINE) == [f"{view}_default as default"]
    assert f"var {view}_default = {{ render }};" in text
    assert not re.search(r"^import\b|\bimport\(", text, re.MULTILINE)


def test_each_bundle_belongs_to_a_view_or_the_report() -> None:
    assert {path.stem for path in BUNDLES} == {*VIEWS, "report"}


def test_the_report_holds_the_modules_of_its_views() -> None:
    report = set(parts(module("report")))
    for view in ("timeline", "topology", "tree", "why"):
        assert set(parts(module(view))) <= report


def test_untrusted_text_never_becomes_markup() -> None:
    for path in SOURCES:
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", path.read_text()), path.name


def test_nothing_is_fetched() -> None:
    for path in [*SOURCES, *BUNDLES]:
        addresses = re.findall(r"https?://[^\s\"']+", path.read_text())
        assert [url for url in addresses if not url.startswith("http://www.w3.org/")] == [], path.name


@pytest.mark.parametrize("view", [*VIEWS, "report"])
def test_styles_begin_with_what_all_share(view: str) -> None:
    assert parts(style(view))[0] == "base.css"


def test_the_reports_own_styles_come_last() -> None:
    assert parts(style("report")) == [
        "base.css",
        "timeline.css",
        "topology.css",
        "tree.css",
        "panels.css",
        "report.css",
    ]
