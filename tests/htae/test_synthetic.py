"""The synthetic pipeline is a graph of the shape that it claims."""

from __future__ import annotations

import numpy as np
import pytest

from proteus.htae import synthetic
from proteus.htae.engine import play
from proteus.htae.invariants import check_timeline
from proteus.htae.reference import play_reference
from proteus.htae.synthetic import one_f_one_b, pipeline
from proteus.htae.tasks import TaskKind


@pytest.mark.parametrize("reduce_every", [False, True])
def test_synthetic_pipeline(reduce_every: bool) -> None:
    graph = pipeline(3, 4, 2, 2, reduce_every=reduce_every)
    fast, plain = play(graph), play_reference(graph)
    np.testing.assert_allclose(fast.end_s, plain.end_s, rtol=1e-12)
    check_timeline(graph, fast)
    rates = np.unique(fast.rate)
    assert np.any(rates < 1), "no compute is slowed"
    assert np.any((rates > 1) & ~np.isin(rates, graph.pattern_cap_Bps)), "no bandwidth is shared"


@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize("micro_batches", [1, 3, 8])
def test_one_f_one_b(stage: int, micro_batches: int) -> None:
    order = one_f_one_b(stage, 4, micro_batches).tolist()
    assert [action for action in order if action >= 0] == list(range(micro_batches))
    assert [~action for action in order if action < 0] == list(range(micro_batches))
    in_flight = np.cumsum([1 if action >= 0 else -1 for action in order])
    assert in_flight.min() >= 0
    assert in_flight.max() == min(4 - stage, micro_batches)


def test_sizes() -> None:
    stages, micro_batches, layers, ranks = 3, 5, 2, 4
    graph = pipeline(stages, micro_batches, layers, ranks)
    segments = stages * 2 * micro_batches * layers * ranks
    tensor = stages * 2 * micro_batches * layers
    messages = 2 * (stages - 1) * micro_batches * ranks
    assert np.bincount(graph.kind).tolist() == [segments, tensor + messages + stages * layers]
    assert (graph.kind[graph.segment >= 0] == TaskKind.COMPUTE).all()
    assert graph.num_streams == stages * ranks * 7
    more = pipeline(stages, micro_batches, layers, ranks, reduce_every=True)
    assert more.num_tasks == graph.num_tasks + stages * layers * (micro_batches - 1)


def test_default_has_the_size_that_is_measured() -> None:
    assert 1.6e6 < pipeline().num_tasks < 1.8e6


def test_without_communication_it_takes_the_time_of_the_schedule() -> None:
    """Fill and drain: (micro-batches + stages - 1) times forward and backward of a stage."""
    stages, micro_batches, layers = 4, 6, 2
    graph = pipeline(stages, micro_batches, layers, 1)
    is_flow = graph.kind == TaskKind.COMM
    graph.work[is_flow] = 0.0
    graph.latency_s[is_flow] = 0.0
    layer_s = 3 * sum(synthetic._OPS_S)  # backward takes twice as long as forward
    assert play(graph).makespan_s == pytest.approx((micro_batches + stages - 1) * layers * layer_s)
