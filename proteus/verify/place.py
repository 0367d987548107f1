"""Where a rank stands in the iteration space of an op: what of every dim is its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from proteus.compiler.chain import op_global_sizes
from proteus.compiler.layout import Cut
from proteus.compiler.program import BlockProgram
from proteus.model.graph import Op
from proteus.placement import chunk


@dataclass(frozen=True, slots=True)
class Place:
    """By dim of the op: first index, number of indices, and the size of the whole dim."""

    start: Mapping[str, int]
    length: Mapping[str, int]
    total: Mapping[str, int]

    def shape(self, dims: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(self.length[dim] for dim in dims)


def place_of(program: BlockProgram, op: Op, cut: Cut, coordinate: tuple[int, ...]) -> Place:
    """The chunk of every dim of `op` that the rank at `coordinate` computes."""
    derived = program.block.derived_of(op)
    total = op_global_sizes(program, op)
    starts, lengths = {}, {}
    for dim in op.dims:
        start, length = 0, total[dim]
        for axis, cut_dim in enumerate(cut):
            if cut_dim is not None and (cut_dim == dim or cut_dim in derived.get(dim, ())):
                offset, length = chunk(length, program.mesh.shape[axis], coordinate[axis])
                start += offset
        starts[dim], lengths[dim] = start, length
    return Place(starts, lengths, total)
