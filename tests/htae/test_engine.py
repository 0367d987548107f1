"""The compiled engine equals its plain-Python twin, and both keep what must always hold."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings

from proteus.errors import SimulationError
from proteus.htae.build import GraphBuilder
from proteus.htae.engine import play, warm_up
from proteus.htae.invariants import check_timeline
from proteus.htae.reference import play_reference
from proteus.htae.tasks import TaskGraph, Timeline
from tests.htae.random_graphs import task_graphs, without_segments


def log_by_task(timeline: Timeline) -> list[tuple[int, float, float]]:
    """The log without the order of entries at one time."""
    return sorted(zip(timeline.rate_task.tolist(), timeline.rate_time_s.tolist(), timeline.rate.tolist(), strict=True))


@settings(max_examples=300)
@given(task_graphs(segments=False))
def test_equals_the_reference_to_the_bit(graph: TaskGraph) -> None:
    fast, plain = play(graph), play_reference(graph)
    assert fast.start_s.tolist() == plain.start_s.tolist()
    assert fast.end_s.tolist() == plain.end_s.tolist()
    assert fast.cause.tolist() == plain.cause.tolist()
    assert log_by_task(fast) == log_by_task(plain)


@settings(max_examples=300)
@given(task_graphs())
def test_equals_the_reference_with_segments(graph: TaskGraph) -> None:
    """The twin plays op by op, so sums are taken in another order."""
    fast, plain = play(graph), play_reference(graph)
    np.testing.assert_allclose(fast.start_s, plain.start_s, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fast.end_s, plain.end_s, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fast.end_s, play(without_segments(graph)[0]).end_s[without_segments(graph)[1][1:] - 1], rtol=1e-12, atol=1e-12)


@settings(max_examples=200)
@given(task_graphs())
def test_invariants(graph: TaskGraph) -> None:
    check_timeline(graph, play(graph))
