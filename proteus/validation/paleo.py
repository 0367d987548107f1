"""A step time in the way of Paleo: FLOP over a share of the peak, bytes over bandwidths, nothing overlapped.

The yardstick of the ablation.  Source: Qi, Sparks and Talwalkar, "Paleo: A
Performance Model for Deep Neural Networks", ICLR 2017.
"""

from __future__ import annotations

from proteus.cluster import Cluster
from proteus.cluster.kinds import LinkKind
from proteus.costs.ops import OpCosts
from proteus.strategy import StrategyTree
from proteus.strategy.axes import degrees

#: Paleo's "platform percent of peak", one number for all products: the paper measures it per machine;
#: here the one that leaves the shipped table without bias
PERCENT_OF_PEAK = 0.43
#: passes over the model: forward and the two products of the backward
PASSES = 3.0
#: collectives of a layer under tensor parallelism, forward and backward (Shoeybi et al., arXiv 1909.08053)
TENSOR_REDUCTIONS = 4.0
HALF_BYTES = 2.0


def paleo_step_s(tree: StrategyTree, cluster: Cluster) -> float:
    """The step time by that model [s]."""
    model, training = tree.model, tree.training
    gpu = cluster.gpu()
    tensor = degrees(tree.stages[0].mesh)["tp"]
    stages = tree.num_pipeline_ranks
    data = tree.num_devices // (tensor * stages)
    peak = OpCosts(gpu).peak(training.precision)
    micro = tree.num_micro_batches
    again = any(config.recompute == "full" for _, config in tree.configs)
    compute_s = (PASSES + again) * model.flop() * training.global_batch / tree.num_devices / (peak * PERCENT_OF_PEAK)
    bubble = (stages - 1) / tree.schedule.virtual_stages / micro
    hidden, layers = float(model.facts.get("hidden", 0)), float(model.facts.get("layers", 0))
    inside_Bps = gpu.nvlink_Bps or gpu.pcie_Bps
    moved = TENSOR_REDUCTIONS * layers / stages * training.micro_batch * model.seq * hidden * HALF_BYTES
    tensor_s = micro * moved * 2.0 * (tensor - 1) / tensor / inside_Bps
    share = model.num_params / (tensor * stages) * HALF_BYTES
    outside_Bps = (
        inside_Bps
        if cluster.num_hosts == 1
        else float(cluster.link_capacity_Bps[cluster.link_kind == LinkKind.NIC].min())
    )
    gradient_s = 2.0 * share * (data - 1) / data / outside_Bps
    return compute_s * (1.0 + bubble) + tensor_s + gradient_s
