"""Live bytes over time on every device, read from the timeline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proteus.compiler.graph import ExecutionGraph
from proteus.htae.tasks import Timeline
from proteus.units import GiB, MiB

#: what CUDA, cuBLAS and cuDNN take on a device before the first tensor:
#: context and kernels of torch 2 on Ampere and Hopper, as nvidia-smi shows it for an idle process
CONTEXT_BYTES = 0.6 * GiB
#: NCCL's buffers per communicator: channels of 2 peers x 3 protocols (NCCL_BUFFSIZE 4 MiB, LL and LL128 besides),
#: about 24 channels on NVSwitch hosts
COMMUNICATOR_BYTES = 200 * MiB


@dataclass(frozen=True, slots=True)
class MemorySteps:
    """Live bytes of a device: ``bytes[i]`` from ``time_s[i]`` on.

    Parameters
    ----------
    static_bytes
        Parameters, gradients and optimizer state, held throughout.
    reserve_bytes
        The runtime's own: context and communication buffers.
    """

    time_s: np.ndarray
    bytes: np.ndarray
    static_bytes: float
    reserve_bytes: float

    @property
    def peak_bytes(self) -> float:
        """Most bytes of tensors ever live (what ``max_memory_allocated`` reads)."""
        return float(self.bytes.max()) if len(self.bytes) else self.static_bytes

    @property
    def peak_s(self) -> float:
        return float(self.time_s[int(self.bytes.argmax())]) if len(self.bytes) else 0.0


def memory_steps(graph: ExecutionGraph, timeline: Timeline, number: int) -> MemorySteps:
    """The memory of rank class `number`.

    What ends at a time is given back before what starts then is taken.
    """
    rank = graph.classes[number]
    plan = graph.plans[rank.plan]
    static = graph.static[rank.plan].total
    takes, gives = np.flatnonzero(plan.alloc_bytes), np.flatnonzero(plan.free_bytes)
    times = np.concatenate([timeline.end_s[rank.task_of[gives]], timeline.start_s[rank.task_of[takes]]])
    deltas = np.concatenate([-plan.free_bytes[gives], plan.alloc_bytes[takes]])
    order = np.lexsort((np.arange(len(times)), times))
    streams = {graph.comm_rows[row].stream for row in np.unique(plan.ref[plan.is_comm]).tolist()}
    reserve = CONTEXT_BYTES + COMMUNICATOR_BYTES * len(streams)
    return MemorySteps(times[order], static + np.cumsum(deltas[order]), static, reserve)
