"""First pass: from the configs of a few nodes to the cut of every op.

Top-down, an op takes what its nearest ancestor says.  What is not set flows
along the data: on an axis that no config speaks of, an op takes the cut with
which its input arrives, as long as it can work on chunks of that dim.
"""

from __future__ import annotations

from collections.abc import Mapping

from proteus.compiler.layout import Cut, Layout, output_layout
from proteus.errors import StrategyError
from proteus.mesh import Mesh
from proteus.model.graph import Block, Op, Role
from proteus.placement import Replicate, Shard
from proteus.strategy.config import NodeConfig


def propagate(
    block: Block,
    configs: Mapping[str, NodeConfig],
    mesh: Mesh,
    sizes: Mapping[str, int],
    inputs: tuple[Layout, ...],
) -> dict[str, Cut]:
    """The cut of every op of a block.

    Parameters
    ----------
    configs
        What the tree says for every op name.
    sizes
        Sizes of the block's dims for a whole micro-batch.
    inputs
        Layouts in which the block's inputs arrive.

    Raises
    ------
    StrategyError
        Two inputs of an op arrive cut along different dims by one axis and
        no config decides; an axis cuts a dim into more parts than it has.
    """
    whole: Layout = tuple(Replicate() for _ in mesh.axes)
    layouts: dict[str, Layout] = dict(zip(block.inputs, inputs, strict=False))
    writers: dict[str, str] = {}
    cuts: dict[str, Cut] = {}
    for op in block.ops:
        config = configs[op.name]
        cut = _configured(block, op, config, mesh)
        for axis in range(len(mesh.axes)):
            if cut[axis] is None and not _is_left_whole(config, op):
                cut[axis] = _arriving(block, op, axis, mesh.names[axis], layouts, writers)
        _check_sizes(block, op, cut, mesh, sizes)
        cuts[op.name] = tuple(cut)
        for operand in op.outputs:
            layouts[operand.tensor] = output_layout(block, op, operand, cuts[op.name])
            writers[operand.tensor] = op.name
        for operand in op.inputs:
            layouts.setdefault(operand.tensor, whole)
    _check_derived(block, cuts, mesh)
    return cuts


def _configured(block: Block, op: Op, config: NodeConfig, mesh: Mesh) -> list[str | None]:
    """Axis by axis, the first configured dim that the op has and can divide."""
    cut: list[str | None] = [None] * len(mesh.axes)
    for dim, axes in (config.partition or {}).items():
        if dim not in op.dims or op.dims[dim].role is Role.INDIVISIBLE or dim in block.derived_of(op):
            continue
        for name in axes:
            if name in mesh.names and cut[mesh.names.index(name)] is None:
                cut[mesh.names.index(name)] = dim
    return cut


def _is_left_whole(config: NodeConfig, op: Op) -> bool:
    """Whether the tree says that a dim of this op stays whole: then nothing flows in along the data."""
    return any(dim in op.dims and axes == () for dim, axes in (config.partition or {}).items())


def _arriving(
    block: Block, op: Op, axis: int, name: str, layouts: Mapping[str, Layout], writers: Mapping[str, str]
) -> str | None:
    writer_of_dim: dict[str, str] = {}
    for operand in op.inputs:
        tensor = block.tensors[operand.tensor]
        layout = layouts.get(operand.tensor)
        if tensor.kind != "activation" or layout is None:
            continue
        placement = layout[axis]
        if not isinstance(placement, Shard) or placement.dim not in tensor.dims:
            continue
        dim = operand.dims[tensor.dims.index(placement.dim)]
        if dim in block.derived_of(op):
            continue  # it follows what cuts batch and seq, which the other operands bring
        if op.dims[dim].role is not Role.INDIVISIBLE and not (op.dims[dim].role is Role.REDUCTION and not _sums(op)):
            writer_of_dim.setdefault(dim, writers.get(operand.tensor, "the block before"))
    if len(writer_of_dim) > 1:
        (one, from_one), (two, from_two) = list(writer_of_dim.items())[:2]
        raise StrategyError(
            f"{op.name}: axis {name} arrives cutting {one} from {from_one} and {two} from {from_two}; "
            f"set the partition of {op.name} (or of one of the two)"
        )
    return next(iter(writer_of_dim), None)


def _sums(op: Op) -> bool:
    """Whether a cut reduction of this op is worth keeping: its operand would have to be gathered else."""
    return any(dim.role is Role.REDUCTION for dim in op.dims.values())


def _check_sizes(block: Block, op: Op, cut: list[str | None], mesh: Mesh, sizes: Mapping[str, int]) -> None:
    parts: dict[str, int] = {}
    for axis, dim in enumerate(cut):
        if dim is not None:
            parts[dim] = parts.get(dim, 1) * mesh.shape[axis]
    followed = {dim for sources in block.derived_of(op).values() for dim in sources}
    for dim, degree in parts.items():
        size = sizes.get(dim, op.dims[dim].size)
        axes = "×".join(mesh.names[a] for a, d in enumerate(cut) if d == dim)
        if degree > size:
            raise StrategyError(f"{op.name}: {axes} cuts {dim}={size} into {degree} parts; possible: 1 to {size}")
        if dim in followed and size % degree:
            possible = ", ".join(str(n) for n in range(1, size + 1) if size % n == 0)
            raise StrategyError(
                f"{op.name}: {axes} cuts {dim}={size} into {degree} unequal parts; possible: {possible}"
            )


def _check_derived(block: Block, cuts: Mapping[str, Cut], mesh: Mesh) -> None:
    """Slots are filled in the order of a rank's own tokens: dispatch and combine must cut tokens alike."""
    first: tuple[str, Cut] | None = None
    for op in block.ops:
        derived = block.derived_of(op)
        if not derived:
            continue
        sources = {dim for each in derived.values() for dim in each}
        op_dims = tuple(dim if dim in sources else None for dim in cuts[op.name])
        first_op, there = first = first or (op.name, op_dims)
        if op_dims != there:
            axis = next(a for a, pair in enumerate(zip(op_dims, there, strict=True)) if pair[0] != pair[1])
            raise StrategyError(
                f"{op.name}: axis {mesh.names[axis]} cuts {op_dims[axis] or 'no tokens'}, in {first_op} "
                f"{there[axis] or 'no tokens'}; slots are filled and read in one order, give both one partition"
            )
