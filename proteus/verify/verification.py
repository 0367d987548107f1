"""Does a compiled strategy train like the undivided model?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from proteus.cluster import Cluster, clusters
from proteus.compiler.compile import compile_tree
from proteus.compiler.graph import ExecutionGraph
from proteus.compiler.program import BlockProgram, Compute
from proteus.compiler.state import ParameterState
from proteus.errors import ModelError
from proteus.htae.engine import play
from proteus.model.graph import BATCH, OpKind
from proteus.placement import Partial
from proteus.strategy import StrategyTree
from proteus.strategy.frozen import frozen_paths
from proteus.verify.chunks import LinkView, own_chunks
from proteus.verify.executor import Executor
from proteus.verify.place import place_of
from proteus.verify.problem import TokenGroup, check_divisible, make_problem
from proteus.verify.rank import Rank
from proteus.verify.reference import Outcome, undivided

#: float64 sums in another order differ by some 1e-15 of numbers near 1
TOLERANCE = 1e-9
#: parameters of the largest model: some minutes and GB
MAX_PARAMETERS = 20_000_000
#: GPUs of one host of the default cluster
_HOST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many collectives of one kind a step runs, one per group, and their bytes (sizes as NCCL counts them)."""

    count: int
    bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What came out of running a strategy with real numbers.

    Parameters
    ----------
    collectives
        By kind; ``send`` counts messages between stages.
    errors
        Largest absolute difference of loss, gradients and parameters.
    worst
        The gradient and the parameter that differ most.
    """

    ranks: int
    tasks: int
    collectives: Mapping[str, Count]
    errors: Mapping[str, float]
    worst: Mapping[str, str]
    tolerance: float = TOLERANCE

    @property
    def equal(self) -> bool:
        """Whether everything agrees to the tolerance (a NaN does not)."""
        return all(error <= self.tolerance for error in self.errors.values())

    def to_dict(self) -> dict[str, Any]:
        """As ``proteus verify --json`` prints it."""
        return {
            "ranks": self.ranks,
            "tasks": self.tasks,
            "collectives": {k: {"count": c.count, "bytes": c.bytes} for k, c in self.collectives.items()},
            "max_abs_err": dict(self.errors),
            "worst": dict(self.worst),
            "tolerance": self.tolerance,
            "equal": self.equal,
        }

    def __str__(self) -> str:
        lines = [f"{self.ranks} ranks, {self.tasks} tasks"]
        lines += [
            f"  {kind:<15}{c.count:>7} × {c.bytes / c.count:>12.0f} bytes" for kind, c in self.collectives.items()
        ]
        lines += [
            f"  {quantity:<15}differs by at most {error:.3g}"
            + (f" ({self.worst[quantity]})" if quantity in self.worst else "")
            for quantity, error in self.errors.items()
        ]
        verdict = "trains like the undivided model" if self.equal else "does NOT train like the undivided model"
        return "\n".join([*lines, f"{verdict} (tolerance {self.tolerance:g})"])


def verify_tree(tree: StrategyTree, cluster: Cluster | None, seed: int) -> Verification:
    """See :func:`proteus.verify.verify`."""
    if cluster is None:
        cluster = clusters.load("dgx-a100", nodes=-(-tree.num_devices // _HOST))
    check_size(tree)
    graph = compile_tree(tree, cluster, fold=False)
    batch = tree.training.global_batch
    is_divided = tree.num_micro_batches > 1 or any(
        _divides_batch(link.program) for chunk in graph.chunks for link in chunk.links
    )
    check_divisible(tree.model, is_divided=is_divided)
    problem = make_problem(tree.model, batch, seed)
    executor = Executor(graph, play(graph.tasks), problem)
    executor.run()
    return compare(executor, undivided(problem, tree.training.optimizer, token_groups(graph), frozen_paths(tree)))


def token_groups(graph: ExecutionGraph) -> dict[str, list[TokenGroup]]:
    """By path of the block: the tokens that ranks dispatch together, where experts have a capacity."""
    groups_of_path: dict[str, list[TokenGroup]] = {}
    for chunk in graph.chunks:
        for link in chunk.links:
            groups = _dispatched(link.program, graph)
            groups_of_path |= {link.path(copy): groups for copy in range(link.count) if groups}
    return groups_of_path


def _dispatched(program: BlockProgram, graph: ExecutionGraph) -> list[TokenGroup]:
    step = graph.tree.samples_per_micro_batch
    distinct: dict[TokenGroup, None] = {}
    for compute in program.forward:
        if compute.op.kind is not OpKind.DISPATCH or not isinstance(compute, Compute) or compute.op.attrs["dropless"]:
            continue
        samples, positions = compute.op.inputs[0].dims[:2]
        for coordinate in program.mesh.coordinates().tolist():
            at = place_of(program, compute.op, compute.cut, tuple(coordinate))
            for first in range(0, step * graph.schedule.num_micro_batches, step):
                start, left = first + at.start[samples], at.start[positions]
                group = TokenGroup(
                    samples=(start, start + at.length[samples]),
                    positions=(left, left + at.length[positions]),
                    capacity=math.prod(at.length[dim] for dim in program.block.derived),
                )
                distinct.setdefault(group)
    return list(distinct)


def check_size(tree: StrategyTree) -> None:
    """Refuse what would run for hours."""
    if tree.model.num_params > MAX_PARAMETERS:
        raise ModelError(
            f"{tree.model.name} has {tree.model.num_params:,} parameters, the check in float64 on the CPU takes at "
            f"most {MAX_PARAMETERS:,}; the strategy is the same on fewer layers or on tiny-llama, tiny-gpt, tiny-moe, "
            "tiny-cnn or tiny-dlrm"
        )


def _divides_batch(program: BlockProgram) -> bool:
    """Whether several ranks share the samples of a micro-batch."""
    return any(
        dim == BATCH and size > 1
        for instruction in program.forward
        if isinstance(instruction, Compute)
        for dim, size in zip(instruction.cut, program.mesh.shape, strict=True)
    )


def compare(executor: Executor, outcome: Outcome) -> Verification:
    """The differences between an executed graph and the undivided model."""
    graph = executor.graph
    largest = {"gradients": (0.0, ""), "parameters": (0.0, "")}
    seen: set[str] = set()
    for rank in executor.ranks:
        for name, view, state in _held(executor, rank):
            if state.parameter.gradient >= 0 and name in outcome.gradients:
                seen.add(name)
                error = _difference(executor, rank, view, state, outcome.gradients[name], "gradient", name)
                largest["gradients"] = _larger(largest["gradients"], error, name)
            error = _difference(executor, rank, view, state, outcome.parameters[name], "parameter", name)
            largest["parameters"] = _larger(largest["parameters"], error, name)
    for name in sorted(set(outcome.gradients) - seen):
        largest["gradients"] = _larger(largest["gradients"], math.inf, name)
    errors = {"loss": _loss_error(executor, outcome.loss)} | {
        quantity: error for quantity, (error, _) in largest.items()
    }
    return Verification(
        ranks=len(executor.ranks),
        tasks=graph.tasks.num_tasks,
        collectives=count_collectives(graph),
        errors=errors,
        worst={quantity: name for quantity, (_, name) in largest.items() if name},
    )


def _larger(old: tuple[float, str], error: float, name: str) -> tuple[float, str]:
    return (error, name) if error > old[0] or math.isnan(error) else old


def _held(executor: Executor, rank: Rank) -> list[tuple[str, LinkView, ParameterState]]:
    return [
        (view.key(copy, state), view, state)
        for chunk in own_chunks(executor.graph.chunks, rank.plan.rank)
        for link in range(len(chunk.links))
        for view in (executor.lookup.view(chunk.index, link),)
        for copy in range(view.link.count)
        for state in view.parameter_of.values()
    ]


def _difference(
    executor: Executor, rank: Rank, view: LinkView, state: ParameterState, whole: Tensor, quantity: str, name: str
) -> float:
    """Between what the rank holds in the end and its part of the undivided result."""
    want = executor.flat_spec(view, rank, state).flatten(executor.local(view, rank, state, whole))
    weight = rank.weights[name]
    if quantity == "gradient":
        have = rank.final_gradients[name]
    elif weight is not None:
        have = weight.flat
    elif executor.gathers_first:  # the next step gathers it
        have = rank.masters[name].flat
    else:
        return math.inf
    delta = (want.pick(have.held, rank.by_axis).data - have.data).abs()
    return float(delta.max()) if delta.numel() else 0.0


def _loss_error(executor: Executor, expected: float) -> float:
    """Every replica of the loss, its partial terms summed, against the undivided one."""
    chunk = executor.graph.chunks[-1]
    program = chunk.links[-1].program
    layout = program.values[program.loss].layout
    total = torch.zeros(chunk.mesh.shape, dtype=torch.float64)
    for rank in executor.ranks:
        if rank.plan.rank == chunk.rank:
            total[rank.coordinate] = torch.stack(list(rank.losses.values())).sum() / executor.num_micro
    terms = [axis for axis, placement in enumerate(layout) if isinstance(placement, Partial)]
    sums = total.sum(terms) if terms else total
    return float((sums - expected).abs().max())


def count_collectives(graph: ExecutionGraph) -> dict[str, Count]:
    """Collectives of an unfolded graph by kind: one per group, with the sum of their sizes."""
    counts: dict[str, tuple[int, float]] = {}
    counted: set[int] = set()
    for rank in graph.classes:
        plan = graph.plans[rank.plan]
        for step in plan.is_comm.nonzero()[0].tolist():
            task = int(rank.task_of[step])
            if task not in counted:
                counted.add(task)
                row = graph.comm_rows[plan.ref[step]]
                count, size = counts.get(row.kind, (0, 0.0))
                counts[row.kind] = (count + 1, size + row.size_bytes)
    for transfer in graph.transfers:
        count, size = counts.get("send", (0, 0.0))
        counts["send"] = (count + len(transfer.tasks), size + len(transfer.tasks) * transfer.size_bytes)
    return {kind: Count(count=count, bytes=size) for kind, (count, size) in sorted(counts.items())}
