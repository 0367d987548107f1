"""What the trees to be simulated need measured: ops at their local sizes, optimizer steps, collectives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from proteus.cluster import Cluster
from proteus.compiler.chain import op_sizes
from proteus.compiler.compile import compile_tree
from proteus.compiler.graph import ExecutionGraph
from proteus.compiler.layout import local_chunk
from proteus.compiler.price import PHASE_OF, pricer
from proteus.compiler.program import Accumulate, Compute
from proteus.compiler.tables import HOST_COPIES, OpRow
from proteus.costs import precision as precisions
from proteus.costs.collective_types import Collective
from proteus.costs.lower import works
from proteus.costs.work import Phase, Work
from proteus.model.graph import Op
from proteus.strategy import StrategyTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How the run multiplies and which kernels it calls; what a measurement must imitate.

    Parameters
    ----------
    dtype
        Of activations and of the parameters that the ops read.
    tf32
        Whether fp32 GEMMs run as TF32.
    flash
        Whether attention is one fused call.
    optimizer, optimizer_kind
        ``adam`` or ``sgd``, and ``fused``, ``foreach`` or ``loop``.
    """

    dtype: str
    tf32: bool
    flash: bool
    optimizer: str
    optimizer_kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCall:
    """One op in one phase at local sizes, and how often a step runs it over all devices.

    `kernels` are what the cost model knows of it: the measured time is shared
    out among them.  `forward` are those of its forward.  `alone` says that no
    phase but INPUT_GRAD has a part of the backward.
    """

    op: Op
    sizes: Mapping[str, int]
    phase: Phase
    kernels: tuple[Work, ...]
    forward: tuple[Work, ...]
    habits: Habits
    alone: bool
    count: float

    def key(self) -> object:
        """Equal for calls that are measured once."""
        op = self.op
        operands = tuple(tuple(self.sizes[d] for d in o.dims) for o in (*op.inputs, *op.outputs))
        return op.kind, repr(sorted(op.attrs.items())), operands, self.phase, self.kernels, self.habits


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerStep:
    """The update of all parameters of one device."""

    kernels: tuple[Work, ...]
    shapes: tuple[tuple[int, ...], ...]
    habits: Habits
    count: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """Gradients of one tensor added up."""

    work: Work
    dtype: str
    count: float


@dataclass(slots=True, kw_only=True)
class Demand:
    """All that is to be measured."""

    calls: dict[object, OpCall] = field(default_factory=dict)
    optimizers: list[OptimizerStep] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)
    collectives: dict[tuple[Collective, int], set[float]] = field(default_factory=dict)


def demand_of(trees: Iterable[StrategyTree], cluster: Cluster) -> Demand:
    """What the simulation of `trees` asks of the cost models."""
    demand = Demand()
    for tree in trees:
        graph = compile_tree(tree, cluster)
        _add_computations(demand, graph)
        _add_collectives(demand, graph)
    return demand


def _habits(graph: ExecutionGraph) -> Habits:
    tree, framework = graph.tree, graph.framework
    precision = precisions.kept_by(framework, tree.training.precision)
    return Habits(
        dtype=precision.activation,
        tf32=precision.compute == "tf32",
        flash=framework.flash,
        optimizer=tree.training.optimizer,
        optimizer_kind=framework.optimizer_kernels,
    )


def _add_computations(demand: Demand, graph: ExecutionGraph) -> None:
    habits = _habits(graph)
    for rank in graph.classes:
        plan = graph.plans[rank.plan]
        runs = np.bincount(plan.ref[~plan.is_comm], minlength=len(plan.segments)) * rank.multiplicity
        for segment, count in zip(plan.segments, runs.tolist(), strict=True):
            for row in segment:
                _add_row(demand, graph, rank.device, row, habits, float(count))


def _add_row(demand: Demand, graph: ExecutionGraph, device: int, row: OpRow, habits: Habits, count: float) -> None:
    tree = graph.tree
    if row.wait_s:
        return  # a host's, no kernel's
    if row.program is None or row.instruction is None:
        step = OptimizerStep(kernels=row.kernels, shapes=_local_shapes(graph, device), habits=habits, count=count)
        demand.optimizers.append(step)
        return
    mesh = row.program.mesh
    first = next(c.first_device for c in graph.chunks if c.mesh == mesh and 0 <= device - c.first_device < mesh.size)
    coordinate = tuple(int(i) for i in mesh.coordinates()[device - first])
    framework = graph.framework
    precision = precisions.kept_by(framework, tree.training.precision)
    match row.instruction:
        case Compute() as compute:
            op, phase = compute.op, PHASE_OF[compute.phase]
            sizes = op_sizes(row.program, op, compute.cut, coordinate)
            kernels = works(op, sizes, phase, precision, framework)
            if not kernels:
                return
            call = OpCall(
                op=op,
                sizes=sizes,
                phase=phase,
                kernels=kernels,
                forward=works(op, sizes, Phase.FORWARD, precision, framework),
                habits=habits,
                alone=not works(op, sizes, Phase.WEIGHT_GRAD, precision, framework),
                count=count,
            )
            known = demand.calls.get(call.key())
            demand.calls[call.key()] = call if known is None else replace(known, count=known.count + count)
        case Accumulate() as add:
            prices = pricer(graph.cluster.gpu(device), precision, framework)
            work = prices.addition(row.program, add, coordinate)
            demand.sums.append(Sum(work=work, dtype=habits.dtype, count=count))
        case _:
            pass  # a local move costs nothing


def _local_shapes(graph: ExecutionGraph, device: int) -> tuple[tuple[int, ...], ...]:
    """Shapes of the parameters that the device holds, as the computation cuts them."""
    shapes = []
    for chunk in graph.chunks:
        place = device - chunk.first_device
        if not 0 <= place < chunk.mesh.size:
            continue
        coordinate = tuple(int(i) for i in chunk.mesh.coordinates()[place])
        for link in chunk.links:
            program = link.program
            for parameter in program.parameters:
                if parameter.gradient < 0 or parameter.tied_to is not None:
                    continue
                shape = tuple(
                    local_chunk(dim, program.sizes[dim], parameter.layout, program.mesh, coordinate)[1]
                    for dim in program.dims(parameter.value)
                )
                shapes += [shape] * link.count
    return tuple(shapes)


def _add_collectives(demand: Demand, graph: ExecutionGraph) -> None:
    for row in graph.comm_rows:
        if row.kind in HOST_COPIES:
            continue
        num_ranks = row.mesh.degree(row.axes) if row.members is None else row.members.members.shape[1]
        if num_ranks > 1:
            demand.collectives.setdefault((Collective(row.kind), num_ranks), set()).add(row.size_bytes)
    for transfer in graph.transfers:
        demand.collectives.setdefault((Collective.SEND, 2), set()).add(transfer.size_bytes)
