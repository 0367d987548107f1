"""The explanation names who talks, prints, and keeps names as text."""

from __future__ import annotations

import json

import pytest

from proteus.result.ladder import Rung
from tests.result.samples import result


def test_exposed_by_node_is_all_that_is_exposed() -> None:
    outcome = result("tensor")
    by_node = outcome.explain().exposed_by_node
    assert sum(s for _, s in by_node) == pytest.approx(sum(outcome.exposed_comm_s.values()))
    assert any(path.startswith("layers") for path, _ in by_node)
    assert [s for _, s in by_node] == sorted((s for _, s in by_node), reverse=True)


def test_prints() -> None:
    explained = result("pipeline").explain(sensitivities=True)
    text = str(explained)
    assert "ideal compute" in text and "100.0%" in text and "if the machine were better" in text
    assert "<table>" in explained._repr_mimebundle_()["text/html"]
    again = json.loads(json.dumps(explained.to_dict()))
    assert again["step_time_s"] == explained.step_time_s
    assert len(again["ladder"]) == len(explained.steps)


def test_names_are_text_in_html() -> None:
    explained = result("data").explain()
    evil = type(explained)(
        step_time_s=1.0,
        steps=(Rung(label="<img onerror=x>", seconds=1.0, note="<b>"),),
        exposed_by_node=(),
        path_by_kind=(),
    )
    page = evil._repr_mimebundle_()["text/html"]
    assert "<img" not in page and "<b>" not in page
