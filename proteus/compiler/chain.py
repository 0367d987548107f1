"""The chain of block programs of every pipeline chunk.

Copies of a block with equal configs share one program, compiled once.  The
layout in which a tensor is handed from copy to copy is the one that the next
copy needs first, so that a change of layout is paid once, where it is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from proteus.compiler.block import build_block
from proteus.compiler.layout import Cut, Layout, gradient_of, input_layout, output_layout, renamed
from proteus.compiler.program import BlockProgram
from proteus.compiler.propagate import propagate
from proteus.costs.precision import Precision
from proteus.errors import StrategyError, context
from proteus.frameworks import Framework
from proteus.identity import ById, MemoKey
from proteus.mesh import Mesh
from proteus.model.graph import BATCH, Block, Op
from proteus.placement import Replicate
from proteus.strategy.config import Stage
from proteus.strategy.frozen import trained_parameters
from proteus.strategy.tree import BlockRun, StrategyTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """`count` neighbouring copies of a block that share a program.

    `first` is the place of the first copy in the whole chain of blocks,
    `copy` its number among the copies of its block.
    """

    program: BlockProgram
    run: BlockRun
    first: int
    copy: int
    count: int

    def path(self, index: int) -> str:
        return self.run.block.path(self.copy + index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """What one pipeline chunk runs, in model order."""

    index: int
    rank: int
    mesh: Mesh
    first_device: int
    links: tuple[Link, ...]

    @property
    def num_copies(self) -> int:
        return sum(link.count for link in self.links)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for chunks that run the same; programs are made once and distinguished by the object."""
        links = tuple((id(k.program), k.run.path, k.run.key, k.copy, k.count) for k in self.links)
        return self.index, self.first_device, self.mesh, links


@dataclass(frozen=True, slots=True)
class _Flow:
    """How the tensors of a block lie: its cuts, what its first ops need, what comes out."""

    cuts: Mapping[str, Cut]
    inputs: tuple[Layout, ...]
    natural: tuple[Layout, ...]


@lru_cache(maxsize=512)
def _flow(
    block: ById[Block], configs: MemoKey[BlockRun], mesh: Mesh, batch: int, arriving: tuple[Layout, ...]
) -> _Flow:
    program_block = block.value
    cuts = propagate(program_block, configs.value.configs, mesh, block_sizes(program_block, batch), arriving)
    inputs = tuple(
        _first_need(program_block, cuts, name, layout)
        for name, layout in zip(program_block.inputs, arriving, strict=True)
    )
    return _Flow(cuts, inputs, _natural(program_block, cuts, inputs))


@lru_cache(maxsize=512)
def _program(
    block: ById[Block],
    configs: MemoKey[BlockRun],
    mesh: Mesh,
    batch: int,
    arriving: tuple[Layout, ...],
    inputs: tuple[Layout, ...],
    outputs: tuple[Layout, ...],
    has_input_grad: bool,
    element_bytes: float,
    gathered_bytes: float | None,
    fused_attention: bool,
    regathers: bool,
    stops_early: bool,
) -> BlockProgram:
    return build_block(
        block.value,
        _flow(block, configs, mesh, batch, arriving).cuts,
        configs.value.configs,
        mesh,
        block_sizes(block.value, batch),
        inputs,
        outputs,
        has_input_grad=has_input_grad,
        element_bytes=element_bytes,
        gathered_bytes=gathered_bytes,
        fused_attention=fused_attention,
        regathers=regathers,
        stops_early=stops_early,
    )


def block_sizes(block: Block, batch: int) -> dict[str, int]:
    """Sizes of the block's dims when `batch` samples pass together."""
    grown = {BATCH, *(dim for dim, of in block.derived.items() if BATCH in of)}
    return {dim: size * batch if dim in grown else size for dim, size in block.dims.items()}


def _first_need(block: Block, cuts: Mapping[str, Cut], name: str, arriving: Layout) -> Layout:
    """The layout that the first op reading a carried tensor needs."""
    for op in block.ops:
        for operand in op.inputs:
            if operand.tensor == name:
                return input_layout(block, op, operand, cuts[op.name])
    return gradient_of(arriving)


