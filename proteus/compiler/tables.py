"""Tables that steps refer to: segments of ops, communications, names, tree rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from proteus.compiler.kinds import SpanKind
from proteus.compiler.program import BlockProgram, Instruction, Move, ProgramPhase
from proteus.compiler.steps import stream_of
from proteus.costs.work import Work
from proteus.mesh import Mesh

if TYPE_CHECKING:
    from proteus.compiler.chain import Link
    from proteus.compiler.relations import Groups

_COMM_SPAN = {
    "tensor": SpanKind.TENSOR_COMM,
    "context": SpanKind.CONTEXT_COMM,
    "expert": SpanKind.EXPERT_COMM,
    "gradient": SpanKind.GRADIENT_COMM,
    "parameter": SpanKind.PARAMETER_COMM,
    "pipeline": SpanKind.PIPELINE_COMM,
    "to_host": SpanKind.COPY,
    "from_host": SpanKind.COPY,
    "host_update": SpanKind.HOST,
}
_COMPUTE_SPAN = {
    ProgramPhase.FORWARD: SpanKind.FORWARD,
    ProgramPhase.RECOMPUTE: SpanKind.RECOMPUTE,
    ProgramPhase.INPUT_GRAD: SpanKind.BACKWARD,
    ProgramPhase.WEIGHT_GRAD: SpanKind.WEIGHT_GRAD,
}


#: a line of the strategy tree: (path of a run of equal blocks, op name); see StrategyTree.node_ids
Node = tuple[str, str]
#: the whole model
ROOT: Node = ("", "")


def block_node(link: Link) -> Node:
    """The line of a run of equal blocks."""
    return (link.run.path, "")


class HostCopy(StrEnum):
    """Work between a device and its host; the `kind` of such communication rows."""

    TO_HOST = "to_host"
    FROM_HOST = "from_host"
    UPDATE = "host_update"  # the optimizer, on the host


HOST_COPIES = frozenset(HostCopy)


@dataclass(frozen=True, slots=True)
class OpRow:
    """One op of a segment: an instruction of a program, plain kernels (the optimizer), or a wait for the host."""

    program: BlockProgram | None
    instruction: Instruction | None
    kernels: tuple[Work, ...]
    name: str
    node: Node
    span: SpanKind
    share: float = 1.0  # of the op's work, whose numbers the last part makes
    is_last: bool = True  # whether it makes the numbers; copies make none
    wait_s: float = 0.0  # time in which the device has nothing to run and the host is busy


@dataclass(frozen=True, slots=True)
class CommRow:
    """A collective on every group of `axes` of a mesh.

    `members` are the groups where they are no axis of a mesh (tied embeddings
    join ranks of two chunks).  `exposed` is the part that the GEMM it
    feeds, or that feeds it, cannot hide; one that is `beside` runs while
    another micro-batch computes, and costs what it slows that by.
    """

    mesh: Mesh
    axes: tuple[str, ...]
    kind: str
    size_bytes: float
    stream: str
    name: str
    node: Node
    span: SpanKind
    members: Groups | None = None
    exposed: float = 1.0
    beside: bool = False


@dataclass(slots=True)
class Tables:
    """Rows that steps refer to; segments are per pipeline rank."""

    segments: list[list[OpRow]] = field(default_factory=list)
    comms: list[CommRow] = field(default_factory=list)
    _comm_at: dict[CommRow, int] = field(default_factory=dict)

    def segment(self, ops: list[OpRow]) -> int:
        self.segments.append(ops)
        return len(self.segments) - 1

    def comm(self, row: CommRow) -> int:
        at = self._comm_at.get(row)
        if at is None:
            at = self._comm_at[row] = len(self.comms)
            self.comms.append(row)
        return at

    def op_row(
        self, program: BlockProgram, instruction: Instruction, node: Node, share: float = 1.0, is_last: bool = True
    ) -> OpRow:
        span = _COMPUTE_SPAN[instruction.phase]
        return OpRow(program, instruction, (), instruction.op.name, node, span, share, is_last)

    def move_row(
        self,
        program: BlockProgram,
        move: Move,
        node: Node,
        share: float = 1.0,
        exposed: float = 1.0,
        beside: bool = False,
    ) -> CommRow:
        axes = tuple(program.mesh.names[a] for a in move.step.axes)
        stream = stream_of(program, move)
        return CommRow(
            mesh=program.mesh, axes=axes, kind=move.step.kind, size_bytes=move.size_bytes * share, stream=stream,
            name=f"{move.step.kind} {move.op.name}", node=node, span=_COMM_SPAN[stream], exposed=exposed, beside=beside,
        )  # fmt: skip

    def copy_row(self, mesh: Mesh, kind: HostCopy, size_bytes: float, tensor_name: str, node: Node) -> CommRow:
        """A copy between every rank and its host."""
        return self.state_row(mesh, (), kind, size_bytes, kind, tensor_name, node)

    def state_row(
        self, mesh: Mesh, axes: tuple[str, ...], kind: str, size_bytes: float, stream: str, name: str, node: Node
    ) -> CommRow:
        """A collective on gradients or parameters."""
        return CommRow(
            mesh=mesh,
            axes=axes,
            kind=kind,
            size_bytes=size_bytes,
            stream=stream,
            name=name,
            node=node,
            span=_COMM_SPAN[stream],
        )
