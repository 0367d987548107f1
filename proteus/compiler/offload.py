"""What is kept in host memory, and the copies that bring it to the device and back.

    optimizer    gradients to the host, Adam on the host, new parameters back
    parameter    to the device before each use
    activation   to the host after the forward of a copy, back before its backward

The host's Adam is a flow over the memory of its socket: as many ranks as
share the socket share its bandwidth.  Source: ZeRO-Offload (Ren et al.,
arXiv 2101.06840, section 5: CPU Adam is bound by memory bandwidth).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proteus.cluster import Cluster
from proteus.compiler.block import local_numel
from proteus.compiler.chain import Link
from proteus.compiler.state import ParameterState, is_held, states
from proteus.compiler.tables import HostCopy
from proteus.costs.collectives import Terms
from proteus.costs.flows import Flows
from proteus.costs.precision import Precision, num_moments

#: part of the nominal PCIe rate that a pinned copy reaches: NCCL takes 12 GB/s for gen 3 x16 (15.75 nominal)
COPY_EFFICIENCY = 12.0 / 15.75
#: launch of an asynchronous copy and its completion [s]: cudaMemcpyAsync of a few bytes
COPY_LATENCY_S = 10e-6
#: relative error of copies; PCIe hosts differ by about as much
COPY_SIGMA = 0.2


def copy_terms(size_bytes: float, kind: HostCopy) -> Terms:
    """Cost of one copy of a rank; the links it crosses set its rate."""
    work = size_bytes if kind is HostCopy.UPDATE else size_bytes / COPY_EFFICIENCY
    source = "pinned cudaMemcpyAsync; NCCL's PCIe figures"
    return Terms(COPY_LATENCY_S, work, float("inf"), COPY_SIGMA, source, "host copies")


def copy_flows(devices: np.ndarray, kind: HostCopy, cluster: Cluster) -> Flows:
    """Links that the copy of each device crosses."""
    routes = cluster.host_routes(devices, kind is not HostCopy.FROM_HOST)
    if kind is HostCopy.UPDATE:  # only the last link, the memory itself
        last = (routes >= 0).sum(axis=1) - 1
        routes = routes[np.arange(len(devices)), last][:, None]
    group, hop = np.nonzero(routes >= 0)
    link = routes[group, hop]
    order = np.lexsort((link, group))
    return Flows(group[order].astype(np.int32), link[order].astype(np.int32), np.ones(len(order), np.int32))


def parameter_bytes(link: Link, precision: Precision) -> float:
    """Parameters of one copy that come from the host before each use, on one rank."""
    mesh = link.program.mesh
    return sum(
        s.stored_bytes(precision.param_bytes) / mesh.degree(s.kept["parameter"])
        for s in states(link)
        if "parameter" in s.offloaded
    )


def activation_bytes(link: Link) -> float:
    """What autograd keeps of one copy and the tree sends to the host, on one rank."""
    program, offloaded = link.program, offloaded_activations(link)
    return sum(
        local_numel(program.block.tensors[name].dims, program.sizes, layout, program.mesh) * element
        for name, layout, element in program.saved
        if name in offloaded
    )


def offloaded_activations(link: Link) -> frozenset[str]:
    """Tensors that autograd keeps of one copy and the tree sends to the host."""
    program = link.program
    if not link.run.says("activation"):
        return frozenset()
    chosen = {
        operand.tensor
        for op in program.block.ops
        if (memory := (link.run.config(op).memory or {}).get("activation")) is not None and memory.offload
        for operand in (*op.inputs, *op.outputs)
    }
    return frozenset(name for name, _, _ in program.saved if name in chosen)


def update_bytes(parameters: float, optimizer: str, precision: Precision) -> float:
    """Traffic with host memory of an update: gradient read, master and moments read and written, parameter written."""
    moments = num_moments(optimizer)
    return parameters * (precision.grad_bytes + 2 * 4.0 + 2 * moments * precision.moment_bytes + precision.param_bytes)


def offloaded_parameters(links: Sequence[Link]) -> float:
    """Parameters of one rank whose optimizer state is on the host."""
    return sum(
        link.count * s.numel / link.program.mesh.degree(s.kept["optimizer"])
        for link in links
        for s in states(link)
        if on_host(s) and is_held(s, links)
    )


def on_host(state: ParameterState) -> bool:
    """Whether the host updates this parameter."""
    return "optimizer" in state.offloaded and state.parameter.gradient >= 0
