"""Schedules by name: their grids, what they refuse, and their speed-independent facts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proteus.errors import StrategyError
from proteus.strategy.schedule import (
    SCHEDULES,
    Action,
    ActionKind,
    PipelinePlan,
    format_grid,
    in_flight_peak,
    in_flight_peak_by_chunk,
    parse_grid,
    placement,
    plan,
    validate,
)

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "schedules"
PLANS = {
    "gpipe-4x4": ("gpipe", 4, 4),
    "gpipe-3x5-limit-2": ("gpipe", 3, 5, 1, 2),
    "1f1b-4x8": ("1f1b", 4, 8),
    "1f1b-4x6-limit-2": ("1f1b", 4, 6, 1, 2),
    "interleaved-4x8x2": ("interleaved", 4, 8, 2),
    "zb-h1-4x8": ("zb-h1", 4, 8),
    "zb-h2-4x8": ("zb-h2", 4, 8),
    "zb-v-4x8": ("zb-v", 4, 8),
    "v-half-4x6": ("v-half", 4, 6),
    "v-min-4x6": ("v-min", 4, 6),
    "dualpipe-4x10": ("dualpipe", 4, 10),
}


@st.composite
def plans(draw: st.DrawFn) -> PipelinePlan:
    """Any schedule with numbers that it takes."""
    name = draw(st.sampled_from(sorted(SCHEDULES)))
    num_ranks = draw(st.integers(1, 9))
    num_micro_batches = draw(st.integers(1, 30))
    virtual_stages = 1
    if name == "interleaved":
        virtual_stages = draw(st.integers(2, 5))
        num_micro_batches = num_ranks * draw(st.integers(1, 5))
    if name == "dualpipe":
        num_micro_batches += 2 * num_ranks - 1
    limit = draw(st.none() | st.integers(1, 12)) if SCHEDULES[name].is_limited else None
    return plan(name, num_ranks, num_micro_batches, virtual_stages, limit)


@pytest.mark.parametrize("name", PLANS)
def test_golden(name: str) -> None:
    text = (GOLDEN / f"{name}.txt").read_text()
    rows = "".join(line + "\n" for line in text.splitlines() if not line.startswith("#"))
    assert format_grid(plan(*PLANS[name])) == rows


# The micro-batches of fig. 8 of Qi et al. 2023, which counts from 1, up to where the last W's begin.
ZB_V_FIGURE = [
    "1 2 3 4 5 6 7 1 1 1 2 2 2 3 3 3 4 4 4 8 1 1 5 5 5 2 2 6 6 6 3 3 7 7 7 4 4 8 8 8",
    "1 2 3 4 5 1 6 2 1 1 3 2 2 4 3 3 7 1 1 5 4 4 8 2 2 6 5 5 3 3 7 6 6 4 4 8 7 7",
    "1 2 3 1 4 2 5 3 1 1 4 2 2 6 1 1 5 3 3 7 2 2 6 4 4 8 3 3 7 5 5 4 4 8 6 6",
    "1 1 2 2 3 3 4 4 1 1 5 1 1 5 2 2 6 2 2 6 3 3 7 3 3 7 4 4 8 4 4 8 5 5",
]


def test_zb_v_is_the_papers_figure() -> None:
    made = plan("zb-v", 4, 8)
    for rank, figure in enumerate(ZB_V_FIGURE):
        micro_batches = [int(number) - 1 for number in figure.split()]
        assert made.columns(rank)[2][: len(micro_batches)].tolist() == micro_batches


def test_every_golden_file_is_compared() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(PLANS)


@given(plans())
def test_every_plan_runs(made: PipelinePlan) -> None:
    assert validate(made) is made
    kinds = 3 if made.is_split[0] else 2
    assert len(made.chunk) == made.num_chunks * made.num_micro_batches * kinds


@given(plans())
def test_columns_are_the_rows(made: PipelinePlan) -> None:
    for rank, row in enumerate(made.rows):
        chunk, kind, micro_batch = made.columns(rank)
        assert (chunk.dtype, kind.dtype, micro_batch.dtype) == (np.int32, np.uint8, np.int32)
        assert row == tuple(
            Action(c, list(ActionKind)[k], m) for c, k, m in zip(chunk.tolist(), kind.tolist(), micro_batch.tolist())
        )


@given(plans())
def test_grid_round_trip(made: PipelinePlan) -> None:
    again = parse_grid(format_grid(made))
    assert again == made
    assert hash(again) == hash(made)
    assert again.chunk_rank == made.chunk_rank


@given(plans())
def test_micro_batches_of_a_chunk_pass_in_order(made: PipelinePlan) -> None:
    for chunk in range(made.num_chunks):
        for kind in range(3):
            micro_batches = made.micro_batch[(made.chunk == chunk) & (made.kind == kind)]
            assert (np.diff(micro_batches) > 0).all()


def test_a_plan_is_made_once_and_cannot_be_written() -> None:
    made = plan("1f1b", 4, 8)
    assert plan("1f1b", 4, 8) is made
    with pytest.raises(ValueError, match="read-only"):
        made.columns(0)[0][0] = 1


def test_plans_with_other_actions_differ() -> None:
    assert plan("1f1b", 4, 8) != plan("gpipe", 4, 8)
    assert plan("1f1b", 1, 1) == plan("gpipe", 1, 1)
    assert plan("1f1b", 1, 1) != "0F0 0B0"


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_placement_is_the_plans(name: str) -> None:
    virtual_stages = 3 if name == "interleaved" else 1
    made = plan(name, 4, 8, virtual_stages)
    assert made.chunk_rank == placement(name, 4, virtual_stages)
    for chunk, rank in enumerate(made.chunk_rank):
        assert chunk in made.columns(rank)[0]


@pytest.mark.parametrize("name", ["zb-v", "v-half", "v-min", "dualpipe"])
def test_the_v_has_two_chunks_per_rank(name: str) -> None:
    assert placement(name, 3) == placement(name, 3, 2) == (0, 1, 2, 2, 1, 0)
    assert plan(name, 3, 6) == plan(name, 3, 6, 2)


@given(st.sampled_from(["1f1b", "gpipe"]), st.integers(1, 9), st.integers(1, 30), st.integers(1, 40))
def test_max_in_flight_is_obeyed_and_used(name: str, num_ranks: int, num_micro_batches: int, limit: int) -> None:
    held = in_flight_peak(plan(name, num_ranks, num_micro_batches, max_in_flight=limit))
    free = in_flight_peak(plan(name, num_ranks, num_micro_batches))
    assert held == tuple(min(limit, peak) for peak in free)


def test_a_schedule_that_holds_less_takes_a_limit() -> None:
    peak = max(in_flight_peak_by_chunk(plan("zb-v", 4, 12)))
    assert plan("zb-v", 4, 12, max_in_flight=peak) == plan("zb-v", 4, 12)
    with pytest.raises(StrategyError, match=f"zb-v: max_in_flight=2, but it holds {peak} micro-batches .* set {peak}"):
        plan("zb-v", 4, 12, max_in_flight=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("1f1d", 4, 8), "unknown schedule '1f1d'; nearest: 1f1b"),
        (("1f1b", 0, 8), "1f1b: 0 pipeline ranks; a pipeline needs at least 1"),
        (("1f1b", 4, 0), "1f1b: 0 micro-batches; a step needs at least 1"),
        (("1f1b", 4, 8, 2), "1f1b: virtual_stages=2, but it has one chunk per rank; set 1, or use interleaved"),
        (("interleaved", 4, 8), "interleaved: virtual_stages=1; set 2 or more, or use 1f1b"),
        (("interleaved", 4, 10, 2), "interleaved: 10 micro-batches over 4 pipeline ranks; .* such as 8 or 12"),
        (("interleaved", 4, 3, 2), "interleaved: 3 micro-batches over 4 pipeline ranks; .* such as 4$"),
        (("zb-v", 4, 8, 3), "zb-v: virtual_stages=3, but the V has two chunks per rank; set 2"),
        (("dualpipe", 4, 7), "dualpipe: 7 micro-batches over 8 chunks; take at least 8"),
        (("1f1b", 4, 8, 1, 0), "1f1b: max_in_flight=0; at least 1 micro-batch must be in flight"),
    ],
)
def test_what_cannot_be_is_refused(arguments: tuple[str, int, int], message: str) -> None:
    with pytest.raises(StrategyError, match=message):
        plan(*arguments)


@pytest.mark.parametrize("text", ["", "F0", "2F", "2f0", "2F0 ", "-1F0", "2I0", "2F0B1", "1234567890F0", "²F0"])
def test_what_is_not_an_action_is_refused(text: str) -> None:
    with pytest.raises(StrategyError, match="is not an action; write"):
        Action.parse(text)


@given(st.builds(Action, st.integers(0, 10**9 - 1), st.sampled_from(ActionKind), st.integers(0, 10**9 - 1)))
def test_an_action_parses_back(action: Action) -> None:
    assert Action.parse(repr(action)) == action
