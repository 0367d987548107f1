"""What validate() refuses, and how it shows the fault."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proteus.errors import StrategyError
from proteus.strategy.schedule import format_grid, parse_grid, plan, validate


def refused(text: str) -> str:
    with pytest.raises(StrategyError) as caught:
        validate(parse_grid(text))
    return str(caught.value)


def test_deadlock_names_the_circle_and_points_at_it() -> None:
    message = refused("0F0 0F1 0B0 0B1\n1F1 1B1 1F0 1B0\n2F0 2B0 2F1 2B1")
    assert message.splitlines() == [
        "schedule grid: deadlock: rank 1 stops at 1B1, which needs 2B1 of rank 2; "
        "rank 2 stops at 2F0, which needs 1F0 of rank 1; change their order",
        "step    0   1   2   3",
        "rank 0  0F0 0F1 0B0 0B1",
        "rank 1  1F1 1B1 1F0 1B0",
        "            ^^^ here",
        "rank 2  2F0 2B0 2F1 2B1",
    ]


def test_deadlock_of_a_rank_with_itself() -> None:
    assert "rank 0 stops at 1F0, which needs 0F0 of rank 0" in refused("1F0 0F0 1B0 0B0")


@pytest.mark.parametrize(
    ("text", "problem", "under"),
    [
        ("0F0 0F1 0B0", "rank 0 never runs 0B1; add it to its row", None),
        ("0B0 0F0", "rank 0, step 0: 0B0 without 0F0 before it; put 0F0 first", "0B0"),
        ("0F0 0W0 0B0", "rank 0, step 1: 0W0 without 0B0 before it; put 0B0 first", "0W0"),
        ("0F0 0B0 0F0", "rank 0, step 2: 0F0 again, first at step 0; each action runs once", "0F0"),
        (
            "0F0 0B0 0W0 0F1 0B1",
            "rank 0 never runs 0W1 (chunk 0 has W actions, so every micro-batch needs one); add it to its row",
            None,
        ),
    ],
)
def test_rows_at_fault(text: str, problem: str, under: str | None) -> None:
    first, _, row, arrow = refused(text).splitlines()
    assert first == f"schedule grid: {problem}"
    column = arrow.index("^")
    assert arrow.endswith(" here")
    assert row[column:].split(" ")[0] == (under or "")


def test_an_action_on_a_foreign_rank() -> None:
    made = dataclasses.replace(plan("1f1b", 2, 2), chunk_rank=(1, 0))
    with pytest.raises(StrategyError, match="rank 0, step 0: 0F0, but chunk 0 lives on rank 1"):
        validate(made)


def test_an_action_outside_the_plan() -> None:
    with pytest.raises(StrategyError, match="0F1 is outside 2 chunks and 1 micro-batches"):
        validate(dataclasses.replace(plan("1f1b", 2, 2), num_micro_batches=1))


@given(
    st.sampled_from([("1f1b", 3, 4), ("gpipe", 2, 3), ("zb-h1", 3, 3), ("zb-v", 2, 3), ("interleaved", 2, 4, 2)]),
    st.lists(st.tuples(st.integers(0, 999), st.integers(0, 999), st.integers(0, 999)), min_size=1, max_size=4),
)
def test_a_reordered_grid_is_valid_exactly_when_it_has_no_circle(
    arguments: tuple[str, int, int], swaps: list[tuple[int, int, int]]
) -> None:
    rows = [line.split() for line in format_grid(plan(*arguments)).splitlines()]
    for rank, i, j in swaps:
        row = rows[rank % len(rows)]
        i, j = i % len(row), j % len(row)
        row[i], row[j] = row[j], row[i]
    last = max(int(action.split(kind)[0]) for row in rows for action in row for kind in "FBW" if kind in action)
    graph = networkx.DiGraph()
    for row in rows:
        for before, action in pairwise(row):
            graph.add_edge(before, action)
        for action in row:
            kind = action.strip("0123456789")
            chunk, micro_batch = map(int, action.split(kind))
            if kind == "F" and chunk:
                graph.add_edge(f"{chunk - 1}F{micro_batch}", action)
            if kind == "B":
                graph.add_edge(f"{chunk}F{micro_batch}", action)
                if chunk < last:
                    graph.add_edge(f"{chunk + 1}B{micro_batch}", action)
            if kind == "W":
                graph.add_edge(f"{chunk}B{micro_batch}", action)
    made = parse_grid("\n".join(" ".join(row) for row in rows))
    if networkx.is_directed_acyclic_graph(graph):
        assert validate(made) is made
    else:
        with pytest.raises(StrategyError, match="here"):
            validate(made)
