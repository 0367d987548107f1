"""The headline and what is read off the columns."""

from __future__ import annotations

import json

import numpy as np
import pytest

import proteus as pt
from tests.result.samples import STRATEGIES, result, small


@pytest.mark.parametrize("name", STRATEGIES)
def test_headline(name: str) -> None:
    outcome = result(name)
    training = outcome.tree.training
    assert outcome.step_time_s == outcome.timeline.end_s.max()
    assert outcome.samples_per_s == training.global_batch / outcome.step_time_s
    assert outcome.tokens_per_s == pytest.approx(outcome.samples_per_s * 1024)
    peak = outcome.cluster.gpu().peak_flops["bf16"]
    # Megatron counts the padded vocabulary, too
    model_flop = 3.0 * small().resized("vocab", outcome.model.blocks[0].dims["vocab"]).flop() * training.global_batch
    assert outcome.mfu == pytest.approx(model_flop / (outcome.step_time_s * 8 * peak))
    assert 0.0 < outcome.mfu < 1.0 and 0.0 < outcome.hfu < 1.0
    assert outcome.fits and outcome.missing_bytes <= 0.0


def test_recomputation_is_hardware_flop_and_not_model_flop() -> None:
    tree, cluster = pt.StrategyTree(small()), pt.clusters.load("dgx-a100")
    plain, again = (
        pt.simulate(tree.parallelize(dp=8, global_batch=16, recompute=how), cluster) for how in ("none", "full")
    )
    assert again.model_flop == plain.model_flop
    assert again.hfu * again.step_time_s > 1.1 * plain.hfu * plain.step_time_s


@pytest.mark.parametrize("name", ["tensor", "pipeline", "data"])
def test_use_of_a_link_over_time_is_its_utilisation(name: str) -> None:
    outcome = result(name)
    used = outcome.link_utilisation
    assert used.max() <= 1.0 + 1e-9
    for link in np.flatnonzero(used)[:6].tolist():
        steps = outcome.link_use(link)
        assert steps.value.max() <= 1.0 + 1e-9
        lasts = np.diff(np.append(steps.time_s, outcome.step_time_s))
        assert (steps.value * lasts).sum() / outcome.step_time_s == pytest.approx(used[link], rel=1e-6)
    idle = int(np.flatnonzero(used == 0)[0])
    assert len(outcome.link_use(idle).time_s) == 0 or outcome.link_use(idle).value.max() == 0


def test_prints_and_becomes_json() -> None:
    outcome = result("pipeline")
    assert "step time" in repr(outcome) and "MFU" in repr(outcome)
    bundle = outcome._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert json.loads(json.dumps(outcome.to_dict()))["step_time_s"] == outcome.step_time_s


def test_out_of_memory_shows() -> None:
    tree = pt.StrategyTree(pt.models.load("llama3-8b")).parallelize(dp=8, global_batch=8)
    outcome = pt.simulate(tree, pt.clusters.load("dgx-a100"))
    assert not outcome.fits
    assert "OUT OF MEMORY" in repr(outcome)


@pytest.mark.parametrize("name", ["tensor", "interleaved"])
def test_spans_are_sorted_and_belong_to_lanes(name: str) -> None:
    spans = result(name).spans
    assert len(spans.lane_ptr) == len(spans.lanes) + 1 and spans.lane_ptr[-1] == len(spans)
    for first, last in zip(spans.lane_ptr[:-1].tolist(), spans.lane_ptr[1:].tolist(), strict=True):
        assert (np.diff(spans.start_s[first:last]) >= 0).all()
    assert (spans.duration_s > 0).all()
    compute = spans.pattern < 0
    assert all(len(spans.links_of(int(i))) == 0 for i in np.flatnonzero(compute)[:5])
    assert all(len(spans.links_of(int(i))) > 0 for i in np.flatnonzero(~compute)[:5])


def test_same_input_same_bytes() -> None:
    again = pt.simulate(result("tensor").tree, pt.clusters.load("dgx-a100"))
    for column in ("start_s", "duration_s", "kind", "node", "task"):
        assert getattr(again.spans, column).tobytes() == getattr(result("tensor").spans, column).tobytes()
