"""Live bytes over time on every device, read from the timeline, and who owns them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from proteus.compiler.chain import Link
from proteus.compiler.graph import ExecutionGraph
from proteus.compiler.memory import PhaseParts, gives_back, phase_parts
from proteus.compiler.rank_plan import RankPlan
from proteus.compiler.steps import phases, runs_weights_apart
from proteus.costs import precision as precisions
from proteus.hardware import Gpu
from proteus.htae.tasks import Timeline
from proteus.strategy.schedules.pipeline_plan import F, W
from proteus.units import GiB, MiB

#: what CUDA, cuBLAS and cuDNN take on a device before the first tensor:
#: context and kernels of torch 2 on Ampere and Hopper, as nvidia-smi shows it for an idle process
CONTEXT_BYTES = 0.6 * GiB
#: NCCL's buffers per communicator: channels of 2 peers x 3 protocols (NCCL_BUFFSIZE 4 MiB, LL and LL128 besides),
#: about 24 channels on NVSwitch hosts
COMMUNICATOR_BYTES = 200 * MiB

#: the forward and the autograd thread have a handle of cuBLAS each
CUBLAS_HANDLES = 2

#: owners of the bytes of a device, in the order in which charts stack them
OWNERS = (
    "reserve",
    "workspaces",
    "parameters",
    "gradients",
    "optimizer",
    "gathered parameters",
    "activations",
    "temporaries",
)


@dataclass(frozen=True, slots=True)
class MemorySteps:
    """Live bytes of a device: ``bytes[i]`` from ``time_s[i]`` on; before, `static_bytes`.

    Parameters
    ----------
    time_s, bytes
        float64[n]: tensors alive, the static ones included.
    static_bytes
        Parameters, gradients, optimizer state and workspaces, held throughout.
    reserve_bytes
        The runtime's own: context and communication buffers; not in `bytes`.
    by_owner
        float64[n] per owner of :data:`OWNERS`; without ``reserve`` they add
        up to `bytes`.
    """

    time_s: np.ndarray
    bytes: np.ndarray
    static_bytes: float
    reserve_bytes: float
    by_owner: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def peak_bytes(self) -> float:
        """Most bytes of tensors ever live (what ``max_memory_allocated`` reads)."""
        return float(self.bytes.max(initial=self.static_bytes))

    @property
    def peak_s(self) -> float:
        """When the peak is first reached [s]."""
        return float(self.time_s[int(self.bytes.argmax())]) if len(self.bytes) else 0.0

    def owners_at_peak(self) -> dict[str, float]:
        """Bytes of every owner at the peak, the reserve included."""
        at = int(self.bytes.argmax()) if len(self.bytes) else -1
        return {owner: float(column[at]) for owner, column in self.by_owner.items() if len(column)}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMemory:
    """What one node of the tree holds of a device at its peak [bytes]."""

    node: int
    path: str
    state_bytes: float
    activation_bytes: float

    @property
    def total_bytes(self) -> float:
        return self.state_bytes + self.activation_bytes


Shares = Mapping[str, tuple[np.ndarray, np.ndarray]]


def memory_over_time(graph: ExecutionGraph, timeline: Timeline) -> dict[int, MemorySteps]:
    """The memory of every simulated device."""
    shares = [_shares(graph, plan) for plan in graph.plans]
    return {rank.device: memory_steps(graph, timeline, n, shares[rank.plan]) for n, rank in enumerate(graph.classes)}


def memory_steps(graph: ExecutionGraph, timeline: Timeline, number: int, shares: Shares) -> MemorySteps:
    """The memory of rank class `number`, whose plan takes and gives back `shares`.

    What ends at a time is given back before what starts then is taken.
    """
    rank = graph.classes[number]
    plan, held = graph.plans[rank.plan], graph.static[rank.plan]
    rows, times, deltas = _events(graph, timeline, number)
    is_new = np.diff(times, prepend=-np.inf) > 0
    time_s, at = times[is_new], np.cumsum(is_new) - 1
    steps = np.cumsum(np.bincount(at, deltas, minlength=len(time_s)))
    framework = graph.framework
    workspaces = workspace_bytes(graph.cluster.gpu(rank.device), has_engine=framework.engine_workspace)
    static = held.total + workspaces
    owned = {
        "workspaces": np.full(len(time_s), workspaces),
        "parameters": np.full(len(time_s), held.parameter),
        "gradients": np.full(len(time_s), held.gradient),
        "optimizer": np.full(len(time_s), held.optimizer),
    }
    for owner, (of_take, of_give) in shares.items():
        part = np.where(deltas > 0, of_take[rows], -of_give[rows])
        live = np.cumsum(np.bincount(at, part, minlength=len(time_s)))
        owned[owner] = np.where(np.abs(live) < 1.0, 0.0, live)  # sums of floats leave dust
    reserve = reserve_bytes(graph, plan)
    reserve += framework.allocator_share * float((static + steps).max(initial=static))
    reserve += framework.fragmentation * float(steps.max(initial=0.0))
    owned["reserve"] = np.full(len(time_s), reserve)
    return MemorySteps(
        time_s, static + steps, static, reserve, {owner: owned[owner] for owner in OWNERS if owner in owned}
    )


def workspace_bytes(gpu: Gpu, *, has_engine: bool) -> float:
    """Scratch buffers of the libraries of GEMMs; torch allocates them, so they count as tensors.

    >>> from proteus.hardware import load
    >>> workspace_bytes(load("h100"), has_engine=True) / MiB
    96.0
    """
    libraries = gpu.chip.libraries
    engine = libraries.transformer_engine_bytes if has_engine else 0
    return float(CUBLAS_HANDLES * libraries.cublas_bytes + engine)


def reserve_bytes(graph: ExecutionGraph, plan: RankPlan) -> float:
    """What the runtime takes besides tensors: its context and the buffers of every communicator."""
    streams = {graph.comm_rows[row].stream for row in np.flatnonzero(np.bincount(plan.ref[plan.is_comm])).tolist()}
    return CONTEXT_BYTES + COMMUNICATOR_BYTES * len(streams)


def memory_by_node(graph: ExecutionGraph, timeline: Timeline, number: int) -> tuple[NodeMemory, ...]:
    """Owners of the bytes at the peak of rank class `number`, by block of the tree, the largest first."""
    rank = graph.classes[number]
    plan, held = graph.plans[rank.plan], graph.static[rank.plan]
    rows, times, deltas = _events(graph, timeline, number)
    peak_s = memory_steps(graph, timeline, number, _shares(graph, plan)).peak_s
    chunk_link = list(_links(graph, plan))
    live = {}
    for chunk, number_of_link, link in chunk_link:
        mine = (plan.chunk[rows] == chunk) & (plan.link[rows] == number_of_link) & (times <= peak_s)
        live[id(link)] = float(deltas[mine].sum())
    state = dict(held.by_link)
    memory_of_node: dict[int, tuple[str, float, float]] = {}
    for _, _, link in chunk_link:
        node = graph.node_of[(link.run.path, "")]
        _, s, a = memory_of_node.get(node, ("", 0.0, 0.0))
        memory_of_node[node] = (link.run.path, s + state.get(id(link), 0.0), a + live[id(link)])
    nodes = [NodeMemory(node=n, path=p, state_bytes=s, activation_bytes=a) for n, (p, s, a) in memory_of_node.items()]
    return tuple(sorted(nodes, key=lambda node: -node.total_bytes))


def _events(graph: ExecutionGraph, timeline: Timeline, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(step, time, change of live bytes) of everything that is taken or given back, in order of time."""
    rank = graph.classes[number]
    plan = graph.plans[rank.plan]
    takes, gives = np.flatnonzero(plan.alloc_bytes), np.flatnonzero(plan.free_bytes)
    rows = np.concatenate([gives, takes])
    times = np.concatenate([timeline.end_s[rank.task_of[gives]], timeline.start_s[rank.task_of[takes]]])
    deltas = np.concatenate([-plan.free_bytes[gives], plan.alloc_bytes[takes]])
    order = np.argsort(times, kind="stable")
    return rows[order], times[order], deltas[order]