def _natural(block: Block, cuts: Mapping[str, Cut], handed: tuple[Layout, ...]) -> tuple[Layout, ...]:
    """The layouts in which the block's outputs come out."""
    made: dict[str, Layout] = dict(zip(block.inputs, handed, strict=True))
    for op in block.ops:
        for operand in op.outputs:
            made[operand.tensor] = output_layout(block, op, operand, cuts[op.name])
    return tuple(made[name] for name in block.outputs)


def _across(
    names: tuple[str, ...], block: Block, layouts: tuple[Layout, ...], other_names: tuple[str, ...], other_block: Block
) -> tuple[Layout, ...]:
    """Layouts of tensors handed over between blocks, in the dim names of `other_block`."""
    return tuple(
        renamed(layout, block.tensors[name].dims, other_block.tensors[other_name].dims)
        for layout, name, other_name in zip(layouts, names, other_names, strict=True)
    )


@dataclass(slots=True)
class _Part:
    """Copies that were propagated alike, before their outputs are known."""

    run: BlockRun
    chunk: int
    first: int
    copy: int
    count: int
    arriving: tuple[Layout, ...]
    inputs: tuple[Layout, ...]
    natural: tuple[Layout, ...]
    cuts: Mapping[str, Cut]


def framework_chain(tree: StrategyTree, framework: Framework, precision: Precision) -> tuple[Chunk, ...]:
    """:func:`chain` as a framework runs it."""
    return chain(
        tree,
        element_bytes=precision.activation_bytes,
        gathered_bytes=gathered_bytes(framework, precision),
        fused_attention=framework.flash,
        regathers=framework.regathers,
        stops_early=framework.stops_early,
    )


def gathered_bytes(framework: Framework, precision: Precision) -> float | None:
    """Bytes of an element that is gathered for a quantised GEMM; None where it is gathered before.

    Scales by row are found after it (torchao's float8_tensor_parallel.py has one for the whole tensor).

    >>> from proteus import frameworks
    >>> from proteus.costs import precision
    >>> titan = frameworks.load("torchtitan, compile=true")
    >>> [gathered_bytes(titan, precision.load(name)) for name in ("fp8", "fp8-rowwise", "bf16")]
    [1.0, None, None]
    """
    if not framework.gathers_quantised or precision.row_scales or precision.compute == precision.activation:
        return None
    return min(precision.compute_bytes, precision.activation_bytes)


def chain(
    tree: StrategyTree,
    *,
    element_bytes: float,
    gathered_bytes: float | None = None,
    fused_attention: bool,
    regathers: bool = True,
    stops_early: bool = False,
) -> tuple[Chunk, ...]:
    """The programs of every chunk of the tree, in model order."""
    batch = tree.samples_per_micro_batch
    _check_stages(tree)
    parts = _parts(tree, batch)
    links: list[list[Link]] = [[] for _ in tree.stages]
    has_trained = False  # in a copy before
    for number, part in enumerate(parts):
        after = parts[number + 1] if number + 1 < len(parts) else None
        mesh = tree.stages[part.chunk].mesh
        if after is None:  # the loss stays as it is: only a log reads its sum
            handed = part.natural
        elif tree.stages[after.chunk].mesh == mesh:
            handed = _across(
                after.run.block.inputs, after.run.block, after.inputs, part.run.block.outputs, part.run.block
            )
        else:
            handed = tuple(gradient_of(layout) for layout in part.natural)
        block = part.run.block
        same = _across(block.inputs, block, part.inputs, block.outputs, block) if part.count > 1 else handed
        pieces = [(part.count, handed)] if same == handed else [(part.count - 1, same), (1, handed)]
        is_trained = bool(trained_parameters(block, part.run.configs))
        if is_trained and not has_trained:
            pieces = _first_apart(pieces)
        done = 0
        for count, outputs in pieces:
            with context(part.run.path):
                program = _program(
                    ById(part.run.block),
                    MemoKey(part.run, part.run.key),
                    mesh,
                    batch,
                    part.arriving,
                    part.inputs,
                    outputs,
                    has_trained,
                    element_bytes,
                    gathered_bytes,
                    fused_attention,
                    regathers,
                    stops_early,
                )
            links[part.chunk].append(
                Link(program=program, run=part.run, first=part.first + done, copy=part.copy + done, count=count)
            )
            done += count
            has_trained = has_trained or is_trained
    if not has_trained:
        raise StrategyError(f"{tree.model.name}: every parameter is frozen; leave one trained (frozen=False)")
    return tuple(
        Chunk(index=i, rank=stage.rank, mesh=stage.mesh, first_device=stage.first_device, links=tuple(links[i]))
        for i, stage in enumerate(tree.stages)
    )


