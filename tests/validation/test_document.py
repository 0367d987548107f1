"""The page on accuracy and its plots."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from proteus.validation.document import FIRST, Evidence, held_out, page, write
from proteus.validation.metrics import one_scale_error
from proteus.validation.plots import scatter
from proteus.validation.runs import parse_runs, shipped_runs
from proteus.validation.score import PLAIN
from proteus.validation.validate import validate
from proteus.validation.warm import warm_scores
from tests.validation.rows import table


def evidence() -> Evidence:
    runs = parse_runs(table({}, {"id": "a-2", "dp": "8", "tp": "1"}, {"id": "a-3", "task": "lora"}), "t")
    cold = validate(runs, workers=1)
    warm = warm_scores(runs, cold, PLAIN, workers=1)
    return Evidence(
        runs=runs,
        cold=cold,
        warm=warm,
        later_runs=runs,
        later=cold,
        later_warm=warm,
        classic=[],
        ablation={"overlap off": cold},
        ladders={"a-1": "compute 90 %"},
    )


def test_a_plot_is_well_formed_and_has_a_point_per_run() -> None:
    collected = evidence()
    root = ElementTree.fromstring(scatter("a < b", [("m & n", collected.cold)]))
    circles = [node for node in root.iter() if node.tag.endswith("circle") and node.get("r") == "2.2"]
    assert len(circles) == 2


def test_the_page_tells_tables_reasons_and_rows(tmp_path: Path) -> None:
    collected = evidence()
    write(collected, tmp_path / "accuracy.md")
    text = (tmp_path / "accuracy.md").read_text()
    assert text == page(collected, "accuracy")
    for words in ("| a |", "overlap off", "adapters", "a-1 a:", "compute 90 %"):
        assert words in text
    assert "held out | warm | one scale" in text
    assert "3 more runs, from 1 tables, were collected when" in text
    for name in ("cold", "warm", "later"):
        assert f"accuracy/{name}.svg" in text
        assert (tmp_path / "accuracy" / f"{name}.svg").is_file()


def test_every_timed_table_is_held_out_once() -> None:
    timed = {run.table_id for run in shipped_runs() if run.step_time_s is not None}
    added = held_out()
    assert set(added) == timed
    # leaving its own runs out of what they shaped never flatters a table by much
    assert min(added.values()) > -0.03
    assert added["vtrain_single_h1024"] > 0.1  # no other table can show its host's time


def test_one_scale_takes_a_common_factor_away() -> None:
    collected = evidence().cold
    both = [replace(score, measured_step_time_s=7.0 * (score.step_time_s or 0.0)) for score in collected]
    assert one_scale_error(both) == pytest.approx(0.0, abs=1e-9)
    assert one_scale_error([]) is None


def test_every_table_collected_later_has_its_first_error() -> None:
    timed = {run.table_id for run in shipped_runs("later") if run.step_time_s is not None}
    first = json.loads(FIRST.read_text(encoding="utf-8"))["tables"]
    assert set(first) == timed
