"""The SPMD program of a block: what every rank of a stage runs, in order.

A program is written once for all ranks of a stage.  Its values are versions
of tensors in a layout; an instruction computes an op on local shards, moves
a value to another layout by one collective, or adds gradients.  Nothing here
depends on micro-batch, copy or rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from proteus.compiler.layout import Cut, Layout
from proteus.compiler.redistribute import Step
from proteus.mesh import Mesh
from proteus.model.graph import Block, Op


class ProgramPhase(StrEnum):
    """When an instruction runs within a micro-batch."""

    FORWARD = "forward"
    RECOMPUTE = "recompute"
    INPUT_GRAD = "input_grad"
    WEIGHT_GRAD = "weight_grad"


@dataclass(frozen=True, slots=True)
class Value:
    """A version of a tensor: its name, its layout, whether it is the gradient."""

    tensor: str
    layout: Layout
    is_grad: bool = False


@dataclass(frozen=True, slots=True)
class Compute:
    """An op, or the vector-Jacobian product of one, on local shards.

    `inputs` are the op's own inputs.  In the backward, `grads_in` are the
    gradients of the outputs (-1 where there is none) and `outputs` the
    gradients of `wanted` inputs.
    """

    op: Op
    phase: ProgramPhase
    cut: Cut
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    grads_in: tuple[int, ...] = ()
    wanted: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Move:
    """One step of a redistribution.

    In a ring it travels in `pieces` (0: it is no ring), one hop each, beside
    the computation on the piece before (ring attention, Liu et al., arXiv 2310.01889).
    """

    step: Step
    phase: ProgramPhase
    source: int
    target: int
    op: Op
    size_bytes: float  # for the largest shard, convention of costs.collectives
    pieces: int = 0


@dataclass(frozen=True, slots=True)
class Accumulate:
    """The sum of gradients of one tensor in one layout."""

    phase: ProgramPhase
    sources: tuple[int, ...]
    target: int
    op: Op


Instruction = Compute | Move | Accumulate


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter as the block uses it.

    `value` is its id in the program; `gradient` that of its (partial)
    gradient, -1 when it has none.  `layout` says how the computation cuts
    it, `grad_layout` how its gradient comes out of the backward.  Quantised ones are
    kept in 4 bits.
    """

    name: str
    value: int
    gradient: int
    layout: Layout
    grad_layout: Layout
    tied_to: str | None = None
    is_quantised: bool = False


def reads(instruction: Instruction) -> tuple[int, ...]:
    """Values that an instruction reads."""
    match instruction:
        case Compute():
            return tuple(v for v in (*instruction.inputs, *instruction.grads_in) if v >= 0)
        case Move():
            return (instruction.source,)
        case Accumulate():
            return instruction.sources


def writes(instruction: Instruction) -> tuple[int, ...]:
    """Values that an instruction writes."""
    return instruction.outputs if isinstance(instruction, Compute) else (instruction.target,)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockProgram:
    """What a block does on the ranks of its stage.

    Parameters
    ----------
    sizes
        Sizes of the block's dims for a whole micro-batch of the stage.
    forward, recompute, backward
        Instructions in program order.  `recompute` runs before `backward`;
        it is empty when nothing is dropped.
    inputs, outputs
        Values handed over from the copy before and to the copy after.
    output_grads, input_grads
        Values in which gradients are handed over, -1 where there is none.
    kept
        Values that live from the forward to the backward.
    loss, loss_grad
        The value of the loss and the seed of its gradient, -1 in blocks without one.
    saved
        What autograd keeps: (tensor, layout, bytes per element).
    """

    block: Block
    mesh: Mesh
    sizes: Mapping[str, int]
    values: tuple[Value, ...]
    forward: tuple[Instruction, ...]
    recompute: tuple[Instruction, ...]
    backward: tuple[Instruction, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    output_grads: tuple[int, ...]
    input_grads: tuple[int, ...]
    parameters: tuple[Parameter, ...]
    data: tuple[int, ...]
    kept: tuple[int, ...]
    loss: int
    loss_grad: int
    saved: tuple[tuple[str, Layout, float], ...]

    def dims(self, value: int) -> tuple[str, ...]:
        return self.block.tensors[self.values[value].tensor].dims
