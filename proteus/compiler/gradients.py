"""Gradients that are reduced after the last backward, or beside it: in buckets, as they become complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from proteus.compiler.chain import Chunk, Link
from proteus.compiler.phases import ChunkPhase
from proteus.compiler.plan_columns import StepWriter
from proteus.compiler.state import ParameterState, StateMove, is_held, reduction_steps, states
from proteus.compiler.tables import Node, Tables, block_node
from proteus.mesh import Mesh
from proteus.strategy.config import Training

_BucketKey = tuple[Mesh, tuple[str, ...], tuple[str, ...]]


@dataclass(slots=True)
class _Open:
    """A bucket being filled."""

    node: Node
    size_bytes: float = 0.0
    wait: int = -1
    items: list[tuple[int, int, int, ParameterState]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Pending:
    """A link whose gradients are complete: `ends` are the last steps of its copies."""

    chunk: Chunk
    number: int
    ends: np.ndarray


def reduce_gradients(
    rank_chunks: Sequence[Chunk],
    pending: Sequence[Pending],
    writer: StepWriter,
    tables: Tables,
    training: Training,
    reduce_bytes: float,
    last_overall: int,
) -> list[int]:
    """Reductions of whole gradients, in buckets filled in the order of the backward; the first may be smaller."""
    first_limit = min(training.framework.first_bucket_bytes or training.bucket_bytes, training.bucket_bytes)
    every = [link for c in rank_chunks for link in c.links]
    open_: dict[_BucketKey, _Open] = {}
    steps: list[int] = []
    tensor: list[tuple[Chunk, int, tuple[str, ...], list[ParameterState]]] = []

    def close(key: _BucketKey) -> None:
        bucket = open_.pop(key)
        mesh, data, kept = key
        wait, size = bucket.wait if training.overlap_gradients else last_overall, bucket.size_bytes
        for kind, axes in reduction_steps(data, kept):
            name = f"{kind} gradients ({len(bucket.items)} tensors)"
            row = tables.state_row(mesh, axes, kind, size, "gradient", name, bucket.node)
            move = StateMove(kind=kind, axes=axes, items=tuple(bucket.items))
            steps.append(writer.add(True, tables.comm(row), [wait], bucket.items[0][0], move))
            if kind == "reduce_scatter":
                size /= mesh.degree(axes)

    shared = _shared(every, pending)
    for item in pending:
        link = item.chunk.links[item.number]
        # a tied copy beside its owner adds to the owner's gradient
        reduced_states = [s for s in states(link) if s.parameter.gradient >= 0 and is_held(s, every)]
        for axes in dict.fromkeys(s.tensor_axes for s in reduced_states if s.tensor_axes):
            tensor.append((item.chunk, item.number, axes, [s for s in reduced_states if s.tensor_axes == axes]))
        groups: dict[_BucketKey, list[ParameterState]] = {}
        for s in reduced_states:
            if s.data_axes and not s.kept["gradient"]:
                groups.setdefault((link.program.mesh, s.data_axes, s.reduce_axes), []).append(s)
        for copy in range(link.count - 1, -1, -1):
            for key, members in groups.items():
                bucket = open_.get(key) or open_.setdefault(key, _Open(node=block_node(link)))
                bucket.size_bytes += sum(s.numel for s in members) * reduce_bytes
                bucket.items.extend((item.chunk.index, item.number, copy, s) for s in members)
                bucket.wait = max(bucket.wait, int(item.ends[copy]))
                if shared:
                    paths = (f"{link.path(copy)}.{s.parameter.name}" for s in members)
                    bucket.wait = max(bucket.wait, *(shared.get(path, -1) for path in paths))
                if bucket.size_bytes >= (training.bucket_bytes if steps else first_limit):
                    close(key)
    for key in list(open_):
        close(key)
    for c, number, axes, members in tensor:
        link = c.links[number]
        mesh = link.program.mesh
        numel = sum(s.numel / mesh.degree(s.kept["gradient"]) for s in members) * link.count
        row = tables.state_row(
            mesh, axes, "all_reduce", numel * reduce_bytes, "gradient",
            f"all_reduce gradients over {'×'.join(axes)}", block_node(link),
        )  # fmt: skip
        items = tuple((c.index, number, copy, s) for copy in range(link.count) for s in members)
        move = StateMove(kind="all_reduce", axes=axes, items=items)
        steps.append(writer.add(True, tables.comm(row), [last_overall], c.index, move))
    return steps


def _shared(every: Sequence[Link], pending: Sequence[Pending]) -> dict[str, int]:
    """Owner's path → last step of the copies tied to it on this rank."""
    last_step: dict[str, int] = {}
    for item in pending:
        for s in states(item.chunk.links[item.number]):
            path = s.parameter.tied_to
            if path is not None and not is_held(s, every):
                last_step[path] = max(last_step.get(path, -1), int(item.ends.max()))
    return last_step


def last_reduction(
    made: Mapping[tuple[int, int], ChunkPhase], starts: np.ndarray, chunk: np.ndarray, kind: np.ndarray
) -> int:
    """The last step that reduces gradients within the actions, or -1."""
    last = -1
    for (index, k), phase in made.items():
        at = np.flatnonzero((chunk == index) & (kind == k))
        if len(at) and phase.last_reduction >= 0:
            last = max(last, int(starts[at[-1]]) + phase.last_reduction)
    return last
