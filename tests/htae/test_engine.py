"""The compiled engine equals its plain-Python twin, and both keep what must always hold."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from proteus.htae.engine import is_warm, play, warm_up
from proteus.htae.invariants import alone_s, check_timeline
from proteus.htae.reference import play_reference
from proteus.htae.synthetic import pipeline
from proteus.htae.tasks import TaskGraph, Timeline
from tests.htae.random_graphs import copies, task_graphs


def log_by_task(timeline: Timeline) -> list[tuple[int, float, float]]:
    """The log without the order of entries at one time."""
    return sorted(zip(timeline.rate_task.tolist(), timeline.rate_time_s.tolist(), timeline.rate.tolist(), strict=True))


@settings(max_examples=250)
@given(task_graphs(segments=False))
def test_equals_the_reference_to_the_bit(graph: TaskGraph) -> None:
    fast, plain = play(graph), play_reference(graph)
    assert fast.start_s.tolist() == plain.start_s.tolist()
    assert fast.end_s.tolist() == plain.end_s.tolist()
    assert fast.cause.tolist() == plain.cause.tolist()
    assert log_by_task(fast) == log_by_task(plain)


@settings(max_examples=250)
@given(task_graphs())
def test_equals_the_reference_with_segments(graph: TaskGraph) -> None:
    """The twin plays op by op, so sums are taken in another order."""
    fast, plain = play(graph), play_reference(graph)
    np.testing.assert_allclose(fast.start_s, plain.start_s, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fast.end_s, plain.end_s, rtol=1e-12, atol=1e-12)


@settings(max_examples=200)
@given(task_graphs())
def test_invariants(graph: TaskGraph) -> None:
    check_timeline(graph, play(graph))


@given(task_graphs())
def test_the_log_changes_nothing(graph: TaskGraph) -> None:
    with_log, without = play(graph), play(graph, record=False)
    assert with_log.start_s.tolist() == without.start_s.tolist()
    assert with_log.end_s.tolist() == without.end_s.tolist()
    assert with_log.cause.tolist() == without.cause.tolist()
    assert len(without.rate_task) == 0


@settings(max_examples=200)
@given(task_graphs(), st.integers(2, 5), st.integers(0, 31))
def test_one_for_many_is_exact(graph: TaskGraph, num_copies: int, shared: int) -> None:
    """Equal copies of a graph on links of their own and on links that all share: every copy runs, to the
    bit, like the one whose flows are counted for all."""
    is_shared = np.array([bool(shared >> link & 1) for link in range(len(graph.link_capacity_Bps))])
    counts = np.where(is_shared[graph.pattern_link], graph.pattern_count * num_copies, graph.pattern_count)
    folded = play(dataclasses.replace(graph, pattern_count=counts.astype("i4")))
    unfolded = play(copies(graph, num_copies, is_shared))
    for copy in range(num_copies):
        copy_tasks = slice(copy * graph.num_tasks, (copy + 1) * graph.num_tasks)
        assert unfolded.start_s[copy_tasks].tolist() == folded.start_s.tolist()
        assert unfolded.end_s[copy_tasks].tolist() == folded.end_s.tolist()


@given(task_graphs(overlap=False), st.data())
def test_alone_and_without_overlap_faster_links_never_slow_a_step(graph: TaskGraph, data: st.DataObject) -> None:
    """Every flow has its links to itself here, so the start times are maxima of sums."""
    limits = np.full(len(graph.pattern_cap_Bps), np.inf)
    is_flow = (graph.pattern >= 0) & (graph.work > 0)
    spent_s = (alone_s(graph) - graph.latency_s)[is_flow]
    with np.errstate(divide="ignore"):
        limits[graph.pattern[is_flow]] = graph.work[is_flow] / spent_s
    faster = data.draw(st.lists(st.sampled_from([1.0, 1.5, 4.0]), min_size=len(limits), max_size=len(limits)))
    alone = dataclasses.replace(
        graph,
        pattern_ptr=np.zeros_like(graph.pattern_ptr),
        pattern_link=graph.pattern_link[:0],
        pattern_count=graph.pattern_count[:0],
        pattern_cap_Bps=limits,
    )
    quicker = dataclasses.replace(alone, pattern_cap_Bps=limits * np.array(faster))
    assert np.all(play(quicker).end_s <= play(alone).end_s * (1 + 1e-12))


DIGEST = """
import hashlib
from proteus.htae.engine import play
from proteus.htae.synthetic import pipeline
timeline = play(pipeline(5, 8, 2, 3, reduce_every=True))
columns = timeline.start_s, timeline.end_s, timeline.cause, timeline.rate_task, timeline.rate_time_s, timeline.rate
print(hashlib.sha256(b"".join(column.tobytes() for column in columns)).hexdigest())
"""


def test_every_process_gives_the_same_bytes() -> None:
    digests = set()
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", DIGEST]
        digests.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip())
    timeline = play(pipeline(5, 8, 2, 3, reduce_every=True))
    columns = timeline.start_s, timeline.end_s, timeline.cause, timeline.rate_task, timeline.rate_time_s, timeline.rate
    digests.add(hashlib.sha256(b"".join(column.tobytes() for column in columns)).hexdigest())
    assert len(digests) == 1


def test_warm_up_is_silent_when_warm() -> None:
    warm_up()
    lines: list[str] = []
    assert warm_up(lines.append) < 60
    assert lines == []
    assert is_warm()


def test_an_empty_cache_is_cold(tmp_path: Path) -> None:
    code = "from proteus.htae.engine import is_warm; print(is_warm())"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
