"""How a tensor lies on one mesh axis, in terms of PyTorch's DTensor.

A *layout* is one placement per mesh axis.  When several axes shard one dim,
the axis that stands first in the mesh cuts first (DTensor's left-to-right
rule), and a size that does not divide is cut by DTensor's chunk rule: every
chunk has ``ceil(size / parts)`` elements, the last ones fewer or none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from proteus.arguments import Choice, Text, check_fields
from proteus.errors import StrategyError

ReduceOp = Literal["sum", "max"]


@dataclass(frozen=True, slots=True)
class Shard:
    """The tensor is cut along the dim named `dim`."""

    dim: str

    def __post_init__(self) -> None:
        check_fields(self, StrategyError, dim=Text("the name of a dim"))

    def __repr__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True, slots=True)
class Replicate:
    """Every rank of the axis holds the whole tensor."""

    def __repr__(self) -> str:
        return "R"


@dataclass(frozen=True, slots=True)
class Partial:
    """Every rank holds a term; the tensor is their `op`."""

    op: ReduceOp = "sum"

    def __post_init__(self) -> None:
        check_fields(self, StrategyError, op=Choice(lambda: ("sum", "max"), "reduction"))

    def __repr__(self) -> str:
        return f"P({self.op})"


Placement = Shard | Replicate | Partial


def chunk(size: int, parts: int, index: int) -> tuple[int, int]:
    """Offset and length of chunk `index` when `size` is cut in `parts`.

    >>> [chunk(10, 4, i) for i in range(4)]
    [(0, 3), (3, 3), (6, 3), (9, 1)]
    >>> [chunk(5, 4, i) for i in range(4)]
    [(0, 2), (2, 2), (4, 1), (5, 0)]
    """
    step = -(-size // parts)
    start = min(index * step, size)
    return start, min(step, size - start)
