"""Out of memory: how much is missing, who holds what there is, and what would make it fit.

The remedies are simulated, not guessed: each is an edit of the tree, compiled
and played, and kept when the result fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proteus.compiler.compile import compile_tree
from proteus.errors import ProteusError
from proteus.htae.engine import play
from proteus.result.memory import NodeMemory, memory_by_node
from proteus.strategy.axes import copy_axes
from proteus.strategy.config import RECOMPUTES, Memory
from proteus.strategy.recipe import ZERO_ROLES
from proteus.strategy.tree import StrategyTree
from proteus.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from proteus.result.result import Result

#: nodes named in the text
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """An edit of the tree, and what it would give.

    `missing_bytes` is 0 where the edited tree fits.
    """

    label: str
    tree: StrategyTree
    peak_bytes: float
    missing_bytes: float
    step_time_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a strategy has the memory that it needs.

    Parameters
    ----------
    device
        The fullest device.
    needed_bytes
        Its peak of tensors and the runtime's reserve.
    owners
        Bytes by owner at the peak, the largest first.
    nodes
        The blocks of the tree that hold most of it.
    remedies
        Edits that need less, those that fit first; sought only when it does
        not fit.
    """

    fits: bool
    device: int
    needed_bytes: float
    capacity_bytes: float
    owners: tuple[tuple[str, float], ...]
    nodes: tuple[NodeMemory, ...]
    remedies: tuple[Remedy, ...]

    @property
    def missing_bytes(self) -> float:
        return max(self.needed_bytes - self.capacity_bytes, 0.0)

    def __str__(self) -> str:
        need, have = format_bytes(self.needed_bytes), format_bytes(self.capacity_bytes)
        if self.fits:
            lines = [f"fits: GPU {self.device} needs {need} of {have}"]
        else:
            lines = [
                f"out of memory: GPU {self.device} needs {need}, it has {have}; "
                f"{format_bytes(self.missing_bytes)} missing"
            ]
        lines.append(
            "at the peak: " + ", ".join(f"{name} {format_bytes(size)}" for name, size in self.owners if size > 0)
        )
        lines.append("largest: " + ", ".join(f"{n.path} {format_bytes(n.total_bytes)}" for n in self.nodes[:_NAMED]))
        for r in self.remedies:
            end = "fits" if not r.missing_bytes else f"{format_bytes(r.missing_bytes)} missing"
            lines.append(f"{r.label}: {format_bytes(r.peak_bytes)}, {end}, step {format_seconds(r.step_time_s)}")
        return "\n".join(lines)

    __repr__ = __str__


def verdict(result: Result) -> Verdict:
    """The verdict on a result."""
    needed = {d: m.peak_bytes + m.reserve_bytes for d, m in result.memory_over_time.items()}
    device = max(needed, key=lambda d: needed[d] - result.cluster.gpu(d).memory_bytes)
    number = next(n for n, rank in enumerate(result.graph.classes) if rank.device == device)
    owners = sorted(result.memory_over_time[device].owners_at_peak().items(), key=lambda item: -item[1])
    return Verdict(
        fits=result.fits,
        device=device,
        needed_bytes=needed[device],
        capacity_bytes=float(result.cluster.gpu(device).memory_bytes),
        owners=tuple(owners),
        nodes=memory_by_node(result.graph, result.timeline, number),
        remedies=() if result.fits else tuple(remedies(result)),
    )


def remedies(result: Result) -> list[Remedy]:
    """Edits that need less memory than the result, those that fit first and then the fastest."""
    from proteus.result.result import Result, Timings

    possible = []
    for label, tree in edits(result.tree):
        try:
            graph = compile_tree(tree, result.cluster, calibration=result.graph.calibration)
        except ProteusError:
            continue  # the edit does not apply to this model
        timings = Timings(compile_s=0.0, simulate_s=0.0, tasks=graph.num_tasks, tasks_run=graph.tasks.num_tasks)
        other = Result(graph, play(graph.tasks), timings)
        if other.missing_bytes < result.missing_bytes:
            possible.append(
                Remedy(
                    label=label,
                    tree=tree,
                    peak_bytes=other.peak_memory_bytes,
                    missing_bytes=max(other.missing_bytes, 0.0),
                    step_time_s=other.step_time_s,
                )
            )
    return sorted(
        possible, key=lambda r: (r.missing_bytes > 0, r.step_time_s if not r.missing_bytes else r.missing_bytes)
    )


def edits(tree: StrategyTree) -> Iterator[tuple[str, StrategyTree]]:
    """Edits that trade time for memory: (what, tree)."""
    root = dict(tree.configs).get("")
    cut = {role for role, kept in ((root.memory or {}) if root else {}).items() if kept.axes}
    recompute_modes = [config.recompute for _, config in tree.configs if config.recompute]
    recompute = max(recompute_modes, key=RECOMPUTES.index, default="none")
    data = copy_axes(tree.stages[0].mesh)
    levels = [level for level, roles in enumerate(ZERO_ROLES) if data and set(roles) - cut]
    for level in levels:
        yield f"zero={level}", _sharding(tree, level, data)
    stronger = {"none": ("selective", "full"), "selective": ("full",), "full": ()}[recompute]
    for how in stronger:
        again = _recomputing(tree, how)
        yield f"recompute={how}", again
        for level in levels:
            yield f"zero={level}, recompute={how}", _sharding(again, level, data)
    if tree.training.micro_batch > 1:
        yield "micro_batch=1", tree.with_training(micro_batch=1)


def _sharding(tree: StrategyTree, level: int, axes: tuple[str, ...]) -> StrategyTree:
    """The tree with what ZeRO stage `level` shards."""
    if tree.plan is not None:
        return tree.change(zero=level)
    return tree.set("", memory={role: Memory(axes=axes) for role in ZERO_ROLES[level]})


def _recomputing(tree: StrategyTree, how: str) -> StrategyTree:
    """The tree with its layers computed again in the backward."""
    if tree.plan is not None:
        return tree.change(recompute=how, recompute_layers=None)
    for block in tree.model.blocks:
        if block.indexed:
            tree = tree.set(block.name, recompute=how)
    return tree
