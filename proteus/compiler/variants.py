"""Ranks of one stage whose shards differ in size.

Where a size does not divide, the last ranks hold less.  Ranks with equal
local sizes everywhere are one variant; when everything divides a stage has
exactly one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from proteus.compiler.chain import Chunk, op_global_sizes, op_sizes
from proteus.compiler.program import BlockProgram, Compute
from proteus.compiler.rank_plan import RankPlan
from proteus.identity import ById


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


def variants(chunks: Sequence[Chunk], plans: Sequence[RankPlan], num_ranks: int) -> Variants:
    """The variants of all ranks, pipeline rank by pipeline rank."""
    of_rank = np.zeros(num_ranks, np.int64)
    plan_of: list[int] = []
    coordinate_of: list[tuple[int, ...]] = []
    for plan in plans:
        rank_chunks = [chunk for chunk in chunks if chunk.rank == plan.rank]
        mesh, first = rank_chunks[0].mesh, rank_chunks[0].first_device
        programs = {id(link.program): link.program for chunk in rank_chunks for link in chunk.links}
        uneven = sorted({axis for program in programs.values() for axis in _uneven(ById(program))})
        coordinates = mesh.coordinates()
        reduced = np.zeros_like(coordinates)
        reduced[:, uneven] = coordinates[:, uneven]
        if uneven:
            keys, of = np.unique(reduced, axis=0, return_inverse=True)
            signatures: dict[tuple[object, ...], int] = {}
            number = np.empty(len(keys), np.int64)
            for row, key in enumerate(map(tuple, keys.tolist())):
                signature = tuple(_cached_sizes(ById(program), key) for program in programs.values())
                if signature not in signatures:
                    signatures[signature] = len(plan_of)
                    plan_of.append(plan.rank)
                    coordinate_of.append(key)
                number[row] = signatures[signature]
            of_rank[first : first + mesh.size] = number[of.ravel()]
        else:
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
    uneven_axes: set[int] = set()
    for compute in _computes(program):
        sizes = op_global_sizes(program, compute.op)
        derived = program.block.derived_of(compute.op)
        for dim, size in sizes.items():
            axes = [a for a, d in enumerate(compute.cut) if d is not None and (d == dim or d in derived.get(dim, ()))]
            if size % math.prod(program.mesh.shape[a] for a in axes):
                uneven_axes.update(axes)
    return uneven_axes


@lru_cache(maxsize=512)
def _uneven(key: ById[BlockProgram]) -> frozenset[int]:
    return frozenset(_uneven_axes(key.value))


@lru_cache(maxsize=8192)
def _cached_sizes(key: ById[BlockProgram], coordinate: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    return _sizes(key.value, coordinate)
