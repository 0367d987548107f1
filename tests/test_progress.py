"""A simulation tells how far it is, and stops when it is told to."""

from __future__ import annotations

import threading
import time

import pytest

import proteus as pt
from proteus.errors import Stopped
from proteus.htae.engine import play, warm_up
from proteus.htae.synthetic import pipeline


def test_all_tasks_have_ended_at_the_end() -> None:
    progress = pt.Progress()
    assert progress.fraction == 0.0
    play(pipeline(2, 4), progress=progress)
    assert progress.fraction == 1.0


def test_progress_changes_no_time() -> None:
    graph = pipeline(4, 8)
    assert play(graph, progress=pt.Progress()).end_s.tolist() == play(graph).end_s.tolist()


def test_a_running_play_is_seen_and_stopped() -> None:
    warm_up()
    graph = pipeline(32, 256)
    progress = pt.Progress()
    seen: list[float] = []

    def run() -> None:
        with pytest.raises(Stopped):
            play(graph, progress=progress)
        seen.append(progress.fraction)

    thread = threading.Thread(target=run)
    thread.start()
    while not progress.fraction and thread.is_alive():
        time.sleep(1e-4)
    progress.stop()
    thread.join(60)
    assert 0.0 < seen[0] < 1.0


def test_it_stops_before_the_engine_begins() -> None:
    tree = pt.StrategyTree(pt.models.load("gpt2")).parallelize(dp=8, global_batch=64)
    progress = pt.Progress()
    progress.stop()
    with pytest.raises(Stopped, match="stopped"):
        pt.simulate(tree, pt.clusters.load("dgx-a100"), progress=progress)
    assert progress.fraction == 0.0
