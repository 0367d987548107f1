"""From a strategy tree and a cluster to the execution graph.

chain      configs propagated; block programs with collectives and backward
planner    steps of every pipeline rank, in program order
relations  groups, algorithms, flows over the links
fold       classes of ranks, links and groups
emit       columns of tasks for the representatives
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from proteus.cluster import Cluster
from proteus.compiler.chain import Chunk, framework_chain
from proteus.compiler.check_stages import check_stages
from proteus.compiler.emit import Emitter
from proteus.compiler.graph import ExecutionGraph
from proteus.compiler.kinds import SpanKind
from proteus.compiler.memory import StaticMemory, static_memory
from proteus.compiler.planner import RankPlanner, Tied
from proteus.compiler.rank_plan import share_rows
from proteus.compiler.relations import paired_ranks
from proteus.compiler.state import ParameterState, states
from proteus.compiler.tables import CommRow
from proteus.costs import precision as precisions
from proteus.costs.ops import Calibration
from proteus.costs.precision import Precision
from proteus.errors import StrategyError
from proteus.frameworks import Framework
from proteus.identity import MemoKey
from proteus.placement import Shard
from proteus.progress import Progress
from proteus.strategy.config import Memory, Training
from proteus.strategy.schedule import parse_grid, plan, validate
from proteus.strategy.schedules.pipeline_plan import PipelinePlan
from proteus.strategy.tree import StrategyTree


def compile_tree(
    tree: StrategyTree,
    cluster: Cluster,
    *,
    fold: bool = True,
    sharing: bool = True,
    overlap: bool = True,
    algorithm: str | None = None,
    calibration: Calibration | None = None,
    progress: Progress | None = None,
) -> ExecutionGraph:
    """Compile a strategy for a cluster.

    Parameters
    ----------
    fold
        Play one rank of every class of equal ranks; False plays them all.
    sharing
        False gives every communication its links for itself.
    overlap
        False leaves computation and communication unslowed by each other.
    algorithm
        Force a collective algorithm, e.g. ``ring`` or ``tree/ll128``.
    calibration
        What was measured on the machine; it beats the cost models.
    progress
        May stop it between two passes.

    Raises
    ------
    StrategyError
        The strategy needs more devices than the cluster has, or contradicts itself.
    """
    if tree.num_devices > cluster.num_devices:
        raise StrategyError(
            f"the strategy needs {tree.num_devices} devices ({tree.mesh!r}), {cluster.name} has {cluster.num_devices}; "
            f"lower a degree or take {-(-tree.num_devices // cluster.devices_per_host)} nodes"
        )
    per_gpu, notes = frameworks_on(tree, cluster)
    if calibration is not None:
        per_gpu = {name: calibration.on_host(framework) for name, framework in per_gpu.items()}
    framework = _planned(per_gpu)
    precision = precisions.kept_by(framework, tree.training.precision)
    chunks = framework_chain(tree, framework, precision)
    progress = progress or Progress()
    progress.check()
    schedule = schedule_of(tree)
    is_split = frozenset(int(c) for c in np.flatnonzero(schedule.is_split))
    planner = RankPlanner(chunks, tree.training, precision, framework, is_split, _tied(chunks, precision))
    plans, comms = share_rows([planner.plan(rank, *schedule.columns(rank)) for rank in range(schedule.num_ranks)])
    progress.check()
    static = tuple(_static(_own(chunks, rank), tree.training, precision) for rank in range(len(plans)))
    emitter = Emitter(
        tree, cluster, chunks, schedule, plans, comms, precision, per_gpu, framework, algorithm, calibration
    )
    progress.check()
    return emitter.graph(static, notes, fold=fold, sharing=sharing, overlap=overlap)


def frameworks_on(tree: StrategyTree, cluster: Cluster) -> tuple[dict[str, Framework], tuple[str, ...]]:
    """(name of a GPU that the tree uses -> the framework as it runs there, what was replaced and why)."""
    per_gpu: dict[str, Framework] = {}
    notes: dict[str, None] = {}
    devices = [0]
    if len(cluster.gpu_kinds) > 1:
        devices = np.unique(cluster.gpu_kind()[: tree.num_devices], return_index=True)[1].tolist()
    for device in devices:
        gpu = cluster.gpu(device)
        if gpu.name not in per_gpu:
            per_gpu[gpu.name], framework_notes = tree.training.framework.on(gpu)
            notes.update(dict.fromkeys(framework_notes))
    kept = [name for name, framework in per_gpu.items() if not framework.flash]
    if kept and len(kept) < len(per_gpu):
        notes[f"memory: attention scores are counted on every GPU, as on {', '.join(kept)}"] = None
    return per_gpu, tuple(notes)


def _planned(per_gpu: Mapping[str, Framework]) -> Framework:
    """The framework whose memory all ranks are planned with: one that keeps the scores, where any does."""
    return next((framework for framework in per_gpu.values() if not framework.flash), next(iter(per_gpu.values())))


def _own(chunks: tuple[Chunk, ...], rank: int) -> MemoKey[tuple[Chunk, ...]]:
    rank_chunks = tuple(c for c in chunks if c.rank == rank)
    return MemoKey(rank_chunks, *(c.key for c in rank_chunks))


@lru_cache(maxsize=64)
def _static(rank_chunks: MemoKey[tuple[Chunk, ...]], training: Training, precision: Precision) -> StaticMemory:
    return static_memory(rank_chunks.value, training, precision)


def schedule_of(tree: StrategyTree) -> PipelinePlan:
    """The pipeline plan of a tree."""
    pipeline_plan = _plan(tree)
    check_stages(tree, pipeline_plan)
    return pipeline_plan


def _plan(tree: StrategyTree) -> PipelinePlan:
    config = tree.schedule
    if config.grid is not None:
        pipeline_plan = validate(parse_grid(config.grid))
        if pipeline_plan.num_chunks != len(tree.stages) or pipeline_plan.num_micro_batches != tree.num_micro_batches:
            raise StrategyError(
                f"the grid has {pipeline_plan.num_chunks} chunks and {pipeline_plan.num_micro_batches} micro-batches, "
                f"the strategy {len(tree.stages)} and {tree.num_micro_batches}"
            )
        return pipeline_plan
    return plan(
        config.name, tree.num_pipeline_ranks, tree.num_micro_batches, config.virtual_stages, config.max_in_flight
    )


def _tied(chunks: tuple[Chunk, ...], precision: Precision) -> list[Tied]:
    """Tied parameters whose owner is on another pipeline rank."""
    owners: dict[str, tuple[Chunk, tuple[int, int, int, ParameterState]]] = {}
    for chunk in chunks:
        for number, link in enumerate(chunk.links):
            for state in states(link):
                if state.parameter.tied_to is None and not link.run.block.indexed:
                    path = f"{link.run.block.name}.{state.parameter.name}"
                    owners[path] = (chunk, (chunk.index, number, 0, state))
    tied_parameters = []
    for chunk in chunks:
        for number, link in enumerate(chunk.links):
            for state in states(link):
                tied_to = state.parameter.tied_to
                if tied_to is None:
                    continue
                owner, item = owners[tied_to]
                if (state.parameter.gradient < 0) != (item[3].parameter.gradient < 0):
                    raise StrategyError(
                        f"{link.path(0)}.{state.parameter.name} is tied to {tied_to}, but only one of them is frozen; "
                        "they are one parameter, freeze both or none"
                    )
                _check_tied(f"{link.path(0)}.{state.parameter.name}", state, chunk, tied_to, item[3], owner)
                if owner.rank == chunk.rank or state.parameter.gradient < 0:
                    continue
                parts = chunk.mesh.degree(state.kept["gradient"] or state.kept["optimizer"])
                row = CommRow(
                    mesh=chunk.mesh, axes=(), kind="all_reduce", size_bytes=state.numel * precision.grad_bytes / parts,
                    stream="gradient", name=f"all_reduce tied {tied_to}", node=(link.run.path, ""),
                    span=SpanKind.GRADIENT_COMM,
                    members=paired_ranks(owner.first_device, chunk.first_device, chunk.mesh.size),
                )  # fmt: skip
                items = (item, (chunk.index, number, 0, state))
                tied_parameters.append(Tied(ranks=(owner.rank, chunk.rank), comm=row, items=items))
    return tied_parameters


def _check_tied(
    name: str, state: ParameterState, chunk: Chunk, path: str, owner: ParameterState, owner_chunk: Chunk
) -> None:
    """One parameter in two places: it must lie alike in both."""
    if owner_chunk.mesh != chunk.mesh:
        raise StrategyError(
            f"{name} is tied to {path}, whose stage has {owner_chunk.mesh!r} instead of {chunk.mesh!r}; "
            "give both stages one mesh"
        )
    is_trained = state.parameter.gradient >= 0
    beside = is_trained and chunk.rank == owner_chunk.rank  # the gradients are added before they are reduced
    for property_name, here, there in (
        ("partition", _places(state, chunk), _places(owner, owner_chunk)),
        ("axes of gradient sums", _sums(state), _sums(owner) if beside else _sums(state)),
        ("memory", _memory(state, is_trained), _memory(owner, is_trained)),
    ):
        if here != there:
            raise StrategyError(
                f"{name} is tied to {path}, but their {property_name} differs: {here} and {there}; make them equal"
            )


def _places(state: ParameterState, chunk: Chunk) -> tuple[str, ...]:
    """The layout of a parameter with its dims numbered: tied ones may name them differently."""
    dims = _dims(state, chunk)
    return tuple(f"S({dims.index(p.dim)})" if isinstance(p, Shard) else repr(p) for p in state.parameter.layout)


def _memory(state: ParameterState, is_trained: bool) -> tuple[str, ...]:
    """How its parameter and, where it is trained, gradient and optimizer state are kept, as the tree prints it."""
    return tuple(
        f"{role}={Memory(state.kept[role], offload=role in state.offloaded)!r}"
        for role in (("parameter", "gradient", "optimizer") if is_trained else ("parameter",))
    )


def _sums(state: ParameterState) -> tuple[str, ...]:
    """Axes over which the gradient is a partial sum."""
    return tuple(sorted((*state.tensor_axes, *state.data_axes)))


def _dims(state: ParameterState, chunk: Chunk) -> tuple[str, ...]:
    link = next(link for link in chunk.links if state in states(link))
    return link.program.block.tensors[state.parameter.name].dims
