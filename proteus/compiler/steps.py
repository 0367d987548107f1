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

from proteus.compiler.program import BlockProgram, Compute, Instruction, Move, ProgramPhase, reads, writes
from proteus.identity import ById
from proteus.model.graph import OpKind
from proteus.strategy.axes import named

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


def stream_of(program: BlockProgram, move: Move) -> str:
    """The communicator stream of a collective inside a block."""
    step = move.step
    if step.kind == "all_to_all" and {step.dim, step.to_dim} & set(program.block.derived):
        return "expert"  # tokens in their slots go to the experts, or come back
    axes = tuple(program.mesh.names[axis] for axis in step.axes)
    return "context" if named(axes, "cp") == axes else "tensor"


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
def _phases(key: ById[BlockProgram], is_split: bool) -> tuple[Phase, Phase, Phase]:
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
    return _phases(ById(program), is_split)


def _steps(instructions: tuple[Instruction, ...], handed: set[int], outputs: tuple[int, ...]) -> Phase:
    stepper = _Stepper(handed)
    for index, instruction in enumerate(instructions):
        if isinstance(instruction, Move) and not instruction.step.is_local:
            stepper.move(index, instruction)
        else:
            stepper.compute(index, instruction)
    made = tuple(stepper.made.get(v, PORT) for v in outputs if v >= 0)
    return Phase(instructions=instructions, steps=tuple(stepper.steps), outputs=made)


class _Stepper:
    """Steps being made from instructions, in program order.

    `made` is the step that makes each value; `rings` the steps that bring or
    make one piece by piece; `waited` the collectives (and PORT) that the
    compute stream has waited for.
    """

    def __init__(self, handed: set[int]) -> None:
        self.steps: list[Step] = []
        self.made: dict[int, int] = dict.fromkeys(handed, PORT)
        self.rings: dict[int, range] = {}
        self.waited: set[int] = set()
        self.last_compute = PORT  # before the first own computation: what the block before launched
        self.is_open = False

    def move(self, index: int, move: Move) -> None:
        """A collective: one step, or one per hop of a ring."""
        first, hops = len(self.steps), max(1, move.pieces)
        parts = self.rings.get(move.source, range(0)) if move.pieces else range(0)
        for hop in range(hops):
            is_last = hop == hops - 1
            if parts and not is_last:
                preds = {parts[hop]}  # a piece of a gradient leaves when its part of the computation is done
            else:
                preds = {self.last_compute, self.made.get(move.source, self.last_compute)}
            self.steps.append(Step(True, [index], preds, 1.0 / hops, is_last))
        if move.pieces:
            self.rings[move.target] = range(first, len(self.steps))
        self.made[move.target] = len(self.steps) - 1
        self.is_open = False

    def compute(self, index: int, instruction: Instruction) -> None:
        """A computation: joins the run that is open unless it has to wait for something new."""
        need = {self.made[v] for v in reads(instruction) if v in self.made}
        need = {s for s in need if s == PORT or self.steps[s].is_comm} - self.waited
        self.waited |= need
        ring = self._ring(instruction, need)
        if ring is not None:
            self._go_round(index, instruction, need, ring)
            return
        if need or not self.is_open:
            self.steps.append(Step(is_comm=False, preds=need))
            self.is_open = True
            self.last_compute = len(self.steps) - 1
        self.steps[-1].instructions.append(index)
        for value in writes(instruction):
            self.made[value] = len(self.steps) - 1

    def _ring(self, instruction: Instruction, need: set[int]) -> range | None:
        """The hops that bring keys and values to an attention that has not waited for them yet."""
        if not isinstance(instruction, Compute) or instruction.op.kind is not OpKind.ATTENTION:
            return None
        return next((self.rings[v] for v in reads(instruction) if v in self.rings and self.made[v] in need), None)

    def _go_round(self, index: int, instruction: Instruction, need: set[int], ring: range) -> None:
        """One part on a rank's own piece at once, and one for each piece when it has arrived."""
        first, parts = len(self.steps), len(ring) + 1
        for part in range(parts):
            preds = {ring[part - 1]} if part else need - {ring[-1]}
            self.steps.append(Step(False, [index], preds, 1.0 / parts, part == parts - 1))
        self.is_open, self.last_compute = False, len(self.steps) - 1
        for value in writes(instruction):
            self.made[value] = self.last_compute
            self.rings[value] = range(first, len(self.steps))
