"""A step time in the way of Paleo: FLOP over a share of the peak, bytes over bandwidths, nothing overlapped.

The yardstick of the ablation.  Source: Qi, Sparks and Talwalkar, "Paleo: A
Performance Model for Deep Neural Networks", ICLR 2017.
"""

from __future__ import annotations

from proteus import Cluster, StrategyTree
from proteus.cluster import LinkKind

#: Paleo's "platform percent of peak", one number for all GEMMs: the paper measures it per machine;
#: here the one that leaves the shipped table without bias
PERCENT_OF_PEAK = 0.43
#: precisions whose GEMMs run at the peak of another one
PEAK_OF = {"fp8-rowwise": "fp8"}
#: passes over the model: forward and the two GEMMs of the backward
PASSES = 3.0
#: collectives of a layer under tensor parallelism, forward and backward (Shoeybi et al., arXiv 1909.08053)
TENSOR_REDUCTIONS = 4.0
HALF_BYTES = 2.0


def paleo_step_s(tree: StrategyTree, cluster: Cluster) -> float:
    """The step time by that model [s]."""
    model, training = tree.model, tree.training
    gpu = cluster.gpu()
    decided = tree.decided
    tensor, stages = decided.value("tp"), decided.value("pp")
    data = tree.num_devices // (tensor * stages)
    peak = gpu.peak_flops.get(PEAK_OF.get(training.precision, training.precision)) or gpu.peak_flops["fp32"]
    micro = tree.num_micro_batches
    again = decided.value("recompute") == "full"
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
