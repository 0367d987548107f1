"""From one layout to another by the cheapest sequence of collectives.

The search walks over layouts; a step changes the placement on a set of axes
by one collective (the paper's section V matches patterns instead).  Axes that
change in the same way go together in one collective.  Along a dim that
several axes cut, only the innermost ones can be gathered or exchanged.

    P → R   all_reduce        S(d) → R     all_gather
    P → S   reduce_scatter    S(d) → S(e)  all_to_all
    R → S   slice, local      R → P        one rank keeps, local
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Literal

from proteus.compiler.layout import Layout
from proteus.mesh import Mesh
from proteus.placement import Partial, Placement, Replicate, Shard

StepKind = Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "slice", "mask"]
LOCAL_STEPS = ("slice", "mask")


@dataclass(frozen=True, slots=True)
class Step:
    """One collective (or local) step.

    `axes` are mesh axis indexes in mesh order.  `dim` is what is scattered,
    gathered or sliced, `to_dim` the new cut of an all_to_all: those of its
    first axis, the others may cut other dims.
    """

    kind: StepKind
    axes: tuple[int, ...]
    before: Layout
    after: Layout
    dim: str | None = None
    to_dim: str | None = None
    reduce: str | None = None

    @property
    def is_local(self) -> bool:
        return self.kind in LOCAL_STEPS


#: seconds (or any consistent cost) of a step: (kind, axes, full bytes of the local group tensor)
StepCost = Callable[[StepKind, tuple[int, ...], float], float]


def wire_bytes(kind: StepKind, size_bytes: float, degree: int) -> float:
    """Bytes that one rank sends, by the ring algorithms; the tie-break.

    >>> wire_bytes("all_reduce", 100.0, 4), wire_bytes("all_gather", 100.0, 4)
    (150.0, 75.0)
    """
    share = size_bytes * (degree - 1) / degree
    return {"all_reduce": 2 * share, "slice": 0.0, "mask": 0.0}.get(kind, share)


@lru_cache(maxsize=8192)
def plan(
    dims: tuple[str, ...],
    shape_bytes: float,
    before: Layout,
    after: Layout,
    mesh: Mesh,
    cost: StepCost | None = None,
) -> tuple[Step, ...]:
    """The cheapest steps from `before` to `after`.

    Parameters
    ----------
    dims
        Dims of the tensor.
    shape_bytes
        Bytes of the whole tensor [bytes].
    cost
        Cost of a step; None counts bytes on the wire.
    """
    if before == after:
        return ()
    price = cost or (lambda kind, axes, size: wire_bytes(kind, size, mesh.degree(tuple(mesh.names[a] for a in axes))))
    queue: list[tuple[float, float, int, Layout, tuple[Step, ...]]] = [(0.0, 0.0, 0, before, ())]
    done: set[Layout] = set()
    count = 0
    while queue:
        total, sent, _, layout, steps = heapq.heappop(queue)
        if layout == after:
            return steps
        if layout in done:
            continue
        done.add(layout)
        for step in _moves(dims, layout, after):
            if step.after in done:
                continue
            degree = mesh.degree(tuple(mesh.names[a] for a in step.axes))
            size = _group_bytes(step, shape_bytes, mesh)
            count += 1
            heapq.heappush(
                queue,
                (
                    total + (0.0 if step.is_local else price(step.kind, step.axes, size)),
                    sent + wire_bytes(step.kind, size, degree),
                    count,
                    step.after,
                    (*steps, step),
                ),
            )
    raise AssertionError(f"no way from {before} to {after}")


def group_bytes(step: Step, shape_bytes: float, mesh: Mesh) -> float:
    """Size of the step by the convention of ``costs.collectives`` [bytes]."""
    return _group_bytes(step, shape_bytes, mesh)


def _group_bytes(step: Step, shape_bytes: float, mesh: Mesh) -> float:
    """Bytes of the tensor that one group holds together (all_to_all: one rank's send buffer)."""
    size = shape_bytes
    for axis, placement in enumerate(step.before):
        inside = axis in step.axes
        if isinstance(placement, Shard) and (not inside or step.kind == "all_to_all"):
            size /= mesh.shape[axis]
    return size


def _axes_of(layout: Layout, dim: str) -> list[int]:
    return [axis for axis, placement in enumerate(layout) if isinstance(placement, Shard) and placement.dim == dim]


def _replace(layout: Layout, axes: tuple[int, ...], placement: Placement) -> Layout:
    return tuple(placement if axis in axes else old for axis, old in enumerate(layout))


def _may_cut(layout: Layout, axes: tuple[int, ...], dim: str) -> bool:
    """New cuts of a dim must stand inside (to the right of) the old ones."""
    return all(old < min(axes) for old in _axes_of(layout, dim) if old not in axes)


def _subsets(axes: list[int]) -> list[tuple[int, ...]]:
    return [subset for size in range(1, len(axes) + 1) for subset in combinations(axes, size)]


def _moves(dims: tuple[str, ...], layout: Layout, goal: Layout) -> list[Step]:
    moves: list[Step] = []
    for op in ("sum", "max"):
        axes = [a for a, p in enumerate(layout) if p == Partial(op) and goal[a] != p]
        for subset in _subsets(axes):
            after = _replace(layout, subset, Replicate())
            moves.append(Step("all_reduce", subset, layout, after, reduce=op))
            wanted = {goal[a] for a in subset}
            target = next(iter(wanted)) if len(wanted) == 1 and op == "sum" else None
            if isinstance(target, Shard) and _may_cut(layout, subset, target.dim):
                moves.append(
                    Step(
                        "reduce_scatter",
                        subset,
                        layout,
                        _replace(layout, subset, target),
                        dim=target.dim,
                        reduce=op,
                    )
                )
    for dim in dims:
        axes = _axes_of(layout, dim)
        for size in range(1, len(axes) + 1):
            suffix = tuple(axes[-size:])
            moves.append(Step("all_gather", suffix, layout, _replace(layout, suffix, Replicate()), dim=dim))
    moves += _exchanges(layout, goal)
    for axis, placement in enumerate(layout):
        target = goal[axis]
        if isinstance(placement, Replicate) and isinstance(target, Shard) and _may_cut(layout, (axis,), target.dim):
            moves.append(Step("slice", (axis,), layout, _replace(layout, (axis,), target), dim=target.dim))
        if isinstance(placement, Replicate) and isinstance(target, Partial):
            moves.append(Step("mask", (axis,), layout, _replace(layout, (axis,), target)))
    return moves


def _exchanges(layout: Layout, goal: Layout) -> list[Step]:
    """all_to_alls: axes that cut some dims, innermost there, come to cut others, innermost too."""
    moves = []
    changes = [
        (p.dim, q.dim) if isinstance(p, Shard) and isinstance(q, Shard) else ("", "") for p, q in zip(layout, goal)
    ]
    for subset in _subsets([axis for axis, (old, new) in enumerate(changes) if old != new]):
        left = _replace(layout, subset, Replicate())
        pairs = [changes[axis] for axis in subset]
        apart = {old for old, _ in pairs}.isdisjoint(new for _, new in pairs)  # else some pairs of ranks share nothing
        if apart and all(_may_cut(left, (a,), dim) for a, pair in zip(subset, pairs) for dim in pair):
            after = tuple(goal[axis] if axis in subset else p for axis, p in enumerate(layout))
            moves.append(Step("all_to_all", subset, layout, after, dim=pairs[0][0], to_dim=pairs[0][1]))
    return moves
