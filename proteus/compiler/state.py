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
from typing import Literal, TypeVar

from proteus.compiler.chain import Link
from proteus.compiler.layout import Layout
from proteus.compiler.program import BlockProgram, Parameter
from proteus.costs.precision import NF4_BYTES
from proteus.errors import StrategyError
from proteus.identity import MemoKey
from proteus.mesh import Mesh
from proteus.placement import Partial, Replicate, Shard
from proteus.strategy.axes import among_experts, named
from proteus.strategy.config import Memory, NodeConfig, TensorRole

Key = TypeVar("Key")
_K = TypeVar("_K")


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

    def stored_bytes(self, element_bytes: float) -> float:
        """Bytes of the local parameter, at `element_bytes` unless it is quantised."""
        return self.numel * (NF4_BYTES if self.parameter.is_quantised else element_bytes)

    def parts(self, role: TensorRole, mesh: Mesh) -> int:
        return mesh.degree(self.kept[role])

    @property
    def updated_axes(self) -> tuple[str, ...]:
        """Axes over which the update leaves the parameter in pieces that its next use does not expect."""
        if self.parameter.gradient < 0:
            return ()
        return tuple(n for n in self.kept["optimizer"] if n not in self.kept["parameter"])

    @property
    def reduce_axes(self) -> tuple[str, ...]:
        """The axes that the reduction scatters over."""
        return self.kept["gradient"] or self.kept["optimizer"]


StateMoveKind = Literal["all_gather", "reduce_scatter", "all_reduce"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMove:
    """One collective on parameters or gradients.

    Parameters
    ----------
    axes
        Mesh axes of its groups; none for ranks that hold one tied parameter.
    items
        (chunk, link of the chunk, copy of the link, parameter) of all that moves.
    """

    kind: StateMoveKind
    axes: tuple[str, ...]
    items: tuple[tuple[int, int, int, ParameterState], ...] = ()


def gathers(link: Link) -> dict[tuple[str, ...], tuple[ParameterState, ...]]:
    """Parameters that are gathered before each use, by the axes that keep them cut."""
    return _by_key((state.kept["parameter"], state) for state in states(link) if state.kept["parameter"])


def updated(link: Link) -> dict[tuple[str, ...], tuple[ParameterState, ...]]:
    """Parameters that are gathered after their update, by axes (ZeRO-1 and 2)."""
    return _by_key((state.updated_axes, state) for state in states(link) if state.updated_axes)


def reductions(link: Link) -> dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[ParameterState, ...]]:
    """Gradients that are kept cut and reduced every micro-batch, by (data axes, axes kept cut)."""
    return _by_key(
        ((state.data_axes, state.kept["gradient"]), state)
        for state in states(link)
        if state.parameter.gradient >= 0 and state.kept["gradient"] and state.data_axes
    )


def reduction_steps(data: tuple[str, ...], kept: tuple[str, ...]) -> tuple[tuple[StateMoveKind, tuple[str, ...]], ...]:
    """The collectives that reduce a gradient which is partial over `data` and kept cut over `kept`.

    >>> reduction_steps(("dp", "cp"), ("dp",))
    (('reduce_scatter', ('dp',)), ('all_reduce', ('cp',)))
    """
    scatter = tuple(name for name in data if name in kept)
    rest = tuple(name for name in data if name not in kept)
    steps: list[tuple[StateMoveKind, tuple[str, ...]]] = []
    if scatter:
        steps.append(("reduce_scatter", scatter))
    if rest:
        steps.append(("all_reduce", rest))
    return tuple(steps)


#: parameters smaller than this are not worth a gather of their own (DeepSpeed stage3_param_persistence_threshold)
_SMALL_NUMEL = 1e5


def copy_moves(
    link: Link, *, has_gathers: bool, has_reductions: bool, apart: bool = False
) -> list[tuple[StateMove, float]]:
    """Collectives around one phase of one copy: gathers before it, reductions after it; with elements moved.

    Parameters are gathered in one collective, or `apart`: large ones each in its own.
    """
    moves: list[tuple[StateMove, float]] = []
    if has_gathers:
        for axes, every in gathers(link).items():
            for members in _each_apart(every) if apart else (every,):
                items = tuple((0, 0, 0, state) for state in members)
                numel = float(sum(s.numel for s in members))
                moves.append((StateMove(kind="all_gather", axes=axes, items=items), numel))
    if has_reductions:
        for (data, kept), members in reductions(link).items():
            items = tuple((0, 0, 0, state) for state in members)
            numel = float(sum(s.numel for s in members))
            for kind, axes in reduction_steps(data, kept):
                moves.append((StateMove(kind=kind, axes=axes, items=items), numel))
                if kind == "reduce_scatter":
                    numel /= link.program.mesh.degree(axes)
    return moves


def _each_apart(states: tuple[ParameterState, ...]) -> list[tuple[ParameterState, ...]]:
    small = tuple(state for state in states if state.numel < _SMALL_NUMEL)
    large: list[tuple[ParameterState, ...]] = [(state,) for state in states if state.numel >= _SMALL_NUMEL]
    return [*large, small] if small else large


def _by_key(pairs: Iterable[tuple[Key, ParameterState]]) -> dict[Key, tuple[ParameterState, ...]]:
    states_by_key: dict[Key, tuple[ParameterState, ...]] = {}
    for key, state in pairs:
        states_by_key[key] = (*states_by_key.get(key, ()), state)
    return states_by_key


def is_held(state: ParameterState, links: Iterable[Link]) -> bool:
    """Whether the parameter takes memory of its own: a tied copy beside its owner does not."""
    path = state.parameter.tied_to
    return path is None or not any(
        path == f"{link.run.block.path(link.copy)}.{p.name}"
        for link in links
        for p in link.program.parameters
        if not p.tied_to
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
        axes = memory[role].axes if role in memory else ()
        kept[role] = tuple(n for n in mesh.names if n in axes and n in whole and mesh.degree(n) > 1)
    extra = [name for name in kept["gradient"] if name not in kept["optimizer"]]
    if extra and parameter.gradient >= 0:
        raise StrategyError(
            f"{program.block.name}.{parameter.name}: its gradient is kept cut over {extra[0]!r}, its optimizer "
            f"state is not; cut the optimizer state over {', '.join(kept['gradient'])} too"
        )
    # where tensor ranks hold copies of an expert, its sums are as large as those of data parallelism and go with them
    summed = set(named(partial, "tp", "tq")) - set(among_experts(partial, "data"))
    tensor_axes = tuple(n for n in partial if n in summed and mesh.degree(n) > 1)
    return ParameterState(
        parameter=parameter,
        numel=local_numel(program, parameter.value),
        tensor_axes=tensor_axes,
        data_axes=tuple(n for n in partial if n not in tensor_axes and mesh.degree(n) > 1),
        kept=kept,
        offloaded=frozenset(role for role, m in memory.items() if m.offload),
    )


def states(link: Link) -> tuple[ParameterState, ...]:
    """:func:`link_states`, remembered: links with one program and equal configs share their states."""
    return _states(MemoKey(link, id(link.program), link.run.key))


@lru_cache(maxsize=512)
def _states(key: MemoKey[Link]) -> tuple[ParameterState, ...]:
    return link_states(key.value)
