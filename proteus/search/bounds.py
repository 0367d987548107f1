"""What a strategy needs at the least: bounds that need no simulation.

A bound may be low and is never high, so what it rules out is really out.
"""

from __future__ import annotations

from proteus.cluster import Cluster
from proteus.cluster.kinds import LinkKind
from proteus.model.graph import Model, OpKind
from proteus.search.space import Shape
from proteus.strategy.tree import StrategyTree

#: schedules whose ranks keep micro-batches as 1F1B does, or more
_AS_1F1B = ("1f1b", "gpipe", "interleaved")
#: schedules that fill the bubble with weight gradients
_FILLED = ("zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipe")


def least_memory(tree: StrategyTree, cluster: Cluster) -> float:
    """Bytes that the fullest rank holds at the least: state, and the micro-batches in flight."""
    from proteus.compiler.chain import framework_chain
    from proteus.compiler.memory import saved_tensors, static_memory
    from proteus.costs import precision as precisions

    framework = tree.training.framework.on(cluster.gpu()).framework
    precision = precisions.kept_by(framework, tree.training.precision)
    chunks = framework_chain(tree, framework, precision)
    ranks = tree.num_pipeline_ranks
    worst = 0.0
    for rank in range(ranks):
        rank_chunks = [chunk for chunk in chunks if chunk.rank == rank]
        kept = sum(
            sum(saved_tensors(link.program).values()) * link.count for chunk in rank_chunks for link in chunk.links
        )
        in_flight = min(ranks - rank, tree.num_micro_batches) if tree.schedule.name in _AS_1F1B else 1
        worst = max(worst, static_memory(rank_chunks, tree.training, precision).total + kept * in_flight)
    return worst


def least_time(model: Model, cluster: Cluster, shape: Shape, precision: str) -> float:
    """Seconds of a step at the least: GEMMs at peak rate, and the schedule's bubble.

    One micro-batch passes every stage and the busiest stage works through all
    the others: (m + (p - 1) / v) of the mean stage's time per micro-batch.
    """
    busy_s = least_flop(model) * shape.global_batch / (cluster.num_devices * _peak(cluster, precision))
    return busy_s if shape.schedule in _FILLED else busy_s * _stretch(shape)


def least_flop(model: Model) -> float:
    """FLOP of one sample without attention's scores (causal kernels skip half) and the first block's input gradient."""
    forward = [
        block.count * sum(op.flop() for op in block.ops if op.kind is not OpKind.ATTENTION) for block in model.blocks
    ]
    if model.lora is None:
        return 3.0 * sum(forward) - forward[0]
    # frozen weights have no gradient; nothing before the first adapter has one, at most one copy of a block
    copy = max(flop / block.count for flop, block in zip(forward, model.blocks, strict=True))
    return 2.0 * sum(forward) - forward[0] - copy


def guessed_time(model: Model, cluster: Cluster, shape: Shape, precision: str) -> float:
    """Seconds of a step by rule of thumb; only says what to simulate first.

    Compute at a usual rate, stretched by the bubble; four passes of a
    layer's activations over tensor-parallel ranks; a fifth of the gradients'
    reduction over the network exposed.
    """
    devices = cluster.num_devices
    busy_s = 3.0 * model.flop() * shape.global_batch / (devices * _DEFAULT_EFFICIENCY * _peak(cluster, precision))
    main = max(model.blocks, key=lambda block: block.count)
    gpu = cluster.gpu()
    tensor_s = 0.0
    if shape.tp > 1:
        one_bytes = _HALF_BYTES * shape.micro_batch * model.seq / shape.cp * main.dims.get("hidden", 0)
        inside_Bps = gpu.nvlink_Bps or gpu.pcie_Bps
        passes = _PASSES_PER_LAYER * main.count / shape.pp * shape.num_micro_batches
        tensor_s = passes * 2.0 * one_bytes * (1.0 - 1.0 / shape.tp) / inside_Bps
    data_s = 0.0
    if shape.dp > 1 and shape.dp * shape.cp * shape.tp > cluster.devices_per_host:
        nic_Bps = float(cluster.link_capacity_Bps[cluster.link_kind == LinkKind.NIC].max(initial=gpu.pcie_Bps))
        trained = model.num_params - (model.base.num_params if model.base else 0)
        held_bytes = _GRADIENT_BYTES * trained / (shape.tp * shape.pp)
        data_s = _EXPOSED * 2.0 * held_bytes / nic_Bps
    stretch = 1.0 if shape.schedule in _FILLED else _stretch(shape)
    return (busy_s + tensor_s) * stretch + data_s


#: rules of thumb of :func:`guessed_time`: they order the simulations and decide nothing
_DEFAULT_EFFICIENCY, _PASSES_PER_LAYER, _EXPOSED = 0.5, 4, 0.2
_HALF_BYTES, _GRADIENT_BYTES = 2.0, 4.0


def _peak(cluster: Cluster, precision: str) -> float:
    from proteus.costs.ops import OpCosts  # reads curves: not at `import proteus`

    return max(OpCosts(cluster.gpu(d)).peak(precision) for d in (0, cluster.num_devices - 1))


def _stretch(shape: Shape) -> float:
    return 1.0 + (shape.pp - 1) / (shape.num_micro_batches * shape.virtual_stages)
