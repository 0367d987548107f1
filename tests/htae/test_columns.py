"""Graphs turned around."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from proteus.htae.columns import row_with_repeat, slots_of, transpose

ROWS = st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=6)


def csr(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.cumsum([0, *map(len, rows)]).astype("i4"), np.array([value for row in rows for value in row], "i4")


@given(ROWS)
def test_transpose(rows: list[list[int]]) -> None:
    ptr, values = transpose(*csr(rows), 6)
    turned = [values[a:b].tolist() for a, b in pairwise(ptr)]
    assert turned == [[i for i, row in enumerate(rows) for value in row if value == column] for column in range(6)]


@given(ROWS)
def test_row_with_repeat(rows: list[list[int]]) -> None:
    repeats = [i for i, row in enumerate(rows) if len(set(row)) < len(row)]
    assert row_with_repeat(*csr(rows), 6) == (repeats[0] if repeats else -1)


def test_slots() -> None:
    """A task has the slot of its first stream; those without a stream have slots of their own."""
    home, num_slots = slots_of(*csr([[2, 0], [], [1], []]), 3)
    assert home.tolist() == [2, 3, 1, 4]
    assert num_slots == 5
