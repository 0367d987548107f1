"""Grids of text: read, written, drawn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proteus.errors import StrategyError
from proteus.strategy.schedule import draw, format_grid, parse_grid, plan, validate


def test_comments_blank_lines_and_blanks_are_passed_over() -> None:
    made = parse_grid("# two stages\n\n  0F0\t0F1   0B0 0B1  # first\n#\n1F0 1B0 1F1 1B1\n")
    assert made.num_ranks == 2
    assert made.num_chunks == 2
    assert made.num_micro_batches == 2
    assert format_grid(made) == "0F0 0F1 0B0 0B1\n1F0 1B0 1F1 1B1\n"
    assert made == plan("1f1b", 2, 2)


def test_the_grid_says_where_the_chunks_lie() -> None:
    made = parse_grid("0F0 3F0 3B0 0B0\n1F0 2F0 2B0 1B0")
    assert made.chunk_rank == (0, 1, 1, 0)
    assert validate(made) is made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "schedule grid: no actions; write one row per pipeline rank"),
        ("# nothing", "schedule grid: no actions"),
        ("0F0 0B0\n\n1F0 1X0", "schedule grid, line 3, token 2: '1X0' is not an action"),
        ("0F0, 0B0", "schedule grid, line 1, token 1: '0F0,' is not an action"),
        ("0F0 0B0\n1F0 0B1", "line 2, token 2: 0B1 puts chunk 0 on rank 1, but line 1, token 1 has it on rank 0"),
        ("0F0 0B0\n2F0 2B0", "schedule grid: chunk 1 has no action, but chunk 2 has; count from 0"),
        ("0F0 0B0 0F2 0B2", "schedule grid: micro-batch 1 has no action, but micro-batch 2 has; count from 0"),
        ("0F0 999999999F0", "schedule grid: chunk 1 has no action, but chunk 999999999 has"),
    ],
)
def test_what_is_no_grid_is_refused(text: str, message: str) -> None:
    with pytest.raises(StrategyError, match=message):
        parse_grid(text)


@given(st.text() | st.text(alphabet="0123 FBW\n#"))
def test_any_text_is_a_grid_or_refused(text: str) -> None:
    try:
        made = parse_grid(text)
    except StrategyError:
        return
    assert parse_grid(format_grid(made)) == made
    try:
        validate(made)
    except StrategyError as error:
        assert "here" in str(error)


def test_drawn_over_time() -> None:
    assert draw(plan("1f1b", 3, 3), durations={"F": 1, "B": 2}).splitlines() == [
        "step    0   1   2   3   4   5   6   7   8   9   10  11  12  13  14",
        "rank 0  0F0 0F1 0F2 .   .   .   .   0B0 -   .   0B1 -   .   0B2 -",
        "rank 1  .   1F0 1F1 .   .   1B0 -   1F2 1B1 -   .   1B2 -   .   .",
        "rank 2  .   .   2F0 2B0 -   2F1 2B1 -   2F2 2B2 -   .   .   .   .",
    ]


def test_a_long_grid_is_cut_around_the_fault() -> None:
    made = plan("1f1b", 2, 96)
    lines = draw(made, fault=(1, 100)).splitlines()
    assert max(map(len, lines)) < 140
    assert lines[2].startswith("rank 1  ... ")
    assert lines[2].endswith(" ...")
    arrow = lines[3].index("^")
    assert lines[2][arrow:].split()[0] == repr(made.rows[1][100])
    assert lines[0][arrow:].split()[0] == "100"


def test_a_deadlock_is_drawn_by_steps_only() -> None:
    made = parse_grid("0F0 0B0 0F1 0B1\n1F1 1F0 1B1 1B0")
    assert draw(made).splitlines()[2] == "rank 1  1F1 1F0 1B1 1B0"
    with pytest.raises(StrategyError, match="draw it without durations"):
        draw(made, durations={"F": 1, "B": 1})
