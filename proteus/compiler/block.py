"""Second pass: the SPMD program of a block, with its collectives and its backward.

Every op is taken in turn: its inputs are brought into the layout that its
cut needs (:mod:`redistribute` finds how), and its outputs come out in the
layout that the cut makes.  The backward walks the ops in reverse and is
derived from the same table (:mod:`layout`): nothing is listed by hand.

What the backward needs is kept from the forward, except that a value made by
an all_gather is gathered again where the framework does so (Megatron with
sequence parallelism) and that what a node recomputes is made again from what
it was made of.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from proteus.compiler.layout import (
    Cut,
    Layout,
    gradient_of,
    input_grad_layout,
    input_layout,
    output_grad_layout,
    output_layout,
)
from proteus.compiler.program import (
    Accumulate,
    BlockProgram,
    Compute,
    Instruction,
    Move,
    Parameter,
    ProgramPhase,
    Value,
    reads,
    writes,
)
from proteus.compiler.redistribute import Step, StepCost, group_bytes, plan
from proteus.errors import StrategyError
from proteus.mesh import Mesh
from proteus.model.graph import Block, Op, OpKind, Tensor
from proteus.placement import Replicate, Shard
from proteus.strategy.config import NodeConfig
from proteus.strategy.frozen import quantised_parameters, trained_parameters
from proteus.units import DTYPE_BYTES

#: ops whose backward needs none of their inputs
_LINEAR_IN_ALL = (OpKind.ADD, OpKind.RESHAPE, OpKind.CONCAT, OpKind.SELECT, OpKind.DROPOUT, OpKind.POSITION)
#: ops linear in the activation and in the weight, each gradient needing only the other
_BILINEAR = (OpKind.LINEAR, OpKind.CONV2D)
#: ops that only look rows up: the gradient of the table needs the ids, not the table
_LOOKUP = (OpKind.EMBEDDING, OpKind.EMBEDDING_BAG)


def build_block(
    block: Block,
    cuts: Mapping[str, Cut],
    configs: Mapping[str, NodeConfig],
    mesh: Mesh,
    sizes: Mapping[str, int],
    inputs: tuple[Layout, ...],
    outputs: tuple[Layout, ...],
    *,
    has_input_grad: bool,
    element_bytes: float,
    gathered_bytes: float | None = None,
    fused_attention: bool = True,
    regathers: bool = True,
    stops_early: bool = False,
    cost: StepCost | None = None,
) -> BlockProgram:
    """The program of one block.

    Parameters
    ----------
    inputs, outputs
        Layouts in which the carried tensors are handed over.
    has_input_grad
        Whether the block before has anything to train.
    element_bytes
        Bytes of an element of the run's precision [bytes].
    gathered_bytes
        The same of what is gathered for quantised GEMMs; None is no less.
    regathers
        What was gathered for an op is dropped after it and gathered again for
        its gradient; else the whole is kept.
    stops_early
        Recomputation ends with the last op that the backward needs something
        of; else the forward runs again to its end.
    """
    wire_share = 1.0 if gathered_bytes is None else gathered_bytes / element_bytes
    builder = _Builder(block, cuts, configs, mesh, sizes, element_bytes, wire_share, regathers, stops_early, cost)
    builder.forward(inputs, outputs)
    builder.backward(has_input_grad)
    return builder.program(fused_attention)


@dataclass
class _Builder:
    block: Block
    cuts: Mapping[str, Cut]
    configs: Mapping[str, NodeConfig]
    mesh: Mesh
    sizes: Mapping[str, int]
    element_bytes: float
    wire_share: float  # of an element that is gathered for a quantised GEMM
    regathers: bool
    stops_early: bool
    cost: StepCost | None
    values: list[Value] = field(default_factory=list)
    versions: dict[str, dict[Layout, int]] = field(default_factory=dict)
    made_by: dict[int, Instruction] = field(default_factory=dict)
    fwd: list[Instruction] = field(default_factory=list)
    bwd: list[Instruction] = field(default_factory=list)
    again: list[Instruction] = field(default_factory=list)
    parameter: dict[str, int] = field(default_factory=dict)
    data: list[int] = field(default_factory=list)
    kept: dict[int, None] = field(default_factory=dict)
    ready: set[int] = field(default_factory=set)
    grads: dict[str, list[int]] = field(default_factory=dict)
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    output_grads: tuple[int, ...] = ()
    input_grads: tuple[int, ...] = ()
    loss: int = -1
    loss_grad: int = -1
    num_body: int = 0  # forward instructions before the outputs are handed over
    compute_of: dict[str, Compute] = field(default_factory=dict)

    # -- values ------------------------------------------------------------

    def value(self, tensor: str, layout: Layout, is_grad: bool = False) -> int:
        self.values.append(Value(tensor, layout, is_grad))
        return len(self.values) - 1

    def tensor(self, name: str) -> Tensor:
        return self.block.tensors[name]

    def padded_bytes(self, tensor: Tensor, layout: Layout) -> float:
        """Bytes of the tensor when every shard is as large as the largest."""
        numel = 1
        for dim in tensor.dims:
            size, parts = self.sizes[dim], 1
            for axis, placement in enumerate(layout):
                if isinstance(placement, Shard) and placement.dim == dim:
                    size, parts = -(-size // self.mesh.shape[axis]), parts * self.mesh.shape[axis]
            numel *= size * parts
        return numel * self.bytes_of(tensor)

    def bytes_of(self, tensor: Tensor) -> float:
        return self.element_bytes if tensor.dtype is None else DTYPE_BYTES[tensor.dtype]

    def whole(self) -> Layout:
        return tuple(Replicate() for _ in self.mesh.axes)

    # -- forward -----------------------------------------------------------

    def forward(self, inputs: tuple[Layout, ...], outputs: tuple[Layout, ...]) -> None:
        input_values = []
        for name, layout in zip(self.block.inputs, inputs, strict=True):
            value = self.value(name, layout)
            self.versions[name] = {layout: value}
            input_values.append(value)
        self.inputs = tuple(input_values)
        for op in self.block.ops:
            cut = self.cuts[op.name]
            takes = tuple(self.fetch(o.tensor, input_layout(self.block, op, o, cut), op) for o in op.inputs)
            gives = []
            for operand in op.outputs:
                layout = output_layout(self.block, op, operand, cut)
                value = self.value(operand.tensor, layout)
                self.versions[operand.tensor] = {layout: value}
                gives.append(value)
            compute = Compute(op, ProgramPhase.FORWARD, cut, takes, tuple(gives))
            self.emit(self.fwd, compute)
            self.compute_of[op.name] = compute
        last = self.block.ops[-1]
        self.num_body = len(self.fwd)
        self.outputs = tuple(
            self.fetch(name, layout, last) for name, layout in zip(self.block.outputs, outputs, strict=True)
        )
        # the loss is what the last block makes of everything: a scalar
        self.loss = next((v for v in self.outputs if not self.tensor(self.values[v].tensor).dims), -1)

    def emit(self, where: list[Instruction], instruction: Instruction) -> None:
        where.append(instruction)
        targets = instruction.outputs if isinstance(instruction, Compute) else (instruction.target,)
        for value in targets:
            self.made_by.setdefault(value, instruction)

    def fetch(self, name: str, need: Layout, op: Op) -> int:
        """The value of a tensor in the layout `need`, moved there when it lies otherwise."""
        tensor = self.tensor(name)
        versions = self.versions.setdefault(name, {})
        if need in versions:
            return versions[need]
        if tensor.kind == "input":
            versions[need] = self.value(name, need)
            self.data.append(versions[need])
            return versions[need]
        if tensor.kind == "parameter":
            if versions:
                raise StrategyError(
                    f"{self.block.name}.{op.name}: parameter {name} is already used as {next(iter(versions))}, "
                    f"here as {need}; give both ops the same partition"
                )
            versions[need] = self.value(name, need)
            self.parameter[name] = versions[need]
            return versions[need]
        if not versions:
            raise StrategyError(f"{self.block.name}.{op.name}: {name} has no value yet")
        source = next(iter(versions.values()))
        target = self.move(source, need, ProgramPhase.FORWARD, op, self.fwd)
        versions[need] = target
        return target

    def move(self, source: int, need: Layout, phase: ProgramPhase, op: Op, where: list[Instruction]) -> int:
        value = self.values[source]
        tensor = self.tensor(value.tensor)
        total = self.padded_bytes(tensor, value.layout)
        for step in plan(tensor.dims, total, value.layout, need, self.mesh, self.cost):
            target = self.value(value.tensor, step.after, value.is_grad)
            size = group_bytes(step, total, self.mesh)
            if step.kind == "all_gather" and op.kind is OpKind.LINEAR and op.attrs.get("quantised", True):
                size *= self.wire_share
            self.emit(where, Move(step, phase, source, target, op, size, self.pieces(step, source, op)))
            source = target
        return source

    def pieces(self, step: Step, source: int, op: Op) -> int:
        """Hops in which keys and values, or their gradients, go round where attention asks for a ring; else 0."""
        if step.kind == "all_gather":
            goes_round = op.kind is OpKind.ATTENTION and self.configs[op.name].exchange == "ring"
        else:
            maker = self.made_by.get(source)
            goes_round = (
                step.kind == "reduce_scatter"
                and isinstance(maker, Compute)
                and maker.op.kind is OpKind.ATTENTION
                and self.configs[maker.op.name].exchange == "ring"
            )
        degree = self.mesh.degree(tuple(self.mesh.names[axis] for axis in step.axes))
        return degree - 1 if goes_round else 0

    # -- backward ----------------------------------------------------------

    def dropped(self, op: Op) -> bool:
        """Whether the outputs of `op` are made again in the backward."""
        recompute = self.configs[op.name].recompute
        return recompute == "full" or (recompute == "selective" and op.selective)

    def gathers_again(self, move: Move) -> bool:
        """Whether the whole is gathered once more for the gradient; a ring never holds it."""
        return move.step.kind == "all_gather" and (self.regathers or move.pieces > 0)

    def need(self, value: int, where: list[Instruction]) -> None:
        """Make sure that `value` is there in the backward."""
        maker = self.made_by.get(value)
        if value in self.ready or value in self.kept:
            return
        if maker is None:  # handed over, loaded or a parameter
            if self.tensor(self.values[value].tensor).kind == "activation":
                self.kept[value] = None
            return
        if (
            isinstance(maker, Move)
            and maker.phase is ProgramPhase.FORWARD
            and (maker.step.kind == "slice" or self.gathers_again(maker))
        ):
            self.need(maker.source, where)
            where.append(replace(maker, phase=ProgramPhase.RECOMPUTE, target=value))
            self.ready.add(value)
            return
        self.kept[value] = None

    def recompute(self) -> None:
        """The forward of the dropped ops, once more."""
        for instruction in self.fwd[: self.num_body]:
            op = instruction.op
            if not self.dropped(op):
                continue
            if isinstance(instruction, Compute):
                for value in instruction.inputs:
                    self.need(value, self.again)
                self.again.append(
                    Compute(op, ProgramPhase.RECOMPUTE, instruction.cut, instruction.inputs, instruction.outputs)
                )
                self.ready.update(instruction.outputs)
            elif isinstance(instruction, Move) and instruction.target not in self.ready:
                self.need(instruction.source, self.again)
                self.again.append(replace(instruction, phase=ProgramPhase.RECOMPUTE))
                self.ready.add(instruction.target)

    def trained(self, has_input_grad: bool) -> set[str]:
        """Tensors that have a gradient."""
        trained = set(self.block.inputs) if has_input_grad else set()
        trained |= trained_parameters(self.block, self.configs)
        for op in self.block.ops:
            # the maximum only keeps exp in range: its gradient cancels
            if op.kind is not OpKind.MAX and any(operand.tensor in trained for operand in op.inputs):
                trained |= {operand.tensor for operand in op.outputs}
        return trained

    def backward(self, has_input_grad: bool) -> None:
        trained = self.trained(has_input_grad)
        if any(self.values[value].tensor in trained for value in self.outputs):
            self.recompute()
        seeds = []
        for value in self.outputs:
            name, layout = self.values[value].tensor, self.values[value].layout
            if name in trained:
                seed = self.value(name, gradient_of(layout), True)
                self.grads.setdefault(name, []).append(seed)
                seeds.append(seed)
            else:
                seeds.append(-1)
        self.output_grads = tuple(seeds)
        if self.loss >= 0 and self.values[self.loss].tensor in trained:
            name = self.values[self.loss].tensor
            self.loss_grad = self.value(name, self.whole(), True)
            self.grads[name] = [self.loss_grad]
        for op in reversed(self.block.ops):
            self.op_backward(op, trained)
        self.input_grads = tuple(
            self.collect(name, gradient_of(self.values[value].layout), self.block.ops[0])
            if has_input_grad and name in self.grads
            else -1
            for name, value in zip(self.block.inputs, self.inputs, strict=True)
        )

    def op_backward(self, op: Op, trained: set[str]) -> None:
        if not any(operand.tensor in self.grads for operand in op.outputs):
            return
        activations = self.wanted(op, trained, "activation")
        weights = self.wanted(op, trained, "parameter")
        if not activations and not weights:
            return
        cut = self.cuts[op.name]
        forward = self.compute_of[op.name]
        grads_in = tuple(
            self.collect(o.tensor, output_grad_layout(self.block, op, o, cut), op) if o.tensor in self.grads else -1
            for o in op.outputs
        )
        phases = [(ProgramPhase.INPUT_GRAD, activations), (ProgramPhase.WEIGHT_GRAD, weights)]
        for phase, wanted in phases:  # gathers come first, to run beside the input gradient
            for index in sorted(self.needed(op, phase)) if wanted else ():
                self.need(forward.inputs[index], self.bwd)
        for phase, wanted in phases:
            if not wanted:
                continue
            needed = self.needed(op, phase)
            gives = []
            for index in wanted:
                operand = op.inputs[index]
                layout = input_grad_layout(self.block, op, operand, cut)
                value = self.value(operand.tensor, layout, True)
                self.grads.setdefault(operand.tensor, []).append(value)
                gives.append(value)
            takes = tuple(v if i in needed else -1 for i, v in enumerate(forward.inputs))
            self.emit(self.bwd, Compute(op, phase, cut, takes, tuple(gives), grads_in, wanted))

    def wanted(self, op: Op, trained: set[str], kind: str) -> tuple[int, ...]:
        return tuple(i for i, o in enumerate(op.inputs) if o.tensor in trained and self.tensor(o.tensor).kind == kind)

    def needed(self, op: Op, phase: ProgramPhase) -> set[int]:
        """Inputs of `op` that its gradient depends on."""
        every = set(range(len(op.inputs)))
        weights = {i for i in every if self.tensor(op.inputs[i].tensor).kind == "parameter"}
        if op.kind in _LINEAR_IN_ALL:
            return set()
        if op.kind in _BILINEAR:
            return weights if phase is ProgramPhase.INPUT_GRAD else every - weights
        if op.kind in _LOOKUP:
            return every - weights
        if op.kind is OpKind.TAKE:
            return {1}  # the places alone say where a gradient goes
        return every

    def collect(self, name: str, need: Layout, op: Op) -> int:
        """The gradient of a tensor in layout `need`: equal layouts are added first."""
        by_layout: dict[Layout, list[int]] = {}
        for value in self.grads[name]:
            by_layout.setdefault(self.values[value].layout, []).append(value)
        moved = [
            self.move(self.add(values, op), need, ProgramPhase.INPUT_GRAD, op, self.bwd)
            for values in by_layout.values()
        ]
        total = self.add(moved, op)
        self.grads[name] = [total]
        return total

    def add(self, values: list[int], op: Op) -> int:
        if len(values) == 1:
            return values[0]
        first = self.values[values[0]]
        target = self.value(first.tensor, first.layout, True)
        is_weight = self.tensor(first.tensor).kind == "parameter"
        phase = ProgramPhase.WEIGHT_GRAD if is_weight else ProgramPhase.INPUT_GRAD
        self.emit(self.bwd, Accumulate(phase, tuple(values), target, op))
        return target

    # -- the whole ----------------------------------------------------------

    def last_needed(self) -> int:
        """Number of instructions of the recomputation up to the last that the backward needs.

        It needs what it reads, and what an op of its own writes for its
        gradient: all that is saved but is no input of the op.
        """
        read = {value for instruction in self.bwd for value in reads(instruction)}
        differentiated = {instruction.op.name for instruction in self.bwd if isinstance(instruction, Compute)}
        for number in range(len(self.again), 0, -1):
            instruction = self.again[number - 1]
            if read.intersection(writes(instruction)):
                return number
            op = instruction.op
            own_saves = {saved.tensor for saved in op.saves} - {operand.tensor for operand in op.inputs}
            if isinstance(instruction, Compute) and own_saves and op.name in differentiated:
                return number
        return 0

    def program(self, fused_attention: bool) -> BlockProgram:
        parameters = []
        quantised = quantised_parameters(self.block, self.configs)
        for name, value in self.parameter.items():
            layout = self.values[value].layout
            gradient, grad_layout = -1, layout
            if name in self.grads:
                gradient = self.add(self.grads[name], self.block.ops[-1])
                grad_layout = self.values[gradient].layout
            tied_to = self.tensor(name).tied_to
            parameters.append(Parameter(name, value, gradient, layout, grad_layout, tied_to, name in quantised))
        return BlockProgram(
            block=self.block,
            mesh=self.mesh,
            sizes=self.sizes,
            values=tuple(self.values),
            forward=tuple(self.fwd),
            recompute=tuple(self.again[: self.last_needed()] if self.stops_early else self.again),
            backward=tuple(self.bwd),
            inputs=self.inputs,
            outputs=self.outputs,
            output_grads=self.output_grads,
            input_grads=self.input_grads,
            parameters=tuple(parameters),
            data=tuple(self.data),
            kept=tuple(self.kept),
            loss=self.loss,
            loss_grad=self.loss_grad,
            saved=tuple(self.saved(fused_attention)),
        )

    def saved(self, fused_attention: bool) -> Iterable[tuple[str, Layout, float]]:
        """What autograd keeps: (tensor, layout, bytes per element), each tensor once."""
        saved_tensors: dict[str, tuple[Layout, float]] = {}
        phases: dict[str, set[ProgramPhase]] = {}
        for instruction in self.bwd:
            if isinstance(instruction, Compute):
                phases.setdefault(instruction.op.name, set()).add(instruction.phase)
        for op in self.block.ops:
            if self.dropped(op) or op.name not in phases:
                continue
            if op.kind in _BILINEAR and ProgramPhase.WEIGHT_GRAD not in phases[op.name]:
                continue  # the gradient of x needs only the weight
            forward = self.compute_of[op.name]
            at = {o.tensor: v for o, v in zip(op.inputs, forward.inputs, strict=True)}
            at |= {o.tensor: v for o, v in zip(op.outputs, forward.outputs, strict=True)}
            kept = op.saves if fused_attention or not op.saves_unfused else op.saves_unfused
            for saved in kept:
                tensor = self.tensor(saved.tensor)
                if tensor.kind == "parameter":
                    continue
                if saved.tensor in at:
                    maker = self.made_by.get(at[saved.tensor])
                    value = maker.source if isinstance(maker, Move) and self.gathers_again(maker) else at[saved.tensor]
                    layout = self.values[value].layout
                else:
                    layout = tuple(
                        Shard(dim) if dim is not None and dim in tensor.dims else Replicate()
                        for dim in self.cuts[op.name]
                    )
                size = self.bytes_of(tensor) if saved.bytes_per_element is None else saved.bytes_per_element
                saved_tensors.setdefault(saved.tensor, (layout, size))
        for value in self.kept:  # what recomputation starts from
            name = self.values[value].tensor
            if name not in saved_tensors and any(value in _reads(i) for i in self.again):
                saved_tensors[name] = (self.values[value].layout, self.bytes_of(self.tensor(name)))
        return [(name, layout, size) for name, (layout, size) in saved_tensors.items()]


def _reads(instruction: Instruction) -> tuple[int, ...]:
    if isinstance(instruction, Compute):
        return instruction.inputs
    return (instruction.source,) if isinstance(instruction, Move) else instruction.sources


def local_numel(dims: Iterable[str], sizes: Mapping[str, int], layout: Layout, mesh: Mesh) -> int:
    """Elements of the largest shard."""
    numel = []
    for dim in dims:
        size = sizes[dim]
        for axis, placement in enumerate(layout):
            if isinstance(placement, Shard) and placement.dim == dim:
                size = -(-size // mesh.shape[axis])
        numel.append(size)
    return math.prod(numel)
