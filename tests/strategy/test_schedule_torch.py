"""The rows are those of torch.distributed.pipelining, action by action."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from proteus.strategy.schedule import PipelinePlan, plan

schedules = pytest.importorskip("torch.distributed.pipelining.schedules", reason="torch is not installed")


def torch_rows(name: str, num_ranks: int, num_micro_batches: int, virtual_stages: int) -> list[list[str]]:
    """The action lists that torch computes for every rank, without making a process group."""
    rounds = max(1, num_micro_batches // num_ranks)
    schedule = SimpleNamespace(
        pp_group_size=num_ranks,
        n_local_stages=virtual_stages,
        num_stages=num_ranks * virtual_stages,
        _num_stages=num_ranks * virtual_stages,
        _n_microbatches=num_micro_batches,
        number_of_rounds=rounds,
        microbatches_per_round=num_micro_batches // rounds,
    )
    kind = getattr(schedules, name)
    if hasattr(kind, "_calculate_single_rank_operations"):
        rows = [kind._calculate_single_rank_operations(schedule, rank) for rank in range(num_ranks)]
    else:
        rows = list(kind._get_pipeline_order(schedule).values())
    return [[text for action in row if action is not None for text in spelled(action)] for row in rows]


def spelled(action: Any) -> list[str]:
    """Torch's action in our letters: I is B, its whole backward B is B and W next to each other."""
    if action.sub_actions is not None:
        return [text for sub in action.sub_actions for text in spelled(sub)]
    chunk, kind, micro_batch = action.stage_index, action.computation_type.value, action.microbatch_index
    if kind == "REDUCE_GRAD":
        return []
    return [f"{chunk}{letter}{micro_batch}" for letter in {"F": "F", "I": "B", "W": "W", "B": "BW"}[kind]]


def our_rows(made: PipelinePlan) -> list[list[str]]:
    return [
        [text for action in row for text in ([repr(action)] if made.is_split[action.chunk] else _whole(repr(action)))]
        for row in made.rows
    ]


def _whole(action: str) -> list[str]:
    return [action, action.replace("B", "W")] if "B" in action else [action]


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("rounds", [2, 3, 5])
@pytest.mark.parametrize(
    ("ours", "theirs", "virtual_stages"),
    [
        ("gpipe", "ScheduleGPipe", 1),
        ("interleaved", "ScheduleInterleaved1F1B", 2),
        ("interleaved", "ScheduleInterleaved1F1B", 4),
        ("zb-h1", "ScheduleInterleavedZeroBubble", 1),
        ("zb-v", "ScheduleZBVZeroBubble", 2),
        ("dualpipe", "ScheduleDualPipeV", 2),
    ],
)
def test_rows_are_torchs(ours: str, theirs: str, virtual_stages: int, num_ranks: int, rounds: int) -> None:
    num_micro_batches = num_ranks * rounds
    made = plan(ours, num_ranks, num_micro_batches, virtual_stages)
    assert our_rows(made) == torch_rows(theirs, num_ranks, num_micro_batches, virtual_stages)


@pytest.mark.parametrize("num_ranks", [2, 3, 4, 8])
def test_1f1b_rows_are_torchs_up_to_its_count_of_forwards(num_ranks: int) -> None:
    """Torch 2.13 numbers the last rank's forwards from 1 here (the list is drawn, not run): its kinds are compared."""
    ours, theirs = our_rows(plan("1f1b", num_ranks, 12)), torch_rows("Schedule1F1B", num_ranks, 12, 1)
    assert ours[:-1] == theirs[:-1]
    letters = str.maketrans("", "", "0123456789")
    assert [action.translate(letters) for action in ours[-1]] == [action.translate(letters) for action in theirs[-1]]


@pytest.mark.parametrize(("num_ranks", "num_micro_batches"), [(3, 1), (4, 5), (5, 3)])
def test_zb_v_with_few_micro_batches_is_torchs(num_ranks: int, num_micro_batches: int) -> None:
    theirs = torch_rows("ScheduleZBVZeroBubble", num_ranks, num_micro_batches, 2)
    assert our_rows(plan("zb-v", num_ranks, num_micro_batches)) == theirs
