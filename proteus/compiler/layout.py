"""Layouts: how every tensor of an op lies on the mesh, from the op's cut.

A *cut* says for every mesh axis which dim of the op it divides (or none).
The layouts of all operands, forward and backward, follow from the cut and
the op's iteration space alone:

    axis cuts dim d            operand has d      operand lacks d
    input                      S(d)               R
    output, d parallel         S(d)               R    (the same on every rank)
    output, d reduction        -                  P(sum), P(max) for a maximum
    gradient of an output      S(d)               R if d is a reduction, else P(sum)
    gradient of an input       S(d)               P(sum)

The last two rows are why tensor parallelism needs a reduction in the backward
of its first matmul, and data parallelism one for every weight.
"""

from __future__ import annotations

from collections.abc import Mapping

from proteus.mesh import Mesh
from proteus.model.graph import Block, Op, Operand, OpKind, Role
from proteus.placement import Partial, Placement, Replicate, Shard, chunk

Layout = tuple[Placement, ...]
Cut = tuple[str | None, ...]


def show(layout: Layout, mesh: Mesh) -> str:
    """A layout for people: ``dp:S(batch) tp:P(sum)``; replicated axes are left out.

    >>> show((Shard("batch"), Replicate()), Mesh((("dp", 2), ("tp", 2))))
    'dp:S(batch)'
    """
    parts = [f"{name}:{p!r}" for name, p in zip(mesh.names, layout, strict=True) if not isinstance(p, Replicate)]
    return " ".join(parts) or "R"


def _own_dim(block: Block, op: Op, operand: Operand, cut_dim: str) -> str | None:
    """The tensor's own name of the dim that the op calls `cut_dim`; None when it lacks it."""
    pairs = list(zip(block.tensors[operand.tensor].dims, operand.dims, strict=True))
    derived = block.derived_of(op)
    for tensor_dim, index in pairs:
        if index == cut_dim or cut_dim in derived.get(index, ()):
            return tensor_dim
    return None


def input_layout(block: Block, op: Op, operand: Operand, cut: Cut) -> Layout:
    """What the op needs of an input."""
    return tuple(_shard_or(block, op, operand, dim, Replicate()) for dim in cut)


def output_layout(block: Block, op: Op, operand: Operand, cut: Cut) -> Layout:
    """What the op makes of an output."""
    reduce = Partial("max") if op.kind is OpKind.MAX else Partial("sum")
    return tuple(
        _shard_or(block, op, operand, dim, reduce if dim and op.dims[dim].role is Role.REDUCTION else Replicate())
        for dim in cut
    )


def output_grad_layout(block: Block, op: Op, operand: Operand, cut: Cut) -> Layout:
    """What the backward of the op needs of an output's gradient."""
    return tuple(
        _shard_or(
            block,
            op,
            operand,
            dim,
            Replicate() if dim is None or op.dims[dim].role is Role.REDUCTION else Partial("sum"),
        )
        for dim in cut
    )


def input_grad_layout(block: Block, op: Op, operand: Operand, cut: Cut) -> Layout:
    """What the backward of the op makes of an input's gradient."""
    return tuple(_shard_or(block, op, operand, dim, Replicate() if dim is None else Partial("sum")) for dim in cut)


def _shard_or(block: Block, op: Op, operand: Operand, cut_dim: str | None, default: Placement) -> Placement:
    if cut_dim is None:
        return default
    tensor_dim = _own_dim(block, op, operand, cut_dim)
    return default if tensor_dim is None else Shard(tensor_dim)


def renamed(layout: Layout, dims: tuple[str, ...], to: tuple[str, ...]) -> Layout:
    """The layout of a tensor that another block knows by other dim names.

    >>> renamed((Shard("channels"), Replicate()), ("batch", "channels"), ("batch", "in_channels"))
    (S(in_channels), R)
    """
    names = dict(zip(dims, to, strict=True))
    return tuple(Shard(names[p.dim]) if isinstance(p, Shard) else p for p in layout)


def gradient_of(layout: Layout) -> Layout:
    """The layout in which a tensor's gradient is handed over: partial terms are summed first."""
    return tuple(Replicate() if isinstance(p, Partial) else p for p in layout)


def local_chunk(dim: str, size: int, layout: Layout, mesh: Mesh, coordinate: tuple[int, ...]) -> tuple[int, int]:
    """(offset, length) of the chunk of `dim` that the rank at `coordinate` holds."""
    offset, length = 0, size
    for axis, placement in enumerate(layout):
        if isinstance(placement, Shard) and placement.dim == dim:
            start, length = chunk(length, mesh.shape[axis], coordinate[axis])
            offset += start
    return offset, length


def largest_shape(dims: tuple[str, ...], sizes: Mapping[str, int], layout: Layout, mesh: Mesh) -> tuple[int, ...]:
    """Shape of the largest shard, that of the rank at the origin."""
    origin = (0,) * len(layout)
    return tuple(local_chunk(dim, sizes[dim], layout, mesh, origin)[1] for dim in dims)
