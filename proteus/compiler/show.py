"""Programs as text, one instruction a line: for people, golden tests and the documentation."""

from __future__ import annotations

from collections.abc import Iterable

from proteus.compiler.layout import show
from proteus.compiler.program import Accumulate, BlockProgram, Compute, Instruction, Move


def show_value(program: BlockProgram, value: int) -> str:
    """A value as ``name [layout]``; a gradient is written ``d name``."""
    item = program.values[value]
    return f"{'d ' if item.is_grad else ''}{item.tensor} [{show(item.layout, program.mesh)}]"


def show_instruction(program: BlockProgram, instruction: Instruction) -> str:
    """One instruction.

    ``linear fc: x, weight → y``, ``all_reduce tp: y [tp:P(sum)] → [R]``.
    """
    match instruction:
        case Compute(op=op, phase=phase):
            takes = [v for v in (*instruction.inputs, *instruction.grads_in) if v >= 0]
            names = ", ".join(show_value(program, v) for v in takes)
            gives = ", ".join(show_value(program, v) for v in instruction.outputs)
            return f"{phase.value} {op.name}: {names} → {gives}"
        case Move(step=step, phase=phase):
            axes = "×".join(program.mesh.names[a] for a in step.axes)
            after = show(program.values[instruction.target].layout, program.mesh)
            return f"{phase.value} {step.kind} over {axes}: {show_value(program, instruction.source)} → [{after}]"
        case Accumulate(phase=phase):
            return f"{phase.value} add: {len(instruction.sources)} × {show_value(program, instruction.target)}"


def show_program(program: BlockProgram, ops: Iterable[str] | None = None) -> str:
    """The forward, what is recomputed, and the backward of a block; only of `ops` when given."""
    wanted = None if ops is None else set(ops)
    lines = []
    for name in ("forward", "recompute", "backward"):
        found = [i for i in getattr(program, name) if wanted is None or i.op.name in wanted]
        lines += [f"# {name}", *(show_instruction(program, i) for i in found)] if found else []
    return "\n".join(lines)
