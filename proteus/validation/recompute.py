"""Recomputation of some ops of a layer, as frameworks do it."""

from __future__ import annotations

from collections.abc import Callable

from proteus.model.graph import Block, Op, OpKind
from proteus.strategy import StrategyTree

#: ops that cost little to run again (Megatron-Core's recompute_modules layernorm, mlp_act, moe_act)
_NORMS = (OpKind.LAYER_NORM, OpKind.RMS_NORM)
_CHEAP = (*_NORMS, OpKind.ACTIVATION, OpKind.DROPOUT)
#: share of the products of a layer that torchtitan's per-op policy runs again: every second one
#: (torchtitan distributed/activation_checkpoint.py, ``_get_custom_policy``)
ALTERNATE = 2


def recompute_cheap(tree: StrategyTree) -> StrategyTree:
    """Norms and activations are run again in the backward."""
    return _set(tree, lambda block, op: op.kind in _CHEAP)


def recompute_norms(tree: StrategyTree) -> StrategyTree:
    """Norms are run again in the backward, whatever else is."""
    return _set(tree, lambda block, op: op.kind in _NORMS)


def recompute_alternate(tree: StrategyTree) -> StrategyTree:
    """All but attention and every second product is run again, as torchtitan's selective per-op checkpointing.

    The products of a layer are fewer here (query, key and value are one), so
    the projections are run again in every layer and the wide product before
    the activation in every second: the same share of the FLOP.
    """
    first = {block.name: (0, block.count // ALTERNATE - 1) for block in tree.model.blocks}
    tree = _set(tree, lambda block, op: op.kind in _CHEAP or op.name.endswith("attention.proj"))
    for block in tree.model.blocks:
        low, high = first[block.name]
        if block.indexed and high >= low:
            for op in block.ops:
                if op.name.endswith((".gate_up", ".fc1")):
                    tree = tree.set(f"{block.name}.{low}-{high}.{op.name}", recompute="full")
    return tree


def _set(tree: StrategyTree, wanted: Callable[[Block, Op], bool]) -> StrategyTree:
    for block in tree.model.blocks:
        if block.indexed:
            for op in block.ops:
                if wanted(block, op):
                    tree = tree.set(f"{block.name}.*.{op.name}", recompute="full")
    return tree