def _links(graph: ExecutionGraph, plan: RankPlan) -> Iterator[tuple[int, int, Link]]:
    for chunk in graph.chunks:
        if chunk.rank == plan.rank:
            for number, link in enumerate(chunk.links):
                yield chunk.index, number, link


def _shares(graph: ExecutionGraph, plan: RankPlan) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Per owner the bytes that every step takes and gives back of it."""
    training = graph.tree.training
    precision = precisions.kept_by(graph.framework, training.precision)
    names = ("gathered parameters", "activations", "temporaries")
    take = {name: np.zeros(plan.num_steps) for name in names}
    give = {name: np.zeros(plan.num_steps) for name in names}
    for chunk, number, link in _links(graph, plan):
        is_split = runs_weights_apart(link.program, bool(graph.schedule.is_split[chunk]))
        for kind, phase in enumerate(phases(link.program, is_split)):
            mine = np.flatnonzero((plan.chunk == chunk) & (plan.link == number) & (plan.phase == kind))
            parts = phase_parts(link, phase, kind != W, precision, graph.framework)
            given = mine[plan.free_bytes[mine] > 0]
            taken = mine[plan.alloc_bytes[mine] > 0]
            of_take = _parts_of(parts, kind == F)
            of_give = _parts_of(parts, gives_back(kind, is_split))
            gathered = plan.is_comm[taken] & (plan.alloc_bytes[taken] == parts.gathered)
            for name, size in zip(names, of_give, strict=True):
                give[name][given] = size
            take[names[0]][taken[gathered]] = parts.gathered
            for name, size in zip(names[1:], of_take[1:], strict=True):
                take[name][taken[~gathered]] = size
    return {name: (take[name], give[name]) for name in names}


def _parts_of(parts: PhaseParts, has_kept: bool) -> tuple[float, float, float]:
    return parts.gathered, parts.kept if has_kept else 0.0, parts.transient
