"""Switches that nobody decided: both settings are simulated, and the band covers both.

If the user names no framework, its kernels and runtime are a guess.  A named
framework decides all switches by its documented defaults; a field of the plan
decides its own switch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proteus.errors import ProteusError
from proteus.model.graph import OpKind
from proteus.result.windows import windows
from proteus.strategy.tree import StrategyTree

if TYPE_CHECKING:
    from proteus.result.result import Result

#: a switch that changes the step by less is not reported and does not widen the band
MIN_WORTH = 0.05
#: unfused elementwise ops, as eager frameworks run them
_UNFUSED: dict[str, Any] = {
    "norm": "native", "fused_rope": False, "fused_bias_activation": False, "fused_dropout_add": False,
    "fused_cross_entropy": False, "fused_permute": False,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A switch and the step time with its other setting.

    Parameters
    ----------
    name
        Name of the switch, for people.
    other
        The setting that was not used.
    step_time_s
        Step time with that setting [s].
    """

    name: str
    other: str
    step_time_s: float

    def worth(self, step_time_s: float) -> float:
        """Logarithm of the step time with the other setting over `step_time_s`."""
        return math.log(self.step_time_s / step_time_s)


def open_switches(result: Result) -> tuple[Switch, ...]:
    """The switches that neither plan nor framework decides and that matter, the largest effect first.

    >>> import proteus as pt
    >>> tree = pt.StrategyTree(pt.models.load("gpt2")).parallelize(dp=8, global_batch=64)
    >>> cluster = pt.clusters.load("dgx-a100")
    >>> [switch.name for switch in open_switches(pt.simulate(tree.change(framework="megatron-core"), cluster))]
    []
    >>> "CUDA graphs" in [switch.name for switch in open_switches(pt.simulate(tree, cluster))]
    True
    """
    if result.plan["framework"].who == "you" or result.tree.plan is None or not result.step_time_s:
        return ()
    from proteus.compiler.compile import compile_tree  # these load numba, which takes a while
    from proteus.htae.engine import play

    switches = []
    for name, other, tree in _alternatives(result):
        try:
            graph = compile_tree(tree, result.cluster, calibration=result.graph.calibration)
        except ProteusError:
            continue  # the other setting is impossible here
        step_s = windows(graph, play(graph.tasks)).step_time_s
        switch = Switch(name=name, other=other, step_time_s=step_s)
        if abs(switch.worth(result.step_time_s)) >= MIN_WORTH:
            switches.append(switch)
    return tuple(sorted(switches, key=lambda switch: -abs(switch.worth(result.step_time_s))))


def _alternatives(result: Result) -> Iterator[tuple[str, str, StrategyTree]]:
    """(what is open, the other way, the tree that way)."""
    plan, tree = result.plan, result.tree
    framework, kinds = result.graph.framework, {op.kind for block in tree.model.blocks for op in block.ops}

    def is_open(name: str) -> bool:
        return plan[name].who != "you"

    if is_open("attention") and OpKind.ATTENTION in kinds:
        alternative = "cudnn" if framework.attention == "flash2" else "flash2"
        yield "attention kernel", alternative, tree.in_framework(framework.but(attention=alternative))
    yield "fusions", "elementwise ops are not fused", tree.in_framework(framework.but(**_UNFUSED))
    if is_open("cuda_graphs"):
        graphed = framework.but(launch_s=0.0, op_s=0.0, expert_s=0.0)
        yield "CUDA graphs", "the step is captured", tree.in_framework(graphed)
    if is_open("overlap_gradients") and max(plan.value("dp"), plan.value("cp")) > 1:
        flipped = not tree.training.overlap_gradients
        description = (
            "gradients are reduced beside the backward" if flipped else "gradients are reduced after the backward"
        )
        yield "overlap of gradients", description, tree.change(overlap_gradients=flipped)
    if is_open("overlap_tensor") and plan.value("tp") > 1 and plan.value("sequence_parallel"):
        flipped_to = "none" if framework.overlaps_tensor != "none" else "all"
        yield "tensor overlap", flipped_to, tree.in_framework(framework.but(overlaps_tensor=flipped_to))
    if OpKind.DISPATCH in kinds and plan.value("ep") > 1:
        merges = not framework.merges_tokens
        description = "tokens travel once per device" if merges else "tokens travel once per expert"
        yield "expert dispatch", description, tree.in_framework(framework.but(merges_tokens=merges))
