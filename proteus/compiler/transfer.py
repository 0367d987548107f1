"""What passes between two pipeline chunks: who sends which part to whom.

Stages of one mesh and layout send rank to rank.  Stages of different degree
send every piece that a receiver lacks from one of the ranks that hold it (the
paper's point-to-point fallback), turning through the holders so that no
sender carries more than its share.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from proteus.compiler.chain import Chunk
from proteus.compiler.layout import Layout, gradient_of, local_chunk
from proteus.identity import MemoKey
from proteus.mesh import Mesh
from proteus.placement import Replicate, Shard
from proteus.strategy.axes import named
from proteus.strategy.schedules.pipeline_plan import F
from proteus.units import DTYPE_BYTES


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of (sender, receiver) devices that pass equal amounts.

    `copies` are the axes of tensor parallelism along which all ranks pass the same.
    """

    members: np.ndarray
    size_bytes: float
    copies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """A box of a tensor that one rank sends to another; offsets are global."""

    source: int  # rank in the sending mesh
    target: int  # rank in the receiving mesh
    box: tuple[tuple[int, int], ...]  # (start, length) per dim


@dataclass(frozen=True, slots=True)
class Handed:
    """A tensor as it lies before and after the border."""

    tensor: int  # place among the handed tensors
    shape: tuple[int, ...]
    dims_before: tuple[str, ...]
    dims_after: tuple[str, ...]
    before: Layout
    after: Layout
    element_bytes: float


def handed_tensors(before: Chunk, after: Chunk, kind: int, activation_bytes: float) -> list[Handed]:
    """What crosses the border: outputs forward, their gradients backward."""
    first, second = before.links[-1].program, after.links[0].program
    handed = []
    for place, (out, into) in enumerate(zip(first.outputs, second.inputs, strict=True)):
        tensor = first.block.tensors[first.values[out].tensor]
        if kind != F and min(second.input_grads[place], first.output_grads[place]) < 0:
            continue
        size = activation_bytes if tensor.dtype is None else DTYPE_BYTES[tensor.dtype]
        dims = first.dims(out)
        handed.append(
            Handed(
                place,
                tuple(first.sizes[d] for d in dims),
                dims,
                second.dims(into),
                gradient_of(first.values[out].layout) if kind != F else first.values[out].layout,
                second.values[into].layout,
                size,
            )
        )
    return handed


def transfer_pairs(before: Chunk, after: Chunk, kind: int, activation_bytes: float) -> list[Pairs]:
    """The sends of one micro-batch, pairs with equal amounts together; remembered."""
    ends = (id(before.links[-1].program), id(after.links[0].program), before.first_device, after.first_device)
    return _transfers(MemoKey((before, after), *ends), kind, activation_bytes)


@lru_cache(maxsize=512)
def _transfers(ends: MemoKey[tuple[Chunk, Chunk]], kind: int, activation_bytes: float) -> list[Pairs]:
    before, after = ends.value
    handed = handed_tensors(before, after, kind, activation_bytes)
    if kind == F:
        one, two = before, after
    else:
        one, two = after, before
    amounts: dict[tuple[int, int], float] = {}
    if before.mesh == after.mesh and all(_same(h) for h in handed):
        size = sum(largest_bytes(h, before.mesh) for h in handed)
        ranks = np.arange(before.mesh.size)
        pairs = np.stack([one.first_device + ranks, two.first_device + ranks], axis=1)
        return [Pairs(pairs, size, _copies(handed, before.mesh))] if size else []
    for h in handed:
        for piece in pieces(h, one.mesh, two.mesh, kind == F):
            key = (one.first_device + piece.source, two.first_device + piece.target)
            numel = np.prod([length for _, length in piece.box], dtype=np.int64) if piece.box else 1
            amounts[key] = amounts.get(key, 0.0) + float(numel) * h.element_bytes
    by_size: dict[float, list[tuple[int, int]]] = {}
    for pair, size in amounts.items():
        by_size.setdefault(size, []).append(pair)
    return [Pairs(np.array(pairs), size) for size, pairs in sorted(by_size.items())]


def _copies(handed: Sequence[Handed], mesh: Mesh) -> tuple[str, ...]:
    """Axes of tensor parallelism along which ranks hold the same of all that is handed over."""
    tensor = named(mesh.names, "tp", "tq")
    held = zip(mesh.axes, *(h.before for h in handed), strict=True)
    return tuple(
        name for (name, size), *placements in held
        if name in tensor and size > 1 and all(isinstance(p, Replicate) for p in placements)
    )  # fmt: skip


def _same(handed: Handed) -> bool:
    names = dict(zip(handed.dims_after, handed.dims_before, strict=True))
    renamed = tuple(Shard(names[p.dim]) if isinstance(p, Shard) else p for p in handed.after)
    return renamed == handed.before


def largest_bytes(handed: Handed, mesh: Mesh) -> float:
    origin = (0,) * len(mesh.axes)
    sizes = [
        local_chunk(dim, size, handed.before, mesh, origin)[1]
        for dim, size in zip(handed.dims_before, handed.shape, strict=True)
    ]
    return float(np.prod(sizes, dtype=np.int64)) * handed.element_bytes


def _boxes(
    dims: tuple[str, ...], shape: tuple[int, ...], layout: Layout, mesh: Mesh
) -> list[tuple[tuple[int, int], ...]]:
    return [
        tuple(local_chunk(dim, size, layout, mesh, tuple(c)) for dim, size in zip(dims, shape, strict=True))
        for c in mesh.coordinates().tolist()
    ]


@lru_cache(maxsize=256)
def pieces(handed: Handed, source_mesh: Mesh, target_mesh: Mesh, is_forward: bool) -> tuple[Piece, ...]:
    """Every piece that a receiver needs, from a rank that holds it."""
    if is_forward:
        have = _boxes(handed.dims_before, handed.shape, handed.before, source_mesh)
        want = _boxes(handed.dims_after, handed.shape, handed.after, target_mesh)
    else:
        have = _boxes(handed.dims_after, handed.shape, handed.after, source_mesh)
        want = _boxes(handed.dims_before, handed.shape, handed.before, target_mesh)
    holders: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for rank, box in enumerate(have):
        holders.setdefault(box, []).append(rank)
    turn = {box: itertools.cycle(ranks) for box, ranks in holders.items()}
    cut_pieces = []
    for target, need in enumerate(want):
        for box in holders:
            common = tuple((max(a, c), min(a + b, c + d) - max(a, c)) for (a, b), (c, d) in zip(box, need, strict=True))
            if all(length > 0 for _, length in common):
                cut_pieces.append(Piece(next(turn[box]), target, common))
    return tuple(cut_pieces)
