"""GEMMs that frameworks run as one: query, key and value; gate and value of an MLP."""

from __future__ import annotations

from collections.abc import Sequence

from proteus.model.graph import OpKind
from proteus.torch_import.raw import RawOp, RawTensor

#: activations that read two products
_GATED = ("swiglu", "geglu")
_NORMS = (OpKind.RMS_NORM, OpKind.LAYER_NORM)


def fuse_products(ops: Sequence[RawOp]) -> list[RawOp]:
    """The ops, with the products of one input that meet in an attention or a gate made one product."""
    made = list(ops)
    for op in ops:
        if op.kind is OpKind.ATTENTION:
            _fuse(made, [_product(tensor) for tensor, _ in op.ins], "qkv")
        elif op.kind is OpKind.ACTIVATION and op.attrs["function"] in _GATED and len(op.ins) > 1:
            _fuse(made, [_product(tensor) for tensor, _ in op.ins[:2]], "gate_up")
    return made


def _product(tensor: RawTensor) -> RawOp | None:
    """The linear that makes a tensor, a norm of heads between them or not."""
    maker = tensor.maker
    if maker is not None and maker.kind in _NORMS:
        maker = maker.ins[0][0].maker
    return maker if maker is not None and maker.kind is OpKind.LINEAR else None


def _fuse(ops: list[RawOp], products: Sequence[RawOp | None], name: str) -> None:
    given = list(dict.fromkeys(op for op in products if op is not None))
    by_input: dict[int, list[RawOp]] = {}
    for op in given:
        if op in ops and not any(out.biases for out, _ in op.outs):
            by_input.setdefault(id(op.ins[0][0]), []).append(op)
    for group in by_input.values():
        parents = {op.path.rpartition(".")[0] for op in group}
        biased = {len(op.ins) > 1 + len(op.outs) for op in group}
        if len(group) < 2 or len(parents) > 1 or len(biased) > 1:
            continue
        weights = [item for op in group for item in op.ins[1 : 1 + len(op.outs)]]
        biases = [item for op in group for item in op.ins[1 + len(op.outs) :]]
        outs = [item for op in group for item in op.outs]
        (parent,) = parents
        fused = RawOp(
            path=f"{parent}.{name}" if parent else name,
            kind=OpKind.LINEAR,
            ins=[group[0].ins[0], *weights, *biases],
            outs=outs,
            saves=list(group[0].saves),
        )
        for out, _ in outs:
            out.name = f"{fused.path}.{out.name.removesuffix('.out').rpartition('.')[2]}"
            out.maker = fused
        at = min(ops.index(op) for op in group)
        ops[at] = fused
        for op in group:
            if op in ops:
                ops.remove(op)
