"""Plans as text: one row per rank, read, written and drawn."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from proteus.errors import StrategyError
from proteus.strategy.schedules.pipeline_plan import KINDS, Action, PipelinePlan
from proteus.strategy.schedules.timing import walk

# Steps drawn on each side of a fault: one screen of 120 columns.
_STEPS_AROUND_FAULT = 10


def parse_grid(text: str) -> PipelinePlan:
    """A plan from text: one row per rank, actions separated by blanks.

    ``#`` starts a comment; lines without actions are passed over.  The chunks
    and micro-batches must count from 0 without gaps.  Whether the plan can run
    is for :func:`validate` to say.

    Examples
    --------
    >>> parse_grid('''
    ... # two stages, two micro-batches
    ... 0F0 0F1 0B0 0B1
    ... 1F0 1B0 1F1 1B1
    ... ''').rows[1]
    (1F0, 1B0, 1F1, 1B1)
    >>> parse_grid("0F0 0G0")
    Traceback (most recent call last):
    ...
    proteus.errors.StrategyError: schedule grid, line 1, token 2: '0G0' is not an action; write
    <chunk><kind><micro-batch> with kind F, B or W, such as 2F0
    """
    rows: list[list[Action]] = []
    rank_of: dict[int, tuple[int, str]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        tokens = line.partition("#")[0].split()
        if not tokens:
            continue
        row = []
        for position, token in enumerate(tokens, start=1):
            where = f"line {number}, token {position}"
            try:
                action = Action.parse(token)
            except StrategyError as error:
                raise StrategyError(f"schedule grid, {where}: {error}") from None
            rank, first = rank_of.setdefault(action.chunk, (len(rows), where))
            if rank != len(rows):
                raise StrategyError(
                    f"schedule grid, {where}: {token} puts chunk {action.chunk} on rank {len(rows)}, but {first} has "
                    f"it on rank {rank}; a chunk lives on one rank"
                )
            row.append(action)
        rows.append(row)
    if not rows:
        raise StrategyError("schedule grid: no actions; write one row per pipeline rank, such as 0F0 0B0")
    micro_batches = {action.micro_batch for row in rows for action in row}
    for unit, numbers in (("chunk", set(rank_of)), ("micro-batch", micro_batches)):
        missing = next(i for i in range(len(numbers) + 1) if i not in numbers)
        if missing < len(numbers):
            raise StrategyError(
                f"schedule grid: {unit} {missing} has no action, but {unit} {max(numbers)} has; count from 0 without "
                "gaps"
            )
    columns = [
        (
            np.array([action.chunk for action in row], "i4"),
            np.array([KINDS.index(action.kind) for action in row], "u1"),
            np.array([action.micro_batch for action in row], "i4"),
        )
        for row in rows
    ]
    chunk_rank = [rank_of[chunk][0] for chunk in range(len(rank_of))]
    return PipelinePlan.from_columns("grid", len(micro_batches), chunk_rank, columns)


def format_grid(plan: PipelinePlan) -> str:
    """The text that :func:`parse_grid` reads back.

    Examples
    --------
    >>> from proteus.strategy.schedule import plan
    >>> print(format_grid(plan("1f1b", 2, 2)), end="")
    0F0 0F1 0B0 0B1
    1F0 1B0 1F1 1B1
    """
    return "".join(" ".join(map(repr, row)) + "\n" for row in plan.rows)


def draw(
    plan: PipelinePlan,
    durations: Mapping[str, int] | None = None,
    fault: tuple[int, int] | None = None,
) -> str:
    """The rank × step grid.

    Parameters
    ----------
    plan
        What to draw.
    durations
        Whole units of time of ``F``, ``B`` and ``W``: columns are units of
        time, ``.`` is a unit in which the rank waits and ``-`` one in which
        its action goes on.  None: columns are positions in the rows.
    fault
        ``(rank, step)`` to point at; only the steps around it are drawn.

    Examples
    --------
    >>> from proteus.strategy.schedule import plan
    >>> print(draw(plan("1f1b", 2, 2), durations={"F": 1, "B": 1}))
    step    0   1   2   3   4   5
    rank 0  0F0 0F1 .   0B0 .   0B1
    rank 1  .   1F0 1B0 1F1 1B1 .
    >>> print(draw(plan("1f1b", 2, 2), fault=(1, 2)))
    step    0   1   2   3
    rank 0  0F0 0F1 0B0 0B1
    rank 1  1F0 1B0 1F1 1B1
                    ^^^ here
    """
    cells = [list(map(repr, row)) for row in plan.rows] if durations is None else _timed(plan, durations)
    num_steps = max(map(len, cells))
    first, last = 0, num_steps
    if fault is not None:
        first = max(0, fault[1] - _STEPS_AROUND_FAULT)
        last = min(num_steps, fault[1] + _STEPS_AROUND_FAULT + 1)
    width = max(len(cell) for row in [*cells, [str(last - 1)]] for cell in row[first:last] or [""])
    margin = len(f"rank {len(cells) - 1}  ")
    before = "... " if first else ""

    def line(label: str, row: list[str], is_cut: bool) -> str:
        shown = " ".join(f"{cell:<{width}}" for cell in row[first:last])
        return f"{label:<{margin}}{before}{shown}{' ...' if is_cut else ''}".rstrip()

    lines = [line("step", [str(step) for step in range(num_steps)], last < num_steps)]
    for rank, row in enumerate(cells):
        lines.append(line(f"rank {rank}", row, len(row) > last))
        if fault is not None and rank == fault[0]:
            column = margin + len(before) + (fault[1] - first) * (width + 1)
            arrow = "^" * max(1, len(row[fault[1]]) if fault[1] < len(row) else 1)
            lines.append(f"{' ' * column}{arrow} here")
    return "\n".join(lines)


def _timed(plan: PipelinePlan, durations: Mapping[str, int]) -> list[list[str]]:
    cost = [int(durations.get(kind, 0)) for kind in KINDS]
    ran = walk(plan, *cost)
    if ran.stuck:
        raise StrategyError(f"{plan!r} deadlocks, so its actions have no times; draw it without durations")
    num_units = int(ran.end.max())
    cells = [["."] * num_units for _ in range(plan.num_ranks)]
    ends = plan.row_ptr.tolist()
    for rank, row in enumerate(plan.rows):
        times = zip(row, ran.start[ends[rank] :].astype(int).tolist(), ran.end[ends[rank] :].astype(int).tolist())
        for action, begin, end in times:
            if end > begin:
                cells[rank][begin:end] = [repr(action)] + ["-"] * (end - begin - 1)
    return cells
