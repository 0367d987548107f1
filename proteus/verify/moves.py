"""Collectives and local moves on the shards of one group of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from proteus.compiler.layout import Layout, local_chunk
from proteus.compiler.redistribute import Step
from proteus.mesh import Mesh

Coordinate = tuple[int, ...]


def shard(whole: Tensor, dims: Sequence[str], layout: Layout, mesh: Mesh, coordinate: Coordinate) -> Tensor:
    """The part of a whole tensor that the rank at `coordinate` holds in `layout`."""
    for axis, dim in enumerate(dims):
        start, length = local_chunk(dim, whole_size(whole, axis), layout, mesh, coordinate)
        whole = whole.narrow(axis, start, length)
    return whole


def whole_size(x: Tensor, axis: int) -> int:
    return int(x.shape[axis])


def _part(
    x: Tensor,
    dim: str,
    dims: Sequence[str],
    sizes: Mapping[str, int],
    step: Step,
    mesh: Mesh,
    at: Coordinate,
    base: Coordinate,
) -> Tensor:
    """What the rank at `at` gets along `dim` of a shard that the rank at `base` holds before the step."""
    start, _ = local_chunk(dim, sizes[dim], step.before, mesh, base)
    first, length = local_chunk(dim, sizes[dim], step.after, mesh, at)
    return x.narrow(dims.index(dim), first - start, length)


def moved(
    step: Step,
    dims: Sequence[str],
    sizes: Mapping[str, int],
    mesh: Mesh,
    coordinates: Sequence[Coordinate],
    shards: Sequence[Tensor],
) -> list[Tensor]:
    """The shards of a group after a step.

    Parameters
    ----------
    dims, sizes
        Dims of the tensor and their whole sizes.
    coordinates, shards
        Of every rank of the group, in mesh order (one rank for a local step).
    """
    match step.kind:
        case "all_reduce":
            total = reduced(shards, step.reduce or "sum")
            return [total.clone() for _ in shards]
        case "reduce_scatter":
            assert step.dim is not None
            total = reduced(shards, step.reduce or "sum")
            return [_part(total, step.dim, dims, sizes, step, mesh, c, c).clone() for c in coordinates]
        case "all_gather":
            assert step.dim is not None
            whole = torch.cat(list(shards), dim=dims.index(step.dim))
            return [whole.clone() for _ in shards]
        case "all_to_all":
            return [_exchanged(step, dims, sizes, mesh, c, coordinates, shards) for c in coordinates]
        case "slice":
            assert step.dim is not None
            return [_part(x, step.dim, dims, sizes, step, mesh, c, c) for x, c in zip(shards, coordinates, strict=True)]
        case "mask":
            first = [all(c[axis] == 0 for axis in step.axes) for c in coordinates]
            return [x if keeps else torch.zeros_like(x) for x, keeps in zip(shards, first, strict=True)]


def _exchanged(
    step: Step,
    dims: Sequence[str],
    sizes: Mapping[str, int],
    mesh: Mesh,
    at: Coordinate,
    coordinates: Sequence[Coordinate],
    shards: Sequence[Tensor],
) -> Tensor:
    """The shard of the rank at `at` after an all_to_all: a piece of every rank's, each put in its place."""
    mine = [local_chunk(dim, sizes[dim], step.after, mesh, at) for dim in dims]
    whole = shards[0].new_empty([length for _, length in mine])
    for base, x in zip(coordinates, shards, strict=True):
        place = whole
        for axis, (dim, (first, length)) in enumerate(zip(dims, mine, strict=True)):
            start, held = local_chunk(dim, sizes[dim], step.before, mesh, base)
            low, high = max(first, start), min(first + length, start + held)
            size = max(0, high - low)
            x = x.narrow(axis, low - start, size) if size else x.narrow(axis, 0, 0)
            place = place.narrow(axis, low - first, size) if size else place.narrow(axis, 0, 0)
        place.copy_(x)
    return whole


def reduced(shards: Sequence[Tensor], op: str) -> Tensor:
    """The sum or maximum of the shards of a group."""
    stacked = torch.stack(list(shards))
    return stacked.sum(0) if op == "sum" else stacked.amax(0)
