"""Fourth pass: the steps of a whole chunk, copies of blocks one after another.

A block's phase is a small template; a chunk of 12 equal layers is the
template repeated with numpy, with edges from what one copy hands over to what
the next one waits for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proteus.compiler.steps import PORT


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSteps:
    """Steps in program order, already numbered.

    Parameters
    ----------
    is_comm
        bool[steps].
    ref
        int[steps]: segment or communication row.
    part
        int[steps]: what a step carries out, see :class:`RankPlan`.
    edges
        int[edges, 2]: (waits for, step); PORT stands for what was handed over.
    outputs
        Steps that make what is handed on; PORT where it passes through.
    alloc_bytes, free_bytes
        float64[steps]: memory taken when a step starts, given back when it ends.
    """

    is_comm: np.ndarray
    ref: np.ndarray
    part: np.ndarray
    edges: np.ndarray
    outputs: tuple[int, ...]
    alloc_bytes: np.ndarray
    free_bytes: np.ndarray

    @property
    def num_steps(self) -> int:
        return len(self.is_comm)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySteps(PhaseSteps):
    """The steps of one copy of a block in one phase.

    Parameters
    ----------
    brought
        Steps that bring parameters or activations before the computation.
    reduction
        Last step that reduces gradients, or -1.
    """

    brought: tuple[int, ...]
    reduction: int

    @property
    def last_compute(self) -> int:
        compute_steps = np.flatnonzero(~self.is_comm)
        return int(compute_steps[-1]) if len(compute_steps) else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPhase(PhaseSteps):
    """The steps of one phase of a chunk for one micro-batch; no edge and no output is a PORT any more.

    Parameters
    ----------
    link, copy
        int32[steps]: number of the link in the chunk, number of its copy.
    waits
        Steps that wait for what the chunk before hands over.
    copy_last
        int64[links][copies]: last compute step of every copy, by link.
    last_reduction
        Last step that reduces gradients, or -1.
    ahead
        int64[n, 2]: (what a step waits for in the action before, step), for
        what the first copies need; -2 and -1 stand for the last compute steps
        of the copy before last and of the last one there.
    ends
        Last compute steps of the copy before last and of the last; -2 and -1
        as in `ahead` where there are fewer.
    """

    link: np.ndarray
    copy: np.ndarray
    waits: np.ndarray
    copy_last: tuple[np.ndarray, ...]
    last_reduction: int
    ahead: np.ndarray
    ends: tuple[int, int]


def concatenate(links: Sequence[tuple[CopySteps, int]], *, is_reversed: bool) -> ChunkPhase:
    """The phase of a chunk from the copies of its links.

    Parameters
    ----------
    links
        (template, number of copies), in model order.
    is_reversed
        True for the backward: the last copy runs first.
    """
    order = range(len(links) - 1, -1, -1) if is_reversed else range(len(links))
    is_comm, ref, part, link, copy, alloc, free = [], [], [], [], [], [], []
    edges: list[np.ndarray] = []
    waits: list[np.ndarray] = []
    copy_last: list[np.ndarray] = [np.empty(0, np.int64)] * len(links)
    outputs: tuple[int, ...] = (PORT,)
    prefetch = (-2, -1)  # last compute steps of the copy before last and of the last
    base, last_reduction = 0, -1
    for number in order:
        template, count = links[number]
        n = template.num_steps
        if not n:
            continue
        at = base + n * np.arange(count)
        is_comm.append(np.tile(template.is_comm, count))
        ref.append(np.tile(template.ref, count))
        part.append(np.tile(template.part, count))
        link.append(np.full(n * count, number, np.int32))
        numbers = np.arange(count - 1, -1, -1) if is_reversed else np.arange(count)
        copy.append(np.repeat(numbers, n).astype(np.int32))
        alloc.append(np.tile(template.alloc_bytes, count))
        free.append(np.tile(template.free_bytes, count))
        inner = template.edges[template.edges[:, 0] != PORT]
        edges.append((at[:, None, None] + inner[None]).reshape(-1, 2))
        from_port = template.edges[template.edges[:, 0] == PORT][:, 1]
        first_waits = at[0] + from_port
        if outputs == (PORT,):
            waits.append(first_waits)
        else:
            edges.append(_pairs(np.array(outputs), first_waits))
        local_outputs = tuple(o for o in template.outputs if o != PORT)
        if local_outputs and count > 1:
            later = (at[1:, None] + from_port).reshape(count - 1, -1)
            made = (at[:-1, None] + np.array(local_outputs)).reshape(count - 1, -1)
            edges.append(
                np.stack(
                    [np.repeat(made, later.shape[1], axis=1).ravel(), np.tile(later, (1, made.shape[1])).ravel()],
                    axis=1,
                )
            )
        if local_outputs:
            outputs = tuple(int(at[-1]) + o for o in local_outputs)
        if template.reduction >= 0:
            last_reduction = int(at[-1]) + template.reduction
        last = template.last_compute
        if last >= 0:
            edges.extend(_prefetch_edges(at, step, last, prefetch) for step in template.brought)
        if last >= 0:
            ends = at + last
            copy_last[number] = ends[::-1] if is_reversed else ends
            prefetch = (int(ends[-2]) if count > 1 else prefetch[1], int(ends[-1]))
        else:
            copy_last[number] = np.full(count, -1)
        base += n * count
    comm = _join(is_comm, bool)
    pairs = np.concatenate(edges) if edges else np.empty((0, 2), np.int64)
    is_ahead = pairs[:, 0] < 0
    ahead, pairs = pairs[is_ahead], pairs[~is_ahead]
    # computations of one rank follow each other in their stream anyway
    pairs = pairs[comm[pairs[:, 0]] | comm[pairs[:, 1]]]
    return ChunkPhase(
        is_comm=comm,
        ref=_join(ref, np.int32),
        part=_join(part, np.int32),
        link=_join(link, np.int32),
        copy=_join(copy, np.int32),
        edges=pairs,
        waits=_join(waits, np.int64),
        outputs=tuple(o for o in outputs if o != PORT),
        copy_last=tuple(copy_last),
        last_reduction=last_reduction,
        ahead=ahead,
        ends=prefetch,
        alloc_bytes=_join(alloc, np.float64),
        free_bytes=_join(free, np.float64),
    )


def _prefetch_edges(at: np.ndarray, step: int, last: int, before: tuple[int, int]) -> np.ndarray:
    """What a copy needs is brought while the copy before it computes, not earlier."""
    ends = np.concatenate([np.array(before), at + last])[: len(at)]
    return np.stack([ends, at + step], axis=1)


def _pairs(sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return np.stack([np.repeat(sources, len(targets)), np.tile(targets, len(sources))], axis=1)


def _join(parts: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype)
