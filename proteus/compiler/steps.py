"""Third pass: from instructions to steps, the grain at which the engine works.

A *step* is a run of computations on the compute stream with no communication
in between, or one collective.  As torch issues them, a collective waits for
everything that its rank had launched before it; a computation waits only for
the collectives whose results it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from proteus.compiler.program import Accumulate, BlockProgram, Compute, Instruction, Move, ProgramPhase
from proteus.identity import Same
from proteus.model.graph import OpKind

#: "what was handed over": stands for the step that made the block's input
PORT = -2

STREAMS = (
    "compute",
    "tensor",
    "context",
    "expert",
    "gradient",
    "parameter",
    "pipeline",
    "to_host",
    "from_host",
    "host_update",
)
_STREAM_OF_AXIS = {"tp": "tensor", "tq": "tensor", "cp": "context", "ep": "expert"}


def stream_of(axes: tuple[str, ...]) -> str:
    """The communicator stream of a collective inside a block."""
    found = {_STREAM_OF_AXIS.get(name, "tensor") for name in axes}
    return next(iter(found)) if len(found) == 1 else "tensor"


@dataclass(slots=True)
class Step:
    """One step of a phase; `instructions` are indexes into :attr:`Phase.instructions`.

    A ring makes several steps of one instruction: each carries out its
    `share` of the work, and the last has `is_last`.
    """

    is_comm: bool
    instructions: list[int] = field(default_factory=list)
    preds: set[int] = field(default_factory=set)
    share: float = 1.0
    is_last: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """The steps of one phase (F, B or W) of a block.

    Parameters
    ----------
    outputs
        Steps that make what is handed over (PORT where it is passed through).
    """

    instructions: tuple[Instruction, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]


@lru_cache(maxsize=512)
def _phases(key: Same[BlockProgram], is_split: bool) -> tuple[Phase, Phase, Phase]:
    program = key.value
    backward = (*program.recompute, *program.backward)
    inputs = set(program.inputs)
    grads = {v for v in (*program.output_grads, program.loss_grad) if v >= 0}
    forward = _steps(program.forward, inputs, program.outputs)
    whole = forward, _steps(backward, grads, program.input_grads), _steps((), set(), ())
    if not is_split:
        return whole
    late = _late(backward, program.input_grads)
    first = tuple(i for i, is_late in zip(backward, late, strict=True) if not is_late)
    rest = tuple(i for i, is_late in zip(backward, late, strict=True) if is_late)
    early = _steps(first, grads, program.input_grads)
    if not any(PORT in step.preds for step in early.steps):
        return whole  # nothing to do before the weight gradients, such as in an embedding
    return forward, early, _steps(rest, set(), ())


def runs_weights_apart(program: BlockProgram, is_split: bool) -> bool:
    """Whether the weight gradients of a block run in an action of their own."""
    return bool(phases(program, is_split)[2].steps)


def _late(backward: Sequence[Instruction], handed: tuple[int, ...]) -> list[bool]:
    """Which instructions of the backward run with the weight gradients.

    What is moved for weight gradients alone is moved when they run; what was
    moved earlier, something of the backward itself has waited for.
    """
    late = [i.phase is ProgramPhase.WEIGHT_GRAD for i in backward]
    early = {v for i, is_late in zip(backward, late, strict=True) if not is_late for v in reads(i)} | set(handed)
    for at in range(len(backward) - 1, -1, -1):
        instruction = backward[at]
        if isinstance(instruction, Move) and instruction.target not in early:
            late[at] = True
            still = {v for i, is_late in zip(backward, late, strict=True) if not is_late for v in reads(i)}
            early = still | set(handed)
    return late


def phases(program: BlockProgram, is_split: bool) -> tuple[Phase, Phase, Phase]:
    """Forward, backward and weight-gradient phase of a block.

    Parameters
    ----------
    is_split
        Whether the schedule runs weight gradients as actions of their own;
        else they are part of the backward and the third phase is empty.
    """
    return _phases(Same(program), is_split)


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


def _steps(instructions: tuple[Instruction, ...], handed: set[int], outputs: tuple[int, ...]) -> Phase:
    steps: list[Step] = []
    rings: dict[int, range] = {}  # value → the steps that bring, or make, it piece by piece
    made: dict[int, int] = dict.fromkeys(handed, PORT)
    waited: set[int] = set()  # comm steps (or PORT) that the compute stream has waited for
    last_compute = PORT  # before the first own computation: what the block before launched
    is_open = False
    for index, instruction in enumerate(instructions):
        if isinstance(instruction, Move) and not instruction.step.is_local:
            first, pieces = len(steps), max(1, instruction.pieces)
            parts = rings.get(instruction.source, range(0)) if instruction.pieces else range(0)
            source = made.get(instruction.source)
            for piece in range(pieces):
                # a piece of a gradient leaves when its part of the computation is done
                is_last = piece == pieces - 1
                ready = parts[piece] if len(parts) and not is_last else last_compute
                preds = {ready} if source is None or (len(parts) and not is_last) else {ready, source}
                steps.append(Step(True, [index], preds, 1.0 / pieces, is_last))
            if instruction.pieces:
                rings[instruction.target] = range(first, len(steps))
            made[instruction.target] = len(steps) - 1
            is_open = False
            continue
        need = {made[v] for v in reads(instruction) if v in made}
        need = {s for s in need if s == PORT or steps[s].is_comm} - waited
        ring = None
        if isinstance(instruction, Compute) and instruction.op.kind is OpKind.ATTENTION:
            ring = next((rings[v] for v in reads(instruction) if v in rings and made[v] in need), None)
        if ring is not None:
            # the part on a rank's own piece starts at once, each other one when its piece has arrived
            first, parts = len(steps), len(ring) + 1
            for part in range(parts):
                preds = need - {ring[-1]} if part == 0 else {ring[part - 1]}
                steps.append(Step(False, [index], preds, 1.0 / parts, part == parts - 1))
            waited |= need
            is_open, last_compute = False, len(steps) - 1
            for value in writes(instruction):
                made[value] = last_compute
                rings[value] = range(first, len(steps))
            continue
        if need or not is_open:
            steps.append(Step(is_comm=False, preds=set(need)))
            waited |= need
            is_open = True
            last_compute = len(steps) - 1
        steps[-1].instructions.append(index)
        for value in writes(instruction):
            made[value] = len(steps) - 1
    return Phase(
        instructions=instructions, steps=tuple(steps), outputs=tuple(made.get(v, PORT) for v in outputs if v >= 0)
    )
