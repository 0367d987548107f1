"""The still picture: small, right, and its names are text."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

import proteus as pt
from proteus.result.spans import SpanKind
from proteus_widgets import Session, Workbench, still
from tests.widgets.build import makespan, pipeline_spans
from tests.widgets.conftest import Wire

MAX_BYTES = 60_000


def test_coverage_is_the_time_of_the_lane() -> None:
    spans = pipeline_spans()
    whole_s = makespan(spans)
    for lane in range(len(spans.lanes)):
        first, last = spans.lane_ptr[lane], spans.lane_ptr[lane + 1]
        _, share = still.coverage(spans, lane, whole_s, 300)
        assert share.sum() * whole_s / 300 == pytest.approx(float(spans.duration_s[first:last].sum()), rel=1e-5)


def test_a_pixel_shows_what_fills_most_of_it() -> None:
    spans = pipeline_spans(devices=1, micro_batches=1, layers=1)  # 1 ms forward, 2 ms backward, then the optimizer
    kind, share = still.coverage(spans, 0, makespan(spans), 4)
    assert kind[0] in (SpanKind.FORWARD, SpanKind.BACKWARD) and share[0] > 0.9
    assert kind[-1] == SpanKind.OPTIMIZER


def test_strokes_cover_what_is_seen() -> None:
    spans = pipeline_spans()
    kind, share = still.coverage(spans, 0, makespan(spans), still.WIDTH)
    paths = still.lane_paths(spans, 0, makespan(spans), 10.0)
    for one in np.unique(kind[share >= still.FILLED]).tolist():
        seen = int(((kind == one) & (share >= still.FILLED)).sum())
        assert sum(int(width) for width in re.findall(r"h(\d+)", paths[one])) == seen


def test_the_output_of_a_workbench_holds_views_table_and_picture(wire: Wire, session: Session) -> None:
    bundle = Workbench(session=session)._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert "<table>" in bundle["text/html"] and "<svg" not in bundle["text/html"]
    picture = base64.b64decode(re.search(r"base64,([^\"]+)", bundle["text/html"])[1]).decode()  # type: ignore[index]
    ElementTree.fromstring(picture)
    assert "GPU 0" in picture and "gpt2" in picture


def test_it_is_small_for_many_devices() -> None:
    tree = pt.StrategyTree(pt.models.load("gpt3-175b")).parallelize(dp=2, tp=8, pp=16, global_batch=64)
    result = pt.simulate(tree, pt.clusters.load("dgx-a100", nodes=32))
    assert len(still.html(result)) < MAX_BYTES
    assert "and 8 more" in still.svg(result)


def test_untrusted_names_are_text(small_tree: pt.StrategyTree, box: pt.Cluster) -> None:
    model = replace(pt.models.load("gpt2"), name="<img src=x onerror=alert(1)>")
    result = pt.simulate(pt.StrategyTree(model).parallelize(dp=8, global_batch=8), box)
    assert "<img" not in still.svg(result)
    ElementTree.fromstring(still.svg(result))
    assert "<img src=x" not in still.html(result)
