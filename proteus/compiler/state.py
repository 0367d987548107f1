"""Parameters, gradients and optimizer state: what is kept where, what is reduced when.

From a parameter's gradient layout and the memory configs of the tree follow
all collectives of data parallelism, nothing is listed by strategy name::

    gradient is P on the data axes D, kept as S(Z) of them   reduce
    Z empty            (DDP)                                 all_reduce over D
    Z = D              (ZeRO, FSDP)                          reduce_scatter over Z
    Z part of D        (hybrid shard)                        reduce_scatter over Z, all_reduce over D - Z

    parameter kept as S(Z)        (ZeRO-3, FSDP)   all_gather before each use
    optimizer only kept as S(Z)   (ZeRO-1, 2)      all_gather after the update

A gradient that is partial over tensor axes (norms under sequence parallelism)
is summed over those first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from proteus.compiler.chain import Link
from proteus.compiler.layout import Layout
from proteus.compiler.program import BlockProgram, Parameter
from proteus.mesh import Mesh
from proteus.placement import Partial, Replicate, Shard
from proteus.strategy.config import Memory, NodeConfig, TensorRole

#: axes whose gradient sums are small and come before the data-parallel reduction
TENSOR_AXES = ("tp", "tq")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterState:
    """How one parameter of a block is kept and its gradient reduced.

    Parameters
    ----------
    numel
        Elements of the largest local shard, as the computation cuts it.
    tensor_axes, data_axes
        Axes over which its gradient is a partial sum.
    kept
        Per tensor role the axes that cut it while it is not in use.
    """

    parameter: Parameter
    numel: int
    tensor_axes: tuple[str, ...]
    data_axes: tuple[str, ...]
    kept: Mapping[TensorRole, tuple[str, ...]]
    offloaded: frozenset[TensorRole]

    def parts(self, role: TensorRole, mesh: Mesh) -> int:
        return mesh.degree(self.kept[role])

    @property
    def reduce_axes(self) -> tuple[str, ...]:
        """The axes that the reduction scatters over."""
        return self.kept["gradient"] or self.kept["optimizer"]


def is_held(state: ParameterState, links: Iterable[Link]) -> bool:
    """Whether the parameter takes memory of its own: a tied copy beside its owner does not."""
    path = state.parameter.tied_to
    return path is None or not any(
        path == f"{link.run.block.path(link.copy)}.{p.name}" for link in links for p in link.program.parameters if not p.tied_to
    )


def partial_axes(layout: Layout, mesh: Mesh) -> tuple[str, ...]:
    return tuple(name for name, p in zip(mesh.names, layout, strict=True) if isinstance(p, Partial))


def local_numel(program: BlockProgram, value: int) -> int:
    """Elements of the largest shard of a value."""
    layout = program.values[value].layout
    sizes = []
    for dim in program.dims(value):
        size = program.sizes[dim]
        for axis, placement in enumerate(layout):
            if isinstance(placement, Shard) and placement.dim == dim:
                size = -(-size // program.mesh.shape[axis])
        sizes.append(size)
    return math.prod(sizes)


def link_states(link: Link) -> tuple[ParameterState, ...]:
    """The parameters of a link, in the order of the block."""
    program = link.program
    used: dict[str, NodeConfig] = {}
    for op in program.block.ops:
        for operand in op.inputs:
            if program.block.tensors[operand.tensor].kind == "parameter":
                used.setdefault(operand.tensor, link.run.config(op))
    return tuple(_state(program, parameter, used[parameter.name]) for parameter in program.parameters)


def _state(program: BlockProgram, parameter: Parameter, config: NodeConfig) -> ParameterState:
    mesh = program.mesh
    whole = {name for name, p in zip(mesh.names, parameter.layout, strict=True) if isinstance(p, Replicate)}
    partial = partial_axes(parameter.grad_layout, mesh)
    memory: Mapping[TensorRole, Memory] = config.memory or {}
    kept: dict[TensorRole, tuple[str, ...]] = {}
    for role in ("parameter", "gradient", "optimizer"):
        axes = memory[role].axes if role in memory else ()  # type: ignore[index]
        kept[role] = tuple(n for n in mesh.names if n in axes and n in whole and mesh.degree(n) > 1)  # type: ignore[index]
    return ParameterState(
        parameter=parameter,
        numel=local_numel(program, parameter.value),
        tensor_axes=tuple(n for n in partial if n in TENSOR_AXES and mesh.degree(n) > 1),
        data_axes=tuple(n for n in partial if n not in TENSOR_AXES and mesh.degree(n) > 1),
        kept=kept,
        offloaded=frozenset(role for role, m in memory.items() if m.offload),
    )


@lru_cache(maxsize=4096)
def _cached(key: _LinkKey) -> tuple[ParameterState, ...]:
    return link_states(key.link)


class _LinkKey:
    """Links with one program and equal configs share their states."""

    __slots__ = ("key", "link")

    def __init__(self, link: Link) -> None:
        self.link = link
        self.key = (id(link.program), link.run.key())

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _LinkKey) and other.key == self.key and other.link.program is self.link.program


def states(link: Link) -> tuple[ParameterState, ...]:
    """:func:`link_states`, remembered."""
    return _cached(_LinkKey(link))
