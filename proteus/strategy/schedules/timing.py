"""When every action of a plan runs, given what an action of each kind costs.

The data dependencies of a pipeline, for every micro-batch:

    F(c)  needs F(c - 1)
    B(c)  needs B(c + 1); the last chunk's needs its own F
    W(c)  needs B(c)

and every rank runs its row in order, one action at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from proteus.errors import StrategyError
from proteus.strategy.schedules.pipeline_plan import B, F, PipelinePlan, W


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """How far a plan runs.

    Parameters
    ----------
    start, end
        float64[actions], in the order of the plan's columns; NaN for an
        action that never starts.
    stuck
        For every rank that stops before its end: the position in its row.
    """

    start: np.ndarray
    end: np.ndarray
    stuck: dict[int, int]


class UnitTimes(NamedTuple):
    """Times of a plan in units of its action costs, and what it holds at once."""

    makespan: float
    busy: tuple[float, ...]
    in_flight_peak: tuple[int, ...]


def walk(plan: PipelinePlan, f: float = 1, b: float = 2, w: float = 0, send: float = 0) -> Walk:
    """Run the rows in order, each action as early as its inputs allow.

    Time is linear in the actions: a rank that waits is woken by the action it
    waits for.
    """
    chunks, kinds, micro_batches = plan.chunk.tolist(), plan.kind.tolist(), plan.micro_batch.tolist()
    position, ends = plan.row_ptr[:-1].tolist(), plan.row_ptr[1:].tolist()
    cost, rank_of, last = (f, b, w), plan.chunk_rank, plan.num_chunks - 1
    start, end = np.full(len(chunks), np.nan), np.full(len(chunks), np.nan)
    done: dict[tuple[int, int, int], float] = {}
    waiting: dict[tuple[int, int, int], list[int]] = {}
    now = [0.0] * plan.num_ranks
    ready = list(range(plan.num_ranks - 1, -1, -1))
    while ready:
        rank = ready.pop()
        while position[rank] < ends[rank]:
            at = position[rank]
            chunk, kind, micro_batch = chunks[at], kinds[at], micro_batches[at]
            earliest = now[rank]
            need = needs(chunk, kind, micro_batch, last)
            if need is not None:
                if need not in done:
                    waiting.setdefault(need, []).append(rank)
                    break
                earliest = max(earliest, done[need] + (send if rank_of[need[0]] != rank else 0))
            now[rank] = earliest + cost[kind]
            start[at], end[at] = earliest, now[rank]
            position[rank] += 1
            done[chunk, kind, micro_batch] = now[rank]
            ready.extend(waiting.pop((chunk, kind, micro_batch), ()))
    first = plan.row_ptr.tolist()
    stuck = {rank: position[rank] - first[rank] for rank in range(plan.num_ranks) if position[rank] < ends[rank]}
    return Walk(start=start, end=end, stuck=stuck)


def needs(chunk: int, kind: int, micro_batch: int, last: int) -> tuple[int, int, int] | None:
    """The action whose output this one takes, or None for the first forward."""
    if kind == F:
        return (chunk - 1, F, micro_batch) if chunk else None
    if kind == B:
        return (chunk + 1, B, micro_batch) if chunk < last else (chunk, F, micro_batch)
    return (chunk, B, micro_batch)


def simulate_unit(plan: PipelinePlan, f: float = 1, b: float = 2, w: float = 0, send: float = 0) -> UnitTimes:
    """Makespan, busy time and most activations held, when every chunk costs the same.

    Parameters
    ----------
    plan
        A plan that runs to its end.
    f, b, w
        Cost of one F, B and W of one chunk, in any one unit.  Where the plan
        has no W the backward costs `b`, else `b` and `w` apart.
    send
        Added where the output crosses to another rank; sends do not queue.

    Examples
    --------
    >>> from proteus.strategy.schedule import plan
    >>> simulate_unit(plan("gpipe", 4, 8)).makespan  # (8 + 4 - 1) * 3
    33.0
    """
    ran = walk(plan, f, b, w, send)
    if ran.stuck:
        raise StrategyError(f"{plan!r} deadlocks; validate() shows where")
    cost = np.asarray((f, b, w), "f8")
    busy = tuple(float(cost[plan.columns(rank)[1]].sum()) for rank in range(plan.num_ranks))
    return UnitTimes(float(ran.end.max()), busy, in_flight_peak(plan))


def in_flight_peak(plan: PipelinePlan) -> tuple[int, ...]:
    """For every rank, the most (chunk, micro-batch) pairs whose activations it holds.

    Held from F to the end of the backward: B, or W where the backward is cut
    in two.  (B frees a part of them already; W needs the rest.)  One chunk of
    a schedule with v chunks per rank is a v-th of a stage, so divide by v to
    compare with 1F1B.  Known from the rows alone, whatever the actions cost.

    Examples
    --------
    >>> from proteus.strategy.schedule import plan
    >>> in_flight_peak(plan("1f1b", 4, 8)), in_flight_peak(plan("gpipe", 4, 8))
    ((4, 3, 2, 1), (8, 8, 8, 8))
    """
    split = np.asarray(plan.is_split, bool)
    frees = plan.kind == np.where(split[plan.chunk], W, B)
    held = np.cumsum((plan.kind == F).astype("i8") - frees)
    before = np.concatenate([[0], held])
    ends = plan.row_ptr.tolist()
    return tuple(int(held[begin:end].max() - before[begin]) if end > begin else 0 for begin, end in pairwise(ends))


def in_flight_peak_by_chunk(plan: PipelinePlan) -> tuple[int, ...]:
    """For every chunk, the most micro-batches whose activations are held."""
    peaks = []
    for chunk, split in enumerate(plan.is_split):
        kind = plan.kind[plan.chunk == chunk].astype("i8")
        held = np.cumsum((kind == F).astype("i8") - (kind == (W if split else B)))
        peaks.append(int(held.max(initial=0)))
    return tuple(peaks)
