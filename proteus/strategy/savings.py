"""``recompute="auto"``: trees that need less and less memory, of which the first that fits is meant."""

from __future__ import annotations

import math
from collections.abc import Iterator

from proteus.strategy.config import Memory
from proteus.strategy.plan import RECOMPUTE_MODULES
from proteus.strategy.tree import StrategyTree

#: shares of the layers that are recomputed, or whose activations are offloaded, in this order
SHARES = (0.25, 0.5, 0.75)


def is_auto(tree: StrategyTree) -> bool:
    """Whether the tree uses the least recomputation that fits."""
    return tree.plan is not None and tree.decided.value("recompute") == "auto"


def ways(tree: StrategyTree, *, with_offload: bool) -> tuple[tuple[tuple[str, StrategyTree], ...], ...]:
    """Ways to need less memory, each a row of (what, tree) that need less and less and take longer and longer.

    Parameters
    ----------
    with_offload
        Also keep activations of more and more layers in host memory, as recipes
        of Megatron-Bridge do on Grace hosts (``cpu_offloading_num_layers`` of
        llama3_workload_base_configs.py).
    """
    rows = [tuple(_recomputing(tree))]
    if with_offload:
        rows.append(tuple(_offloading(tree)))
    return tuple(rows)


def _recomputing(tree: StrategyTree) -> Iterator[tuple[str, StrategyTree]]:
    """First norms and activation functions, then more and more layers of every stage."""
    modules = tree.change(recompute="none", recompute_modules=RECOMPUTE_MODULES)
    yield f"{' and '.join(RECOMPUTE_MODULES)} ops are recomputed", modules
    layers = max(block.count for block in tree.model.blocks) // len(tree.stages)
    for number in dict.fromkeys(math.ceil(share * layers) for share in SHARES):
        if 0 < number < layers:
            some = tree.change(recompute="full", recompute_layers=number)
            yield f"the first {number} layers of every stage are recomputed", some
    yield "all layers are recomputed", tree.change(recompute="full")


def _offloading(tree: StrategyTree) -> Iterator[tuple[str, StrategyTree]]:
    """The activations of more and more layers in host memory."""
    block = max(tree.model.blocks, key=lambda block: block.count)
    plain = tree.change(recompute="none")
    for number in dict.fromkeys(math.ceil(share * block.count) for share in SHARES):
        last = block.first + number - 1
        some = plain.set(f"{block.name}.{block.first}-{last}", memory={"activation": Memory(offload=True)})
        yield f"activations of {block.name}.{block.first}-{last} are offloaded", some