def _first_apart(pieces: list[tuple[int, tuple[Layout, ...]]]) -> list[tuple[int, tuple[Layout, ...]]]:
    """Copies, the first of which is separate: the gradient of its input is not needed."""
    (count, outputs), *rest = pieces
    return [(1, outputs), (count - 1, outputs), *rest] if count > 1 else pieces


def _check_stages(tree: StrategyTree) -> None:
    """Chunks of one pipeline rank run on the same devices, in one mesh."""
    first: dict[int, tuple[int, Stage]] = {}
    for number, stage in enumerate(tree.stages):
        first_number, same = first.setdefault(stage.rank, (number, stage))
        if (stage.mesh, stage.first_device) != (same.mesh, same.first_device):
            raise StrategyError(
                f"chunks {first_number} and {number} are both on pipeline rank {stage.rank}, with {same.mesh!r} from "
                f"device {same.first_device} and {stage.mesh!r} from device {stage.first_device}; give both the same"
            )


def _parts(tree: StrategyTree, batch: int) -> list[_Part]:
    parts: list[_Part] = []
    position = 0
    arriving: tuple[Layout, ...] = ()
    mesh_before: Mesh | None = None
    before: Block | None = None
    for run in tree.runs():
        mesh = tree.stages[run.chunk].mesh
        if mesh_before is not None and mesh != mesh_before:
            whole: Layout = tuple(Replicate() for _ in mesh.axes)
            arriving = tuple(whole for _ in run.block.inputs)
        mesh_before = mesh
        block, left, copy = run.block, len(run.copies), run.copies.start
        configs = MemoKey(run, run.key)
        if len(block.inputs) != len(arriving):
            raise StrategyError(f"{run.path}: takes {len(block.inputs)} tensors, {len(arriving)} are handed over")
        if before is not None:
            arriving = _across(before.outputs, before, arriving, block.inputs, block)
        before = block
        while left:
            with context(run.path):
                flow = _flow(ById(block), configs, mesh, batch, arriving)
            inputs, natural = flow.inputs, flow.natural
            last = parts[-1] if parts else None
            # copies whose inputs arrive in another layout but are cut alike are one part
            if (
                last
                and last.run is run
                and last.inputs == inputs
                and last.natural == natural
                and last.cuts == flow.cuts
            ):
                last.count += left
                position, arriving = position + left, natural
                break
            parts.append(
                _Part(
                    run=run, chunk=run.chunk, first=position, copy=copy, count=1, arriving=arriving, inputs=inputs,
                    natural=natural, cuts=flow.cuts,
                )
            )  # fmt: skip
            position, copy, left, arriving = position + 1, copy + 1, left - 1, natural
            if left:
                arriving = _across(block.outputs, block, natural, block.inputs, block)
    return parts


def op_sizes(program: BlockProgram, op: Op, cut: Cut, coordinate: tuple[int, ...]) -> dict[str, int]:
    """Local sizes of an op's dims on the rank at `coordinate`."""
    from proteus.placement import chunk

    derived = program.block.derived_of(op)
    by_op = op_global_sizes(program, op)
    sizes = {}
    for dim in op.dims:
        length = by_op[dim]
        for axis, cut_dim in enumerate(cut):
            if cut_dim == dim or (cut_dim is not None and cut_dim in derived.get(dim, ())):
                length = chunk(length, program.mesh.shape[axis], coordinate[axis])[1]
        sizes[dim] = length
    return sizes


def op_global_sizes(program: BlockProgram, op: Op) -> dict[str, int]:
    """Sizes of an op's dims for a whole micro-batch."""
    sizes = {dim: size.size for dim, size in op.dims.items()}
    for operand in (*op.inputs, *op.outputs):
        for block_dim, dim in zip(program.block.tensors[operand.tensor].dims, operand.dims, strict=True):
            sizes[dim] = program.sizes[block_dim]
    return sizes
