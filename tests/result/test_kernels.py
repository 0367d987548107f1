"""The kernels that read results against sets of whole seconds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from proteus.result.kernels import chain, in_order, joined, sweep, uncovered, unsorted_lanes

Intervals = list[tuple[int, int]]
INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=12).map(sorted)
#: ranks of the kinds 0 to 3: compute, two kinds of communication, the host
RANK_OF = np.arange(4)


def seconds(pairs: Intervals) -> set[int]:
    return {second for start, length in pairs for second in range(start, start + length)}


def columns(pairs: Intervals) -> tuple[np.ndarray, np.ndarray]:
    return np.array([start for start, _ in pairs], float), np.array([length for _, length in pairs], float)


def union(*lists: Intervals) -> tuple[np.ndarray, np.ndarray]:
    merged = np.empty(0), np.empty(0)
    for pairs in lists:
        merged = joined(*merged, *columns(pairs))
    return merged


@given(INTERVALS, INTERVALS)
def test_joined_intervals_cover_both_and_are_disjoint(one: Intervals, two: Intervals) -> None:
    start, end = union(one, two)
    assert (start[1:] > end[:-1]).all()
    assert seconds([(int(a), int(b - a)) for a, b in zip(start, end, strict=True)]) == seconds(one) | seconds(two)


@given(INTERVALS, INTERVALS)
def test_uncovered_is_what_nothing_else_covers(others: Intervals, mine: Intervals) -> None:
    out = np.full(len(mine), -1.0)
    total = uncovered(*union(others), *columns(mine), out)
    seen = seconds(others)
    for found, pair in zip(out.tolist(), mine, strict=True):
        assert found == len(seconds([pair]) - seen)
        seen |= seconds([pair])
    assert total == out.sum()


@given(st.lists(INTERVALS, min_size=4, max_size=4), st.booleans())
def test_a_device_is_told_apart(by_kind: list[Intervals], one_lane: bool) -> None:
    """Whether kinds have lanes of their own or share one, the sums are the same."""
    rows = [(start, length, kind) for kind, pairs in enumerate(by_kind) for start, length in pairs]
    sizes = [len(rows)] if one_lane else [len(pairs) for pairs in by_kind]
    rows = sorted(rows) if one_lane else rows
    ends = np.cumsum(sizes)
    lanes = np.stack([ends - sizes, ends], axis=1)
    start, length, kind = (np.array([row[i] for row in rows], float) for i in range(3))
    exposed = np.zeros(len(rows))
    by_rank, sums, busy, comm, working, on, off = sweep(lanes, start, length, kind.astype("u1"), RANK_OF, 4, exposed)
    compute, first, second, host = (seconds(pairs) for pairs in by_kind)
    assert by_rank.tolist() == [0, len(first - compute), len(second - first - compute), 0]
    assert [exposed[kind == k].sum() for k in range(4)] == by_rank.tolist()
    assert sums.tolist() == [sum(n for _, n in pairs) for pairs in by_kind]
    assert (busy, comm, working) == (len(compute), len(first | second), len(compute | first | second))
    assert (off - on).sum() == len(compute | first | second | host)


@given(st.lists(st.integers(0, 3), max_size=6), st.lists(st.integers(0, 3), max_size=6))
def test_lanes_out_of_order_are_found(one: list[int], two: list[int]) -> None:
    pointer = np.cumsum([0, len(one), len(two)])
    lanes = unsorted_lanes(np.array([*one, *two], float), pointer).tolist()
    assert lanes == [lane for lane, values in enumerate((one, two)) if values != sorted(values)]
    assert in_order(np.array(one, float)) == (one == sorted(one))


def test_a_chain_ends_with_its_task() -> None:
    assert chain(np.array([-1, 0, 0, 2]), 3).tolist() == [0, 2, 3]
