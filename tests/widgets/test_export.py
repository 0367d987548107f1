"""The offline report: one file, nothing fetched, names as text."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import proteus as pt
from proteus.result.result import Result
from proteus_widgets import export
from proteus_widgets.assets import module, style

EVIL = "<img src=x onerror=alert(1)></script>"


@pytest.fixture(scope="module")
def result() -> Result:
    model = pt.models.load("gpt2")
    tree = pt.StrategyTree(replace(model, name=EVIL)).parallelize(dp=2, tp=2, pp=2, global_batch=16)
    return pt.simulate(tree, pt.clusters.load("dgx-a100"))


@pytest.fixture(scope="module")
def page(result: Result) -> str:
    return export.html(result)


def part(page: str, name: str) -> str:
    match = re.search(rf'<script [^>]*id="{name}">(.*?)</script>', page, re.DOTALL)
    assert match
    return match[1]


def test_columns_are_those_of_the_result(page: str, result: Result) -> None:
    state = json.loads(part(page, "state"))
    blob = gzip.decompress(base64.b64decode(part(page, "columns")))
    offset, length = state["views"]["timeline"]["data"]["start"]["$"]
    assert offset % 8 == 0
    assert np.frombuffer(blob[offset : offset + length], "f8").tolist() == result.spans.start_s.tolist()


def test_nothing_is_fetched(page: str) -> None:
    assert not re.search(r"""(?:src|href)\s*=\s*["']|@import|url\(""", page)


def test_a_name_is_text_everywhere(page: str) -> None:
    assert "<img" not in page
    assert html.escape(EVIL) in page
    assert page.count("</script>") == page.count("<script ")


def test_program_and_styles_are_the_bundles(page: str) -> None:
    assert f'<script type="module">{module("report")}</script>' in page
    assert f"<style>{style('report')}</style>" in page


def test_same_result_same_file(page: str, result: Result) -> None:
    assert export.html(result) == page


def test_to_html_writes_whole_files(result: Result, tmp_path: Path) -> None:
    result.to_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == export.html(result)
    with pytest.raises(pt.InputError, match="cannot be written"):
        result.to_html(tmp_path / "missing" / "report.html")
