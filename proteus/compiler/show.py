"""A block program as text: what every rank runs, one instruction a line.

::

    forward
      all_gather attention.norm.out over tp: dp:S(batch) tp:S(seq) -> dp:S(batch), 1024 B
      attention.qkv [dp/batch tp/kv_heads] -> attention.qkv.q, attention.qkv.kv
"""

from __future__ import annotations

from collections.abc import Iterable

from proteus.compiler.layout import show as layout_text
from proteus.compiler.program import Accumulate, BlockProgram, Compute, Instruction, Move, ProgramPhase

_SHORT = {
    ProgramPhase.FORWARD: "",
    ProgramPhase.RECOMPUTE: " again",
    ProgramPhase.INPUT_GRAD: " d/inputs",
    ProgramPhase.WEIGHT_GRAD: " d/weights",
}


def show(program: BlockProgram, ops: Iterable[str] | None = None) -> str:
    """The instructions of a block, forward, recomputed and backward.

    Only of the ops named in `ops` when given.  Gradients are written ``d x``; a computation shows which mesh axis cuts
    which dim, a move the layouts and the size by the convention of
    ``costs.collectives``.
    """
    wanted = None if ops is None else set(ops)
    lines = [f"{program.block.name} on {program.mesh!r}"]
    for title, instructions in (
        ("forward", program.forward),
        ("recompute", program.recompute),
        ("backward", program.backward),
    ):
        selected = [i for i in instructions if wanted is None or i.op.name in wanted]
        if selected:
            lines.append(title)
            lines.extend(f"  {line}" for line in _lines(program, selected))
    return "\n".join(lines) + "\n"


def _lines(program: BlockProgram, instructions: Iterable[Instruction]) -> Iterable[str]:
    for instruction in instructions:
        match instruction:
            case Compute():
                cut = [f"{axis}/{dim}" for axis, dim in zip(program.mesh.names, instruction.cut, strict=True) if dim]
                made = ", ".join(_name(program, value) for value in instruction.outputs)
                yield f"{instruction.op.name}{_SHORT[instruction.phase]} [{' '.join(cut) or 'whole'}] -> {made}"
            case Move():
                step = instruction.step
                axes = "×".join(program.mesh.names[axis] for axis in step.axes)
                size = "" if step.is_local else f", {instruction.size_bytes:g} B"
                before, after = (layout_text(layout, program.mesh) for layout in (step.before, step.after))
                again = " again" if instruction.phase is ProgramPhase.RECOMPUTE else ""
                name = _name(program, instruction.source)
                yield f"{step.kind} {name}{again} over {axes}: {before} -> {after}{size}"
            case Accumulate():
                layouts = layout_text(program.values[instruction.target].layout, program.mesh)
                yield f"add {len(instruction.sources)} × {_name(program, instruction.target)} in {layouts}"


def _name(program: BlockProgram, value: int) -> str:
    item = program.values[value]
    return f"d {item.tensor}" if item.is_grad else item.tensor
