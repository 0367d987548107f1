"""What one pipeline rank runs in a step, in program order.

before   parameters gathered for the first forward (ZeRO with overlap)
actions  F, B and W of its chunks, as the schedule orders them
sync     gradients reduced in buckets, beside the last backward
update   the optimizer
after    updated parameters gathered (ZeRO-1, 2)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from proteus.compiler.state import StateMove
from proteus.compiler.tables import CommRow, OpRow

#: copy and micro-batch of steps that belong to none
NONE = -1
#: `part` of host copies: what they copy
HOST_PARAMETERS, HOST_ACTIVATIONS = -1, -2
#: `part` of a step that is an earlier piece of what a later step completes
PIECE = -(2**20)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlan:
    """The steps of one pipeline rank.

    Parameters
    ----------
    is_comm, ref
        bool, int32 [steps]: communication row or (own) segment row.
    row
        int32[steps]: the same by the plan's own count, its communication rows
        first and its segments behind them.
    chunk, link, copy, micro_batch, phase
        int32[steps]: where a step comes from; NONE for the optimizer and the
        reductions after the last backward.  `phase` is F, B, W or NONE.
    part
        int32[steps]: first instruction of the phase that a step carries out;
        -1 - k for the k-th of :func:`~proteus.compiler.state.copy_moves`;
        HOST_PARAMETERS or HOST_ACTIVATIONS for a host copy; PIECE for all but
        the last step of an instruction that runs in pieces.
    moves
        step → what a collective outside the actions moves: gradients in
        buckets, tied parameters, updated parameters.
    edges
        int32[edges, 2]: (waits for, step), sorted by step.
    alloc_bytes, free_bytes
        float64[steps].
    comms, rows, comm_counts
        Its communication rows, where they stand in the common table, and how
        many steps refer to each.
    stream_steps
        Stream name → its steps in program order.
    sends_out, sends_in
        (chunk, kind) → for every micro-batch the steps that make, or wait
        for, what passes between chunks: int64[micro-batches, k].
    action_next
        (chunk, kind) → int64[micro-batches]: first step of the action after
        it (-1 at the end).
    first_forwards
        Share of the forwards that come before the first backward, and so of
        the backwards that come after the last forward.
    """

    rank: int
    is_comm: np.ndarray
    ref: np.ndarray
    row: np.ndarray
    chunk: np.ndarray
    link: np.ndarray
    copy: np.ndarray
    micro_batch: np.ndarray
    phase: np.ndarray
    part: np.ndarray
    edges: np.ndarray
    alloc_bytes: np.ndarray
    free_bytes: np.ndarray
    sends_out: Mapping[tuple[int, int], np.ndarray]
    sends_in: Mapping[tuple[int, int], np.ndarray]
    action_next: Mapping[tuple[int, int], np.ndarray]
    segments: list[list[OpRow]]
    comms: tuple[CommRow, ...]
    comm_counts: np.ndarray
    stream_steps: Mapping[str, np.ndarray]
    rows: np.ndarray
    moves: Mapping[int, StateMove]
    optimizer_step: int
    first_forwards: float

    @property
    def num_steps(self) -> int:
        return len(self.is_comm)


def share_rows(plans: Sequence[RankPlan]) -> tuple[tuple[RankPlan, ...], tuple[CommRow, ...]]:
    """The plans with one common table of communication rows."""
    at: dict[CommRow, int] = {}
    shared = []
    for plan in plans:
        rows = np.array([at.setdefault(row, len(at)) for row in plan.comms], np.int32)
        ref = np.where(plan.is_comm, rows.take(plan.row, mode="clip"), plan.ref) if len(rows) else plan.ref
        shared.append(replace(plan, ref=ref, rows=rows))
    return tuple(shared), tuple(at)
