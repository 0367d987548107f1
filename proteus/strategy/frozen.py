"""Which parameters are trained, and which ops the backward therefore reaches.

A node that is ``frozen`` keeps its parameters as they are: no gradient, no
optimizer state.  Gradients of activations still pass through it, back to the
first parameter that is trained; before that nothing has a gradient at all::

    embedding   layer 0        layer 1        head
    frozen      adapters       adapters       frozen
    no backward from its       all of it      gradients of
                adapters on                   activations alone
"""

from __future__ import annotations

from collections.abc import Mapping

from proteus.model.graph import Block, OpKind
from proteus.strategy.config import NodeConfig
from proteus.strategy.tree import StrategyTree

#: ids and masks have no gradient
_COUNTED = ("int64", "int32", "bool")
#: GEMMs with a weight: a gradient of theirs by the activation, and one by the weight
_WEIGHED = (OpKind.LINEAR, OpKind.CONV2D)


def trained_parameters(block: Block, configs: Mapping[str, NodeConfig]) -> frozenset[str]:
    """Names of the parameters of a block that have a gradient; the first op that uses one decides.

    Parameters
    ----------
    configs
        What the tree says for every op name.
    """
    frozen: dict[str, bool] = {}
    for op in block.ops:
        for operand in op.inputs:
            frozen.setdefault(operand.tensor, bool(configs[op.name].frozen))
    return frozenset(p.name for p in block.parameters() if p.dtype not in _COUNTED and not frozen.get(p.name, False))


def quantised_parameters(block: Block, configs: Mapping[str, NodeConfig]) -> frozenset[str]:
    """Names of the weights of GEMMs that are kept in 4 bits: those of frozen GEMMs alone."""
    return frozenset(
        operand.tensor
        for op in block.ops
        if op.kind is OpKind.LINEAR and configs[op.name].frozen == "nf4"
        for operand in op.inputs[1 : 1 + len(op.outputs)]
        if block.tensors[operand.tensor].kind == "parameter"
    )


def frozen_paths(tree: StrategyTree) -> frozenset[str]:
    """Full paths of the parameters that are not trained, by their owner."""
    return frozenset(
        parameter.tied_to or f"{run.block.path(copy)}.{parameter.name}"
        for run in tree.runs()
        for trained in (trained_parameters(run.block, run.configs),)
        for parameter in run.block.parameters()
        if parameter.name not in trained
        for copy in run.copies
    )


def training_flop(tree: StrategyTree) -> float:
    """FLOP of the GEMMs of one sample, forward and backward.

    A GEMM costs as much in each of its two gradients as in the forward;
    the gradient by a weight that is not trained is never made, and no
    gradient at all before the first trained parameter.  In the block of that
    parameter all gradients by activations count.

    >>> import proteus as pt
    >>> tree = pt.StrategyTree(pt.models.load("llama3-8b"))
    >>> training_flop(tree) / tree.model.flop()
    3.0
    """
    saved, has_trained = 0.0, False
    for run in tree.runs():
        trained = trained_parameters(run.block, run.configs)
        has_trained = has_trained or bool(trained)
        for op in run.block.ops:
            made_by_weight = op.kind in _WEIGHED and op.inputs[1].tensor not in trained
            saved += (1.0 if has_trained and made_by_weight else 2.0 * (not has_trained)) * op.flop() * len(run.copies)
    return 3.0 * tree.model.flop() - saved
