"""What the timeline sends: whole results, details of large ones, and what it answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from proteus_widgets import timeline as module
from proteus_widgets.selection import NOTHING, Lit
from proteus_widgets.timeline import Timeline
from tests.widgets.build import makespan, pipeline_spans

SPANS = pipeline_spans(devices=4, micro_batches=8)


def column(view: Timeline, name: str, dtype: str) -> np.ndarray:
    return np.frombuffer(view.data[name], dtype)


@pytest.fixture
def picked() -> list[int]:
    return []


@pytest.fixture
def view(picked: list[int]) -> Timeline:
    made = Timeline(on_select=picked.append)
    made.show(SPANS, makespan(SPANS))
    return made


def test_columns_arrive_whole(view: Timeline) -> None:
    assert view.data["total"] == len(SPANS) and not view.data["lod"]
    assert column(view, "start", "f8").tolist() == SPANS.start_s.tolist()
    assert column(view, "kind", "u1").tolist() == SPANS.kind.tolist()
    assert column(view, "lane_ptr", "u4").tolist() == SPANS.lane_ptr.tolist()
    assert "id" not in view.data


def test_a_pick_is_reported_and_changes_nothing(view: Timeline, picked: list[int]) -> None:
    view._handle_custom_msg({"type": "select", "what": "span", "id": 7}, [])
    assert picked == [7] and view.span == {}


def test_the_critical_path_is_only_asked_for_when_wanted(view: Timeline) -> None:
    asked: list[int] = []

    def critical() -> np.ndarray:
        asked.append(1)
        return np.arange(len(SPANS)) % 2 == 0

    view.show(SPANS, makespan(SPANS), critical=critical)
    assert asked == [] and "critical" not in view.data and view.data["has_critical"]
    view._handle_custom_msg({"type": "critical", "on": True}, [])
    assert column(view, "critical", "u1")[:4].tolist() == [1, 0, 1, 0]
    view._handle_custom_msg({"type": "critical", "on": False}, [])
    assert "critical" not in view.data and asked == [1]


def need(view: Timeline, **changes: Any) -> None:
    message = {"type": "need", "from_s": 0.0, "to_s": makespan(SPANS), "first_lane": 0, "last_lane": 16, "pixels": 50}
    view._handle_custom_msg({**message, **changes}, [])


@pytest.fixture
def large(view: Timeline, monkeypatch: pytest.MonkeyPatch) -> Timeline:
    monkeypatch.setattr(module, "WHOLE_LIMIT", 100)
    view.show(SPANS, makespan(SPANS))
    return view


def test_a_large_result_arrives_as_detail_with_true_ids(large: Timeline) -> None:
    need(large)
    ids = column(large, "id", "i4")
    assert large.data["lod"] and large.data["total"] == len(SPANS) > len(ids)
    assert column(large, "start", "f8").tolist() == SPANS.start_s[ids].tolist()
    assert column(large, "node", "i4").tolist() == SPANS.node[ids].tolist()


def test_zooming_in_serves_every_span_there(large: Timeline) -> None:
    need(large, from_s=0.01, to_s=0.02, pixels=20_000)
    inside = (SPANS.start_s < 0.02) & (SPANS.start_s + SPANS.duration_s > 0.01)
    assert set(np.flatnonzero(inside).tolist()) <= set(column(large, "id", "i4").tolist())


def test_selection_works_where_the_span_was_not_sent(large: Timeline) -> None:
    need(large, pixels=2)
    sent = set(column(large, "id", "i4").tolist())
    hidden = next(i for i in range(len(SPANS)) if i not in sent)
    large.light(Lit(span=hidden))
    assert large.span["id"] == hidden and large.span["start_s"] == SPANS.start_s[hidden]


def test_a_new_result_keeps_the_place_of_who_zoomed_in(large: Timeline) -> None:
    need(large, from_s=0.01, to_s=0.02)
    large.show(SPANS, makespan(SPANS))
    kept = column(large, "start", "f8")
    assert kept.max() < 0.021
    need(large)
    large.show(SPANS, makespan(SPANS))
    assert column(large, "start", "f8").max() > 0.1


def test_lit_masks_are_bytes(view: Timeline) -> None:
    view.light(Lit(nodes=np.array([True, False, True])))
    assert bytes(view.lit["nodes"]) == b"\x01\x00\x01" and "patterns" not in view.lit
    view.light(NOTHING)
    assert view.lit == {} and view.span == {"id": -1}
