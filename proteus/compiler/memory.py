"""What the steps of a block take and give back of a device's memory.

Autograd keeps the tensors that every op names in ``saves`` from the forward
to the backward of a micro-batch; everything else lives inside its phase.  The
transient part of a phase is the peak of its own values by liveness.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from proteus.compiler.block import local_numel
from proteus.compiler.chain import Chunk, Link
from proteus.compiler.offload import activation_bytes, parameter_bytes
from proteus.compiler.program import Accumulate, BlockProgram, Compute, Instruction, Move, ProgramPhase, reads, writes
from proteus.compiler.state import is_held, states
from proteus.compiler.steps import Phase
from proteus.costs.precision import Precision
from proteus.frameworks import Framework
from proteus.identity import ById
from proteus.model.graph import OpKind
from proteus.placement import Replicate, Shard
from proteus.strategy.config import Training
from proteus.strategy.schedules.pipeline_plan import B, F, W
from proteus.units import DTYPE_BYTES


def saved_tensors(program: BlockProgram) -> dict[str, float]:
    """Bytes of every tensor that autograd keeps of one copy, on the largest rank."""
    sizes: dict[str, float] = {}
    for name, layout, element_bytes in program.saved:
        dims = program.block.tensors[name].dims
        sizes[name] = local_numel(dims, program.sizes, layout, program.mesh) * element_bytes
    return sizes


#: a program and a phase of it, as they are remembered by
_Key = tuple[ById[BlockProgram], ById[Phase]]


#: ops whose backward hands the gradient on as it is
_HAND_ON = (OpKind.ADD, OpKind.RESHAPE)
#: ops whose gradient is one element per row: it is added where the rest of the gradient is made
_SPARSE_GRADIENT = (OpKind.PICK, OpKind.MAX)


@lru_cache(maxsize=512)
def _memory(key: _Key, activation_bytes: float) -> tuple[float, float]:
    """(kept, transient peak) bytes of a phase.

    Values that share storage count once: gradients are summed in place, and
    what an op hands on unchanged is the same tensor.
    """
    program, phase = key[0].value, key[1].value
    kept = saved_tensors(program)
    kept_as = {(name, layout) for name, layout, _ in program.saved}

    def size(value: int) -> float:
        item = program.values[value]
        tensor = program.block.tensors[item.tensor]
        if tensor.kind == "parameter" or (not item.is_grad and (item.tensor, item.layout) in kept_as):
            return 0.0
        element = activation_bytes if tensor.dtype is None else DTYPE_BYTES[tensor.dtype]
        return local_numel(tensor.dims, program.sizes, item.layout, program.mesh) * element

    storage = _storages(phase)

    def owner(value: int) -> int:
        return storage.get(value, value)

    last: dict[int, int] = {}
    for at, instruction in enumerate(phase.instructions):
        for value in (*reads(instruction), *writes(instruction)):
            last[owner(value)] = at
    live: dict[int, float] = {}
    now = peak = 0.0
    for at, instruction in enumerate(phase.instructions):
        for value in writes(instruction):
            if owner(value) not in live:
                live[owner(value)] = 0.0 if _is_sparse(instruction) else size(value)
                now += live[owner(value)]
        peak = max(peak, now)
        for value in {owner(v) for v in (*reads(instruction), *writes(instruction))}:
            if last[value] == at and value in live:
                now -= live.pop(value)
    return sum(kept.values()), peak


def _is_sparse(instruction: Instruction) -> bool:
    return (
        isinstance(instruction, Compute)
        and instruction.phase is ProgramPhase.INPUT_GRAD
        and instruction.op.kind in _SPARSE_GRADIENT
    )


def _storages(phase: Phase) -> dict[int, int]:
    """Values that live in the storage of another, and which."""
    storage_of: dict[int, int] = {}
    dense: set[int] = set()
    for instruction in phase.instructions:
        match instruction:
            case Accumulate():
                whole = [v for v in instruction.sources if v in dense] or list(instruction.sources)
                storage_of[instruction.target] = storage_of.get(whole[0], whole[0])
            case Compute() if instruction.phase is ProgramPhase.INPUT_GRAD and instruction.op.kind in _HAND_ON:
                handed = next((v for v in instruction.grads_in if v >= 0), None)
                if handed is not None:
                    storage_of |= dict.fromkeys(instruction.outputs, storage_of.get(handed, handed))
            case Move() if instruction.step.is_local:
                storage_of[instruction.target] = storage_of.get(instruction.source, instruction.source)
        if not _is_sparse(instruction):
            dense |= set(writes(instruction))
    return storage_of


@dataclass(frozen=True, slots=True)
class PhaseParts:
    """What one copy of a block takes in one phase [bytes].

    Parameters
    ----------
    kept
        What autograd keeps from the forward to the backward.
    transient
        The most that lives inside the phase besides.
    gathered
        Parameters that are only whole, or on the device, during the phase (ZeRO-3, offload).
    offloaded
        The part of `kept` that waits in host memory.
    """

    kept: float
    transient: float
    gathered: float
    offloaded: float = 0.0


#: (kept, transient) bytes per score of a softmax in operators, beside its result: the GEMM, scaled and masked, in
#: half precision; torch.softmax(scores.float()).to(half) keeps its fp32 result for the gradient, and the GEMM is
#: there in half and single precision
_OPERATOR_SOFTMAX = {"unfused": (0.0, 4.0), "unfused_fp32": (4.0, 6.0)}
#: (kept, transient) bytes per logit of a loss, beside one that keeps its softmax in fp32: the copy of the logits in
#: fp32; the logits, still named by whoever asked for the loss, and the fp32 gradients of nll_loss and of log_softmax,
#: which PyTorch makes whole and one from the other, less the half-precision one that follows them; a kernel that keeps
#: the logits instead and writes their gradient over them (flash-attn's CrossEntropyLoss)
_LOSS = {"copied": (0.0, 4.0), "held": (0.0, 8.0), "in_place": (-2.0, -2.0)}
#: fp32 and half-precision bytes per element of what operators keep of a norm beside the input that a kernel keeps
_CHAIN_NORM = 4.0
_NORMS = (OpKind.LAYER_NORM, OpKind.RMS_NORM, OpKind.GROUP_NORM)


@lru_cache(maxsize=512)
def operator_bytes(
    key: _Key, activation_bytes: float, product_bytes: float, framework: Framework
) -> tuple[float, float]:
    """(kept, transient) bytes that a phase holds because a framework runs operators where others have one kernel.

    A norm in operators keeps its fp32 input and its result in place of the
    input, a gated activation its silu as well, a loss copies the logits in
    fp32.  What is recomputed lives while its own copy runs backward.
    """
    program, phase = key[0].value, key[1].value
    size = {
        name: local_numel(program.block.tensors[name].dims, program.sizes, layout, program.mesh)
        for name, layout, _ in program.saved
    }
    dropped = {i.op.name: i for i in program.recompute if isinstance(i, Compute)}
    runs_again = any(i.phase is ProgramPhase.RECOMPUTE for i in phase.instructions)
    shared = {
        saved.tensor
        for op in program.block.ops
        if op.kind is not OpKind.LINEAR or not op.attrs.get("quantised", True)  # they keep what is not quantised
        for saved in op.saves
    }
    kept = transient = 0.0
    for op in program.block.ops:
        if op.name in dropped and runs_again:
            transient += _recomputed_bytes(program, dropped[op.name], activation_bytes, framework)
        first = size.get(op.saves[0].tensor) if op.saves and op.name not in dropped else None
        if first is None:
            continue
        if op.kind in _NORMS and framework.norm == "chain":
            kept += first * _CHAIN_NORM
        elif op.kind is OpKind.ACTIVATION and op.is_gated and not framework.fused_bias_activation:
            kept += first / (2.0 if len(op.inputs) == 1 else 1.0) * activation_bytes
        elif op.kind is OpKind.SUM_EXP and framework.loss != "softmax":
            more_kept, more_transient = _LOSS[framework.loss]
            kept += first * more_kept
            transient += first * more_transient
        elif op.kind is OpKind.LINEAR and op.saves[0].tensor not in shared and op.attrs.get("quantised", True):
            kept -= first * (activation_bytes - product_bytes)  # autograd keeps the quantised input
        elif op.kind is OpKind.ATTENTION and framework.attention in _OPERATOR_SOFTMAX:
            scores = max(size.get(s.tensor, 0.0) for s in op.saves_unfused)
            more_kept, more_transient = _OPERATOR_SOFTMAX[framework.attention]
            kept += more_kept * scores
            transient += more_transient * scores
    return kept, transient


def _recomputed_bytes(program: BlockProgram, again: Compute, activation_bytes: float, framework: Framework) -> float:
    """What autograd keeps of a recomputed op besides its inputs and outputs."""
    op, size_bytes = again.op, 0.0
    names = {operand.tensor for operand in (*op.inputs, *op.outputs)}

    def numel(dims: tuple[str, ...]) -> float:
        layout = tuple(Shard(dim) if dim is not None and dim in dims else Replicate() for dim in again.cut)
        return local_numel(dims, program.sizes, layout, program.mesh)

    for saved in op.saves if framework.flash or not op.saves_unfused else op.saves_unfused:
        tensor = program.block.tensors[saved.tensor]
        if saved.tensor not in names:
            element = DTYPE_BYTES[tensor.dtype] if tensor.dtype else activation_bytes
            size_bytes += numel(tensor.dims) * (saved.bytes_per_element or element)
    if op.kind is OpKind.ATTENTION and framework.attention in _OPERATOR_SOFTMAX:
        scores = max(numel(program.block.tensors[s.tensor].dims) for s in op.saves_unfused)
        size_bytes += sum(_OPERATOR_SOFTMAX[framework.attention]) * scores
    elif op.kind in _NORMS and framework.norm == "chain":
        size_bytes += numel(op.inputs[0].dims) * _CHAIN_NORM
    elif op.kind is OpKind.ACTIVATION and op.is_gated and not framework.fused_bias_activation:
        size_bytes += numel(op.outputs[0].dims) * activation_bytes
    return size_bytes


def phase_parts(link: Link, phase: Phase, has_gathers: bool, precision: Precision, framework: Framework) -> PhaseParts:
    """The parts of what one copy of `link` takes in `phase`."""
    kept, transient = _memory((ById(link.program), ById(phase)), precision.activation_bytes)
    more_kept, more_transient = operator_bytes(
        (ById(link.program), ById(phase)),
        precision.activation_bytes,
        min(precision.compute_bytes, precision.activation_bytes),
        framework,
    )
    kept, transient = kept + more_kept, transient + more_transient
    gathered = 0.0
    if has_gathers:
        gathered = sum(s.stored_bytes(precision.activation_bytes) for s in states(link) if s.kept["parameter"])
        gathered += parameter_bytes(link, precision)
    return PhaseParts(kept, transient, gathered, activation_bytes(link))


def phase_memory(
    link: Link,
    phase: Phase,
    kind: int,
    is_split: bool,
    num_steps: int,
    num_gathers: int,
    precision: Precision,
    framework: Framework,
) -> tuple[np.ndarray, np.ndarray]:
    """(bytes taken at the start, bytes given back at the end) of every step."""
    alloc, free = np.zeros(num_steps), np.zeros(num_steps)
    if not num_steps:
        return alloc, free
    parts = phase_parts(link, phase, num_gathers > 0, precision, framework)
    first, last = min(num_gathers, num_steps - 1), num_steps - 1
    if parts.offloaded:  # it leaves when the copy to the host ends, and comes back with the copy from it
        if kind == F:
            free[last] += parts.offloaded
        elif kind == B:
            alloc[0] += parts.offloaded
    alloc[first] += parts.transient
    free[last] += parts.transient
    if kind == F:
        alloc[first] += parts.kept
    elif gives_back(kind, is_split):
        free[last] += parts.kept
    alloc[0] += parts.gathered
    free[last] += parts.gathered
    return alloc, free


def gives_back(kind: int, is_split: bool) -> bool:
    """Whether the phase is the last that reads what the forward kept."""
    return kind == (W if is_split else B)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticMemory:
    """Bytes that a rank holds during the whole step, by owner."""

    parameter: float
    gradient: float
    optimizer: float
    by_link: tuple[tuple[int, float], ...] = ()

    @property
    def total(self) -> float:
        return self.parameter + self.gradient + self.optimizer


def static_memory(chunks: Iterable[Chunk], training: Training, precision: Precision) -> StaticMemory:
    """Parameters, gradients and optimizer state of the chunks of one rank."""
    parameter = gradient = optimizer = 0.0
    by_link: dict[int, float] = {}
    chunks = tuple(chunks)
    every = [link for chunk in chunks for link in chunk.links]
    for chunk in chunks:
        for link in chunk.links:
            mesh = link.program.mesh
            for state in states(link):
                if not is_held(state, every):
                    continue
                numel = state.numel * link.count
                bytes_per_role = {
                    "parameter": state.stored_bytes(precision.param_bytes)
                    * link.count
                    / mesh.degree(state.kept["parameter"]),
                    "gradient": numel * precision.grad_bytes / mesh.degree(state.kept["gradient"]),
                    "optimizer": numel
                    * precision.state_bytes(training.optimizer)
                    / mesh.degree(state.kept["optimizer"]),
                }
                if state.parameter.gradient < 0:
                    bytes_per_role["gradient"] = bytes_per_role["optimizer"] = 0.0
                held = {role: 0.0 if role in state.offloaded else size for role, size in bytes_per_role.items()}
                parameter += held["parameter"]
                gradient += held["gradient"]
                optimizer += held["optimizer"]
                by_link[id(link)] = by_link.get(id(link), 0.0) + sum(held.values())
    return StaticMemory(parameter=parameter, gradient=gradient, optimizer=optimizer, by_link=tuple(by_link.items()))
