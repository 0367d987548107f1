"""From a module to a model: the passes of this folder, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from proteus.errors import ModelError
from proteus.model.graph import Model
from proteus.torch_import.blocks import blocks_of
from proteus.torch_import.fuse import fuse_products
from proteus.torch_import.ops import trained
from proteus.torch_import.patterns import Groups
from proteus.torch_import.trace import Loss, Trace, trace
from proteus.torch_import.translate import Translator

#: paths named in a sentence
_MAX_PATHS = 3


def from_torch(
    module: nn.Module,
    example_inputs: Any,
    *,
    loss: Loss | None = None,
    dims: Mapping[str, str | Sequence[str]] | None = None,
) -> Model:
    """The model of a PyTorch module's training step.

    The module is traced, not run: on the meta device
    (``with torch.device("meta"): module = ...``) nothing is allocated.

    Parameters
    ----------
    example_inputs
        What ``forward`` takes: a tensor, a tuple of them, or a dict by name.
        Their first dim is the batch.  The shapes count, not the content.
    loss
        ``"cross_entropy"`` or ``"mse"`` of what the module returns, or a
        function of that and the example inputs.  None takes the scalar that
        the module returns.
    dims
        ``{"old": "new"}`` renames a dim of the model.  ``{"tokens": ("batch",
        "seq")}`` names the dims of an example input, given by its name or
        place.

    Raises
    ------
    ModelError
        No module, inputs that do not fit it, or control flow that depends on
        the content of a tensor, with the line.

    Notes
    -----
    Not modelled: activation checkpointing inside the module, and frozen
    parameters (both are settings of the strategy: ``recompute=``,
    ``freeze=``).  :attr:`Model.assumptions` lists what applies.
    """
    if not isinstance(module, nn.Module):
        raise ModelError(f"from_torch: module is a {type(module).__name__}; give a torch.nn.Module")
    if not (loss is None or callable(loss) or loss in ("cross_entropy", "mse")):
        raise ModelError(f"from_torch: loss={loss!r}; give 'cross_entropy', 'mse' or a function of the module's output")
    dims = dims or {}
    rename = {old: new for old, new in dims.items() if isinstance(new, str)}
    of_inputs = {name: tuple(said) for name, said in dims.items() if not isinstance(said, str)}
    traced = trace(module, example_inputs, loss)
    unknown = set(of_inputs) - {node.name for node in traced.inputs} - {str(i) for i in range(len(traced.inputs))}
    if unknown:
        raise ModelError(
            f"from_torch: dims of {min(unknown)!r}, which is no input; they are {[n.name for n in traced.inputs]}"
        )
    translator = Translator(traced, Groups(traced.nodes, trained(traced)), of_inputs)
    translator.run(loss if isinstance(loss, str) else None)
    ops = fuse_products(_used(translator))
    blocks = blocks_of(ops, translator.batch, translator.loss, rename)
    every = {dim for block in blocks for dim in block.dims}
    lost = [old for old, new in rename.items() if new not in every]
    if lost:
        raise ModelError(f"from_torch: no dim is called {lost[0]!r}; they are {', '.join(sorted(every))}")
    seq = next((block.dims["seq"] for block in blocks if "seq" in block.dims), 1)
    name = type(module).__name__
    model = Model(
        name=name,
        blocks=blocks,
        seq=seq,
        facts={"family": "torch", "layers": max(b.count for b in blocks)},
        assumptions=_assumptions(translator, traced, module),
    )
    model.validate()
    return model


def _used(translator: Translator) -> list[Any]:
    """The ops that the loss depends on."""
    needed = {id(translator.loss)}
    kept = []
    for op in reversed(translator.ops):
        if any(id(tensor) in needed for tensor, _ in op.outs):
            needed |= {id(tensor) for tensor, _ in op.ins}
            kept.append(op)
    return kept[::-1]


def _assumptions(translator: Translator, traced: Trace, module: nn.Module) -> tuple[str, ...]:
    found = list(dict.fromkeys(translator.notes))
    for name, paths in sorted(translator.opaque.items()):
        places = list(dict.fromkeys(path or "the module itself" for path in paths))
        shown = ", ".join(places[:_MAX_PATHS]) + (
            f" and {len(places) - _MAX_PATHS} more" if len(places) > _MAX_PATHS else ""
        )
        found.append(f"{name} ({shown}) is costed by FLOP and bytes alone and is cut along the batch only")
    used = {id(p) for node, (_, p) in traced.parameters.items() if node.users}
    number = sum(p.numel() for p in module.parameters() if id(p) not in used)
    if number:
        found.append(f"{number:,} parameters are never used in forward, and are not counted")
    frozen = sorted({path for path, p in traced.parameters.values() if not p.requires_grad})
    if frozen:
        found.append(
            f"{len(frozen)} parameters are frozen in the module ({frozen[0]}, ...); say it by parallelize(freeze=)"
        )
    dtypes = sorted({str(p.dtype).removeprefix("torch.") for p in module.parameters()})
    if len(dtypes) > 1:
        found.append(f"The module's parameters are {' and '.join(dtypes)}; the plan's precision is used for all")
    return tuple(found)
