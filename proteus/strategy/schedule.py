"""Pipeline schedules as pure data: from a name and three numbers to the order of every rank.

>>> from proteus.strategy.schedule import draw, plan
>>> print(draw(plan("zb-h1", 3, 3), durations={"F": 1, "B": 1, "W": 1}))
step    0   1   2   3   4   5   6   7   8   9   10
rank 0  0F0 0F1 0F2 .   .   0B0 0W0 0B1 0W1 0B2 0W2
rank 1  .   1F0 1F1 .   1B0 1F2 1B1 1W0 1B2 1W1 1W2
rank 2  .   .   2F0 2B0 2F1 2B1 2F2 2B2 2W0 2W1 2W2
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from proteus.errors import StrategyError, unknown
from proteus.strategy.schedules import patterns
from proteus.strategy.schedules.check import validate
from proteus.strategy.schedules.grid import draw, format_grid, parse_grid
from proteus.strategy.schedules.pipeline_plan import Action, ActionKind, PipelinePlan
from proteus.strategy.schedules.timing import (
    UnitTimes,
    Walk,
    in_flight_peak,
    in_flight_peak_by_chunk,
    simulate_unit,
    walk,
)

#: more than any model has blocks
MAX_CHUNKS = 10_000
#: micro-batches × chunks; a step of more would take minutes to simulate and more memory than a machine has
MAX_STEPS = 2**20


class Rule(NamedTuple):
    """Which numbers a schedule takes."""

    shape: str  # where the chunks lie: "line", "loop" or "v"
    is_limited: bool = False  # takes max_in_flight


SCHEDULES: dict[str, Rule] = {
    "gpipe": Rule("line", is_limited=True),
    "1f1b": Rule("line", is_limited=True),
    "interleaved": Rule("loop"),
    "zb-h1": Rule("line"),
    "zb-h2": Rule("line"),
    "zb-v": Rule("v"),
    "v-half": Rule("v"),
    "v-min": Rule("v"),
    "dualpipe": Rule("v"),
}
"""Every schedule by name."""


def placement(name: str, num_ranks: int, virtual_stages: int = 1) -> tuple[int, ...]:
    """Pipeline rank of every chunk of the model.

    ``line``: one chunk per rank.  ``loop`` (interleaved): chunk c on rank
    ``c % num_ranks``.  ``v`` (zb-v, v-half, v-min, dualpipe): two chunks per rank,
    down the ranks and up again.  dualpipe is DualPipeV: the two directions of DualPipe
    folded onto half the ranks, which is its form with a single copy of the
    parameters.

    Parameters
    ----------
    name
        One of ``SCHEDULES``.
    num_ranks
        Pipeline degree.
    virtual_stages
        Chunks per rank; the V has 2 and takes 1 as "their own".

    Examples
    --------
    >>> placement("interleaved", 2, 2), placement("zb-v", 2)
    ((0, 1, 0, 1), (0, 1, 1, 0))
    """
    rule = _rule(name)
    if num_ranks < 1:
        raise StrategyError(f"{name}: {num_ranks} pipeline ranks; a pipeline needs at least 1")
    if num_ranks * virtual_stages > MAX_CHUNKS:
        raise StrategyError(
            f"{name}: {num_ranks} pipeline ranks of {virtual_stages} chunks; at most {MAX_CHUNKS} chunks, "
            "which is more than any model has blocks"
        )
    if rule.shape == "line":
        if virtual_stages != 1:
            raise StrategyError(
                f"{name}: virtual_stages={virtual_stages}, but it has one chunk per rank; set 1, or use interleaved"
            )
        return tuple(range(num_ranks))
    if rule.shape == "loop":
        if virtual_stages < 2:
            raise StrategyError(f"{name}: virtual_stages={virtual_stages}; set 2 or more, or use 1f1b")
        return tuple(range(num_ranks)) * virtual_stages
    if virtual_stages not in (1, 2):
        raise StrategyError(f"{name}: virtual_stages={virtual_stages}, but the V has two chunks per rank; set 2")
    return (*range(num_ranks), *reversed(range(num_ranks)))


@lru_cache(maxsize=128)
def plan(
    name: str,
    num_ranks: int,
    num_micro_batches: int,
    virtual_stages: int = 1,
    max_in_flight: int | None = None,
) -> PipelinePlan:
    """The order of every rank.

    Parameters
    ----------
    name
        One of ``SCHEDULES``; :mod:`proteus.strategy.schedules.patterns` says
        what each is and where it comes from.
    num_ranks, num_micro_batches
        Pipeline degree and micro-batches of one step.
    virtual_stages
        Chunks per rank, see :func:`placement`.
    max_in_flight
        Most micro-batches of one chunk whose backward has not ended (the
        paper's ``max_ongoing_micro_batch``).  gpipe and 1f1b obey it; the
        others hold what they hold and refuse less.

    Raises
    ------
    StrategyError
        With the possible values.

    Examples
    --------
    >>> plan("interleaved", 4, 8, virtual_stages=2)
    PipelinePlan(interleaved, 4 ranks, 8 chunks, 8 micro-batches, 128 actions)
    >>> plan("interleaved", 4, 6, virtual_stages=2)
    Traceback (most recent call last):
    ...
    proteus.errors.StrategyError: interleaved: 6 micro-batches over 4 pipeline ranks; its order goes round in
    groups of 4, so take a multiple of it, such as 4 or 8
    """
    chunk_rank = placement(name, num_ranks, virtual_stages)
    if num_micro_batches < 1:
        raise StrategyError(f"{name}: {num_micro_batches} micro-batches; a step needs at least 1")
    if num_micro_batches * len(chunk_rank) > MAX_STEPS:
        raise StrategyError(
            f"{name}: {num_micro_batches} micro-batches through {len(chunk_rank)} chunks; at most "
            f"{MAX_STEPS // len(chunk_rank)} micro-batches, so lower global_batch or raise micro_batch"
        )
    if max_in_flight is not None and max_in_flight < 1:
        raise StrategyError(f"{name}: max_in_flight={max_in_flight}; at least 1 micro-batch must be in flight")
    if name == "interleaved" and num_micro_batches % num_ranks:
        below = num_micro_batches // num_ranks * num_ranks
        values = f"{below} or {below + num_ranks}" if below else str(num_ranks)
        raise StrategyError(
            f"{name}: {num_micro_batches} micro-batches over {num_ranks} pipeline ranks; its order goes round in "
            f"groups of {num_ranks}, so take a multiple of it, such as {values}"
        )
    if name == "dualpipe" and num_micro_batches < 2 * num_ranks:
        raise StrategyError(
            f"{name}: {num_micro_batches} micro-batches over {2 * num_ranks} chunks; take at least {2 * num_ranks}"
        )
    columns = [
        _row(name, rank, num_ranks, num_micro_batches, virtual_stages, max_in_flight or num_micro_batches)
        for rank in range(num_ranks)
    ]
    made = PipelinePlan.from_columns(name, num_micro_batches, chunk_rank, columns)
    if max_in_flight is not None and not SCHEDULES[name].is_limited:
        peak = max(in_flight_peak_by_chunk(made))
        if peak > max_in_flight:
            raise StrategyError(
                f"{name}: max_in_flight={max_in_flight}, but it holds {peak} micro-batches of a chunk; set {peak}, or "
                "use 1f1b or gpipe, which obey the limit"
            )
    return made


def _row(
    name: str, rank: int, num_ranks: int, num_micro_batches: int, virtual_stages: int, max_in_flight: int
) -> patterns.Columns:
    match name:
        case "gpipe":
            return patterns.gpipe(rank, num_ranks, num_micro_batches, max_in_flight)
        case "1f1b":
            return patterns.one_f_one_b(rank, num_ranks, num_micro_batches, max_in_flight)
        case "interleaved":
            return patterns.interleaved(rank, num_ranks, num_micro_batches, virtual_stages)
        case "zb-h1":
            return patterns.zb_h1(rank, num_ranks, num_micro_batches)
        case "zb-h2":
            return patterns.zb_h2(rank, num_ranks, num_micro_batches)
        case "zb-v":
            return patterns.zb_v(rank, num_ranks, num_micro_batches)
        case "v-half":
            return patterns.v_half(rank, num_ranks, num_micro_batches)
        case "v-min":
            return patterns.v_min(rank, num_ranks, num_micro_batches)
        case _:
            return patterns.dualpipe(rank, num_ranks, num_micro_batches)


def _rule(name: str) -> Rule:
    if name not in SCHEDULES:
        raise StrategyError(unknown("schedule", name, SCHEDULES))
    return SCHEDULES[name]


__all__ = [
    "SCHEDULES",
    "Action",
    "ActionKind",
    "PipelinePlan",
    "UnitTimes",
    "Walk",
    "draw",
    "format_grid",
    "in_flight_peak",
    "in_flight_peak_by_chunk",
    "parse_grid",
    "placement",
    "plan",
    "simulate_unit",
    "validate",
    "walk",
]
