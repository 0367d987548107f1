"""Steps found by the period of kernels."""

from __future__ import annotations

import numpy as np

from proteus.traces.steps import find_steps

#: two layers forward, two backward, each micro-batch; then three updates
MICRO = [1, 2, 3] * 2 + [4, 5, 6, 7] * 2
STEP = [*MICRO * 4, 8, 9, 9]


def steps_of(names: list[int]) -> list[int]:
    row = np.array(names, np.int64)
    return find_steps(row, row >= 8).tolist()


def test_steps_end_after_their_updates() -> None:
    assert steps_of(STEP * 3) == [0, 59, 118, 177]


def test_a_trace_that_begins_in_the_middle_of_a_step() -> None:
    assert steps_of((STEP * 4)[20:]) == [39, 98, 157, 216]


def test_micro_batches_are_no_steps() -> None:
    assert steps_of(STEP) == []


def test_without_updates_the_period_alone_counts() -> None:
    row = np.array([1, 2, 3, 4, 5] * 4)
    assert find_steps(row, np.zeros(20, bool)).tolist() == [0, 5, 10, 15, 20]


def test_steps_that_differ_a_little() -> None:
    """One step of four does not run a kernel's usual variant."""
    names = STEP * 4
    names[70] = 3
    assert len(steps_of(names)) == 5


def test_too_short() -> None:
    assert steps_of([1, 2, 1, 2]) == []
    assert steps_of([]) == []
    assert steps_of([1] * 5) == []
