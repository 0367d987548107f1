"""Ops and tensors over factors: the traced graph before its dims have names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from proteus.model.graph import OpKind, TensorKind
from proteus.torch_import.factors import Axes, Factor, atoms


@dataclass(eq=False, slots=True, kw_only=True)
class RawTensor:
    """A tensor; `factors` are its dims, in order.

    Parameters
    ----------
    maker
        The op that writes it; None for parameters and data.
    biases
        Biases that its maker left to the op that reads it.
    """

    name: str
    factors: list[Factor]
    kind: TensorKind = "activation"
    dtype: str | None = None
    maker: RawOp | None = None
    biases: list[RawTensor] = field(default_factory=list)


@dataclass(eq=False, slots=True, kw_only=True)
class RawOp:
    """An op.

    Parameters
    ----------
    path
        Of the module that it belongs to, with what it does appended where the module does more.
    ins, outs
        Tensors with the factors by which the op indexes their dims, in the order of those.
    indivisible, reduction
        Factors of these roles; all others are parallel.
    """

    path: str
    kind: OpKind
    ins: list[tuple[RawTensor, list[Factor]]]
    outs: list[tuple[RawTensor, list[Factor]]]
    indivisible: list[Factor] = field(default_factory=list)
    reduction: list[Factor] = field(default_factory=list)
    saves: list[RawTensor] = field(default_factory=list)
    saves_unfused: list[RawTensor] = field(default_factory=list)
    attrs: dict[str, Any] = field(default_factory=dict)
    selective: bool = False
    order: int = 0

    def reads(self, tensor: RawTensor) -> bool:
        return any(t is tensor for t, _ in self.ins)


@dataclass(slots=True, kw_only=True)
class Value:
    """A tensor as the program sees it: viewed, permuted, expanded.

    Parameters
    ----------
    state
        ``position``: rows of a table that stand at their own place;
        ``log_softmax``: logits of which the loss takes the logarithm of the softmax;
        ``rows``: logits of which the loss reads some, their classes last.
    """

    tensor: RawTensor
    axes: Axes
    state: Literal["plain", "position", "log_softmax", "rows"] = "plain"

    def factors(self) -> list[Factor]:
        return atoms(factor for axis in self.axes for factor in axis)
