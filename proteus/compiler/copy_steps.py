"""The steps of one copy of a block in one phase, with what its parameters, gradients and activations need around it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proteus.compiler.chain import Link
from proteus.compiler.kinds import SpanKind
from proteus.compiler.memory import phase_memory
from proteus.compiler.offload import activation_bytes, parameter_bytes
from proteus.compiler.phases import CopySteps
from proteus.compiler.program import BlockProgram, Move, ProgramPhase, reads
from proteus.compiler.rank_plan import HOST_ACTIVATIONS, HOST_PARAMETERS, PIECE
from proteus.compiler.state import copy_moves
from proteus.compiler.steps import PORT, Phase, stream_of
from proteus.compiler.tables import CommRow, HostCopy, Node, OpRow, Tables, block_node
from proteus.costs.passes import stream
from proteus.costs.precision import Precision
from proteus.frameworks import Framework
from proteus.strategy.schedules.pipeline_plan import B, F, W


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlanner:
    """Plans copies; the rows that their steps refer to are added to `tables`."""

    tables: Tables
    precision: Precision
    framework: Framework

    def steps(self, link: Link, phase: Phase, kind: int, is_split: bool) -> CopySteps:
        """One copy of a block in one phase, with its parameter gathers and gradient reductions."""
        program, tables = link.program, self.tables
        is_comm: list[bool] = []
        ref: list[int] = []
        edges: list[tuple[int, int]] = []
        part: list[int] = []
        uses = bool(phase.steps) and (kind != W or _reads_parameters(program, phase))
        brought = self._copies_in(link, kind, uses)
        copies = [tables.comm(row) for row, _ in brought]
        gathered = self._move_rows(link, has_gathers=uses, has_reductions=False)
        gather = [tables.comm(row) for row in gathered]
        shift = len(copies) + len(gather)
        is_comm += [True] * shift
        ref += [*copies, *gather]
        part += [copy_number for _, copy_number in brought] + [-1 - k for k in range(len(gather))]
        edges.extend((c, len(copies) + g) for c in range(len(copies)) for g in range(len(gather)))
        placed: list[OpRow] = []
        if not self.framework.prefetches or (kind == B and not self.framework.prefetches_backward):
            edges.extend((PORT, len(copies) + g) for g in range(len(gather)))
        if not self.framework.prefetches:
            placed = [_placement(row, kind) for row in gathered]
        for number, step in enumerate(phase.steps):
            at = shift + number
            node = _node(link, phase, step.instructions[0])
            part.append(step.instructions[0] if step.is_last else PIECE)
            if step.is_comm:
                is_comm.append(True)
                move = phase.instructions[step.instructions[0]]
                assert isinstance(move, Move)
                exposed = self._exposed(program, move)
                beside = self.framework.overlaps_experts and stream_of(program, move) == "expert"
                ref.append(tables.comm(tables.move_row(program, move, node, step.share, exposed, beside)))
            else:
                is_comm.append(False)
                rows = [
                    tables.op_row(program, phase.instructions[i], _node(link, phase, i), step.share, step.is_last)
                    for i in step.instructions
                ]
                ref.append(tables.segment(placed + rows))
                placed = []
            edges.extend((p if p == PORT else p + shift, at) for p in step.preds)
        computes = [i for i, comm in enumerate(is_comm) if not comm]
        if computes:
            edges.extend((g, computes[0]) for g in range(shift))
            # collectives before the first computation read what came from the host, too
            edges.extend((c, at) for c in range(len(copies)) for at in range(shift, computes[0]))
        reduce: list[int] = []
        if kind == (W if is_split else B) and computes:
            reduce = [tables.comm(row) for row in self._move_rows(link, has_gathers=False, has_reductions=True)]
            for number, row in enumerate(reduce):
                is_comm.append(True)
                ref.append(row)
                part.append(-1 - len(gather) - number)
                edges.append((computes[-1], len(ref) - 1))
        if kind == F and computes:
            for copy in self._copies_out(link):
                is_comm.append(True)
                ref.append(tables.comm(copy))
                part.append(HOST_ACTIVATIONS)
                edges.append((computes[-1], len(ref) - 1))
        alloc, free = phase_memory(link, phase, kind, is_split, len(ref), shift, self.precision, self.framework)
        return CopySteps(
            is_comm=np.array(is_comm, bool),
            ref=np.array(ref, np.int32),
            part=np.array(part, np.int32),
            edges=np.array(edges, np.int64).reshape(-1, 2),
            outputs=tuple(o if o == PORT else o + shift for o in phase.outputs),
            brought=tuple(range(shift)) if not copies else tuple(range(len(copies))),
            reduction=len(ref) - 1 if reduce else -1,
            alloc_bytes=alloc,
            free_bytes=free,
        )

    def _exposed(self, program: BlockProgram, move: Move) -> float:
        """Part of a collective that the GEMM it feeds, or that feeds it, cannot hide."""
        overlaps = self.framework.overlaps_tensor
        if overlaps == "none" or (overlaps != "all" and move.phase is not ProgramPhase.FORWARD):
            return 1.0
        kinds = ("reduce_scatter",) if overlaps == "forward_scatters" else ("all_gather", "reduce_scatter")
        if move.step.kind not in kinds or stream_of(program, move) != "tensor":
            return 1.0
        return 1.0 / program.mesh.degree(tuple(program.mesh.names[a] for a in move.step.axes))  # one chunk of each

    def _copies_in(self, link: Link, kind: int, reads_parameters: bool) -> list[tuple[CommRow, int]]:
        """What comes from the host before a phase, with its `part`."""
        mesh, name, node = link.program.mesh, link.run.block.name, block_node(link)
        rows = []
        if reads_parameters and (size := parameter_bytes(link, self.precision)):
            row = self.tables.copy_row(mesh, HostCopy.FROM_HOST, size, f"parameters of {name} from host", node)
            rows.append((row, HOST_PARAMETERS))
        if kind == B and (size := activation_bytes(link)):
            row = self.tables.copy_row(mesh, HostCopy.FROM_HOST, size, f"activations of {name} from host", node)
            rows.append((row, HOST_ACTIVATIONS))
        return rows

    def _copies_out(self, link: Link) -> list[CommRow]:
        """What goes to the host after a forward."""
        size = activation_bytes(link)
        if not size:
            return []
        tensor_name = f"activations of {link.run.block.name} to host"
        return [self.tables.copy_row(link.program.mesh, HostCopy.TO_HOST, size, tensor_name, block_node(link))]

    def _move_rows(self, link: Link, *, has_gathers: bool, has_reductions: bool) -> list[CommRow]:
        """The collectives of :func:`copy_moves`."""
        name, node = link.run.block.name, block_node(link)
        rows = []
        apart = not self.framework.prefetches
        for move, numel in copy_moves(link, has_gathers=has_gathers, has_reductions=has_reductions, apart=apart):
            # FSDP gathers in the compute precision whatever the master copy is
            gathers = move.kind == "all_gather"
            size = numel * self.precision.reduce_bytes
            if gathers:
                size = sum(state.stored_bytes(self.precision.activation_bytes) for *_, state in move.items)
            what = (
                ("parameter", f"all_gather parameters of {name}")
                if gathers
                else ("gradient", f"{move.kind} gradients of {name}")
            )
            rows.append(self.tables.state_row(link.program.mesh, move.axes, move.kind, size, *what, node))
        return rows


def _placement(row: CommRow, kind: int) -> OpRow:
    """Copies of what every rank sent to its place: torch's all_gather into a list of tensors makes one by rank."""
    kernels = (stream(2.0 * row.size_bytes, kernels=row.mesh.degree(row.axes)),)
    span = SpanKind.FORWARD if kind == F else SpanKind.BACKWARD
    return OpRow(None, None, kernels, f"place what {row.name} brought", row.node, span, is_last=False)


def _node(link: Link, phase: Phase, instruction: int) -> Node:
    return (link.run.path, phase.instructions[instruction].op.name)


def _reads_parameters(program: BlockProgram, phase: Phase) -> bool:
    values = {parameter.value for parameter in program.parameters}
    return any(value in values for instruction in phase.instructions for value in reads(instruction))
