"""Can a plan run, and does it train every chunk on every micro-batch?"""

from __future__ import annotations

from proteus.errors import StrategyError
from proteus.strategy.schedules.grid import draw
from proteus.strategy.schedules.pipeline_plan import KINDS, Action, ActionKind, PipelinePlan
from proteus.strategy.schedules.timing import needs, walk


def validate(plan: PipelinePlan) -> PipelinePlan:
    """`plan` itself when it can run; an error that draws the grid when not.

    Every chunk must run F and B once for every micro-batch (W too where the
    chunk has any W), on its rank, F before B before W, and the rows together
    must not deadlock.

    Raises
    ------
    StrategyError
        With the rank × step grid and an arrow at the action at fault.

    Examples
    --------
    >>> from proteus.strategy.schedule import parse_grid
    >>> validate(parse_grid("0F0 0B0 0F1 0B1\\n1F1 1F0 1B1 1B0"))
    Traceback (most recent call last):
    ...
    proteus.errors.StrategyError: schedule grid: deadlock: rank 0 stops at 0B0, which needs 1B0 of rank 1;
    rank 1 stops at 1F1, which needs 0F1 of rank 0; change their order
    step    0   1   2   3
    rank 0  0F0 0B0 0F1 0B1
                ^^^ here
    rank 1  1F1 1F0 1B1 1B0
    """
    _check_rows(plan)
    _check_complete(plan)
    stuck = walk(plan).stuck
    if stuck:
        raise _deadlock(plan, stuck)
    return plan


def _fault(plan: PipelinePlan, rank: int, step: int, problem: str) -> StrategyError:
    return StrategyError(f"schedule {plan.name}: {problem}\n{draw(plan, fault=(rank, step))}")


def _check_rows(plan: PipelinePlan) -> None:
    done: dict[Action, tuple[int, int]] = {}
    for rank, row in enumerate(plan.rows):
        for step, action in enumerate(row):
            where = f"rank {rank}, step {step}"
            if action.chunk >= plan.num_chunks or action.micro_batch >= plan.num_micro_batches:
                raise _fault(
                    plan,
                    rank,
                    step,
                    f"{where}: {action} is outside {plan.num_chunks} chunks and {plan.num_micro_batches} micro-batches",
                )
            owner = plan.chunk_rank[action.chunk]
            if owner != rank:
                raise _fault(plan, rank, step, f"{where}: {action}, but chunk {action.chunk} lives on rank {owner}")
            if action in done:
                raise _fault(
                    plan, rank, step, f"{where}: {action} again, first at step {done[action][1]}; each action runs once"
                )
            before = {ActionKind.F: None, ActionKind.B: ActionKind.F, ActionKind.W: ActionKind.B}[action.kind]
            if before is not None and Action(action.chunk, before, action.micro_batch) not in done:
                need = Action(action.chunk, before, action.micro_batch)
                raise _fault(plan, rank, step, f"{where}: {action} without {need} before it; put {need} first")
            done[action] = (rank, step)


def _check_complete(plan: PipelinePlan) -> None:
    """Nothing runs twice by now, so what is not there is missing."""
    there = {action for row in plan.rows for action in row}
    for chunk, split in enumerate(plan.is_split):
        rank = plan.chunk_rank[chunk]
        for kind in KINDS if split else KINDS[:2]:
            for micro_batch in range(plan.num_micro_batches):
                action = Action(chunk, kind, micro_batch)
                if action not in there:
                    why = f" (chunk {chunk} has W actions, so every micro-batch needs one)" if kind == "W" else ""
                    raise _fault(
                        plan, rank, len(plan.rows[rank]), f"rank {rank} never runs {action}{why}; add it to its row"
                    )


def _deadlock(plan: PipelinePlan, stuck: dict[int, int]) -> StrategyError:
    parts = []
    rank = min(stuck)
    seen: list[int] = []
    # From any rank that stops, follow what it waits for until a rank comes again: that is the circle.
    while rank not in seen:
        seen.append(rank)
        rank = _blocker(plan, stuck, rank)[1]
    circle = seen[seen.index(rank) :]
    for rank in circle:
        need, owner = _blocker(plan, stuck, rank)
        parts.append(f"rank {rank} stops at {plan.rows[rank][stuck[rank]]}, which needs {need} of rank {owner}")
    problem = f"deadlock: {'; '.join(parts)}; change their order"
    return _fault(plan, circle[0], stuck[circle[0]], problem)


def _blocker(plan: PipelinePlan, stuck: dict[int, int], rank: int) -> tuple[Action, int]:
    """What a stopped rank waits for, and whose it is."""
    action = plan.rows[rank][stuck[rank]]
    need = needs(action.chunk, KINDS.index(action.kind), action.micro_batch, plan.num_chunks - 1)
    assert need is not None, "a first forward waits for nothing"
    chunk, kind, micro_batch = need
    return Action(chunk, KINDS[kind], micro_batch), plan.chunk_rank[chunk]
