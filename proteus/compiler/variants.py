"""Ranks of one stage whose shards differ in size.

Where a size does not divide, the last ranks hold less.  Ranks with equal
local sizes everywhere are one variant; when everything divides a stage has
exactly one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proteus.cluster import Cluster
from proteus.compiler.chain import Chunk, op_sizes
from proteus.compiler.program import BlockProgram, Compute
from proteus.compiler.rank_plan import RankPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Variants:
    """Variant of every rank, and the plan and a coordinate of every variant.

    Parameters
    ----------
    of_rank
        int64[ranks].
    plan
        Pipeline rank of each variant.
    coordinate
        Mesh coordinate of a rank of each variant.
    """

    of_rank: np.ndarray
    plan: tuple[int, ...]
    coordinate: tuple[tuple[int, ...], ...]


def variants(chunks: Sequence[Chunk], plans: Sequence[RankPlan], cluster: Cluster, num_ranks: int) -> Variants:
    """The variants of all ranks, pipeline rank by pipeline rank."""
    del cluster
    of_rank = np.zeros(num_ranks, np.int64)
    plan_of: list[int] = []
    coordinate_of: list[tuple[int, ...]] = []
    for plan in plans:
        own = [chunk for chunk in chunks if chunk.rank == plan.rank]
        mesh, first = own[0].mesh, own[0].first_device
        programs = {id(link.program): link.program for chunk in own for link in chunk.links}
        uneven = sorted({axis for program in programs.values() for axis in _uneven_axes(program)})
        coordinates = mesh.coordinates()
        reduced = np.zeros_like(coordinates)
        reduced[:, uneven] = coordinates[:, uneven]
        signatures: dict[tuple[object, ...], int] = {}
        cache: dict[tuple[int, ...], int] = {}
        for rank in range(mesh.size) if uneven else ():
            key = tuple(reduced[rank].tolist())
            if key not in cache:
                signature = tuple(_sizes(program, key) for program in programs.values())
                if signature not in signatures:
                    signatures[signature] = len(plan_of)
                    plan_of.append(plan.rank)
                    coordinate_of.append(key)
                cache[key] = signatures[signature]
            of_rank[first + rank] = cache[key]
        if not uneven:
            of_rank[first : first + mesh.size] = len(plan_of)
            plan_of.append(plan.rank)
            coordinate_of.append((0,) * len(mesh.axes))
    return Variants(of_rank=of_rank, plan=tuple(plan_of), coordinate=tuple(coordinate_of))


def _computes(program: BlockProgram) -> list[Compute]:
    return [i for i in program.forward if isinstance(i, Compute)]


def _sizes(program: BlockProgram, coordinate: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(op_sizes(program, c.op, c.cut, coordinate).values()) for c in _computes(program))


def _uneven_axes(program: BlockProgram) -> set[int]:
    """Axes along which some chunk is smaller than another."""
    shape = program.mesh.shape
    last = tuple(size - 1 for size in shape)
    found = set()
    for compute in _computes(program):
        first = op_sizes(program, compute.op, compute.cut, (0,) * len(shape))
        for axis, dim in enumerate(compute.cut):
            if dim is None:
                continue
            end = tuple(last[a] if a == axis or compute.cut[a] is not None else 0 for a in range(len(shape)))
            if op_sizes(program, compute.op, compute.cut, end) != first:
                found.update(a for a, d in enumerate(compute.cut) if d is not None)
    return found
