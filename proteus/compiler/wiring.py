"""What waits for what, and what shares a stream: the plans of the simulated ranks joined by their sends."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proteus.compiler.chain import Chunk
from proteus.compiler.graph import Transfer
from proteus.compiler.numbering import TaskIds
from proteus.compiler.rank_plan import RankPlan
from proteus.compiler.segments import PlayedRank
from proteus.strategy.schedules.pipeline_plan import B, F


def edges(
    ids: TaskIds,
    classes: Sequence[PlayedRank],
    plans: Sequence[RankPlan],
    chunks: Sequence[Chunk],
    transfers: Sequence[Transfer],
    *,
    sends_wait: bool,
) -> np.ndarray:
    """int32[edges, 2]: (waits for, task).

    Parameters
    ----------
    sends_wait
        A rank waits until what it sent has left.
    """
    edge_arrays = [ids.at(number, plans[rank.plan].edges) for number, rank in enumerate(classes)]
    for before, after in itertools.pairwise(chunks):
        if before.rank == after.rank:
            for number, rank in enumerate(classes):
                if rank.plan == before.rank:
                    plan = plans[rank.plan]
                    edge_arrays.append(ids.at(number, _joined(plan, (before.index, F), (after.index, F))))
                    edge_arrays.append(ids.at(number, _joined(plan, (after.index, B), (before.index, B))))
    for transfer in transfers:
        key = (transfer.chunk, transfer.kind)
        peer_phase = (transfer.chunk + (1 if transfer.kind == F else -1), transfer.kind)
        source, target = plans[classes[transfer.source].plan], plans[classes[transfer.target].plan]
        made = ids.at(transfer.source, source.sends_out[key])
        edge_arrays.append(_broadcast(made, transfer.tasks[:, None]))
        wanted = ids.at(transfer.target, target.sends_in[peer_phase])
        edge_arrays.append(_broadcast(transfer.tasks[:, None], wanted))
        if sends_wait:
            then = source.action_next[key]
            has = then >= 0
            edge_arrays.append(np.stack([transfer.tasks[has], ids.at(transfer.source, then[has])], axis=1))
    return (
        np.concatenate(edge_arrays, dtype=np.int32, casting="same_kind") if edge_arrays else np.empty((0, 2), np.int32)
    )


def _joined(plan: RankPlan, out: tuple[int, int], into: tuple[int, int]) -> np.ndarray:
    if out not in plan.sends_out or into not in plan.sends_in:
        return np.empty((0, 2), np.int64)  # no backward where nothing before is trained
    return _broadcast(plan.sends_out[out], plan.sends_in[into])


def _broadcast(sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Edges from every source to every target of the same micro-batch."""
    s, t = sources.shape[1], targets.shape[1]
    return np.stack([np.repeat(sources, t, axis=1).ravel(), np.tile(targets, (1, s)).ravel()], axis=1)


def by_row(rows: np.ndarray, values: np.ndarray, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """(begin of every row, int32; values row by row), in the order in which each row has them."""
    ptr = np.zeros(num_rows + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=num_rows), out=ptr[1:])
    return ptr, values.take(np.argsort(np.ascontiguousarray(rows), kind="stable"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """Columns of the streams: where each begins, its tasks in order, its class and its name."""

    ptr: np.ndarray
    task: np.ndarray
    device: np.ndarray
    names: tuple[str, ...]


def streams(
    ids: TaskIds, classes: Sequence[PlayedRank], plans: Sequence[RankPlan], transfers: Sequence[Transfer]
) -> Streams:
    """The streams of every class, and one for each direction in which it sends or receives."""
    tasks: list[np.ndarray] = []
    device: list[int] = []
    names: list[str] = []
    for number, rank in enumerate(classes):
        for name, steps in plans[rank.plan].stream_steps.items():
            tasks.append(ids.at(number, steps))
            device.append(number)
            names.append(name)
    for transfer in transfers:
        plan = plans[classes[transfer.source].plan]
        order = np.argsort(plan.sends_out[(transfer.chunk, transfer.kind)][:, 0], kind="stable")
        for end in (transfer.source, transfer.target):
            tasks.append(transfer.tasks[order])
            device.append(end)
            names.append("pipeline")
    ptr = np.concatenate([[0], np.cumsum([len(t) for t in tasks])]).astype(np.int32)
    return Streams(
        ptr=ptr,
        task=np.concatenate(tasks, dtype=np.int32, casting="same_kind"),
        device=np.array(device, np.int32),
        names=tuple(names),
    )
