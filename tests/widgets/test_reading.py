"""What the views read off a result."""

from __future__ import annotations

import numpy as np
import pytest

import proteus as pt
from proteus.result.result import Result
from proteus_widgets.reading import arrows, busy_by_device, members, node_shares
from proteus_widgets.selection import subtree


@pytest.fixture(scope="module")
def pipeline() -> Result:
    tree = pt.StrategyTree(pt.models.load("gpt2")).parallelize(dp=2, tp=2, pp=2, global_batch=16)
    return pt.simulate(tree, pt.clusters.load("dgx-a100"))


def test_arrows_lead_from_what_was_waited_for_to_what_waited(pipeline: Result) -> None:
    """Whatever arrow enters one span leaves another, and time does not run back along it."""
    spans, cause = pipeline.spans, pipeline.timeline.cause
    lanes = spans.lane
    found = {span: arrows(pipeline, span) for span in range(0, len(spans), 7)}
    for span, pairs in found.items():
        place = (int(lanes[span]), float(spans.start_s[span]))
        for arrow in pairs:
            assert arrow["from_s"] <= arrow["to_s"] + 1e-12
            enters = (arrow["to_lane"], arrow["to_s"]) == place
            assert enters or arrow["from_lane"] == place[0]
            if enters:
                before = int(cause[spans.task[span]])
                mine = (spans.task == before) & (lanes == arrow["from_lane"])
                assert arrow["from_s"] == pytest.approx((spans.start_s + spans.duration_s)[mine].max())
    assert any(len(pairs) > 1 for pairs in found.values())


def test_shares_of_the_tree_are_of_compute_time(pipeline: Result) -> None:
    rows = pipeline.tree.rows()
    spans = pipeline.spans
    computes = np.array([lane.stream == "compute" for lane in spans.lanes])[spans.lane]
    ranks = np.array([lane.multiplicity for lane in spans.lanes])[spans.lane]
    time_s = np.where(computes, spans.duration_s * ranks, 0.0)
    for row, share in zip(rows, node_shares(pipeline, rows), strict=True):
        mine = subtree([row.parent for row in rows], row.id)
        assert share == pytest.approx(time_s[mine[spans.node]].sum() / time_s.sum())


def test_every_device_is_as_busy_as_the_one_that_stands_for_it(pipeline: Result) -> None:
    busy = busy_by_device(pipeline)
    assert sorted(busy) == list(range(pipeline.num_devices))
    for first, ranks in members(pipeline).items():
        assert np.ptp([busy[rank] for rank in ranks]) == 0.0 and first in ranks
