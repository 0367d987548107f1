"""Factors: what the dims of a traced graph are made of.

A dim of a tensor is a list of *factors*.  It starts as one, of its size.
``view`` splits a factor where it makes two dims of one (hidden into heads and
head_dim) and lists several where it makes one of two; an op that needs two
dims to be the same (a residual sum) makes their factors one::

    x       [batch] [seq] [hidden]
    q(x)    [batch] [seq] [f]                f is new
    view    [batch] [seq] [heads] [d]        f is split into heads and d
    flatten [batch] [seq] [heads d]

Dims of size 1 have no factors, so a broadcast needs no rule of its own.  What
is left at the end, the factors that nothing splits, are the dims of the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


class Factor:
    """A dim, or a part of one; two that were made equal are one (union-find).

    Parameters
    ----------
    size
        At the traced sizes.

    Attributes
    ----------
    is_whole
        An op needs it as one dim, so that it is not split.
    """

    __slots__ = ("_parts", "_same", "hints", "is_whole", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.hints: dict[str, int] = {}  # name to weight
        self.is_whole = False  # an op needs it as one dim: it is never split
        self._same: Factor | None = None
        self._parts: tuple[Factor, Factor] | None = None

    def root(self) -> Factor:
        """The factor that stands for this one."""
        at = self
        while at._same is not None:
            at = at._same
        return at

    def atoms(self) -> list[Factor]:
        """The factors that this one is split into, outermost first; itself where it is whole."""
        root = self.root()
        return [root] if root._parts is None else [*root._parts[0].atoms(), *root._parts[1].atoms()]

    def split(self, outer: int) -> tuple[Factor, Factor]:
        """Split a whole factor into `outer` times the rest."""
        root = self.root()
        assert root._parts is None and root.size % outer == 0 and not root.is_whole
        root._parts = (Factor(outer), Factor(root.size // outer))
        return root._parts

    def hint(self, name: str, weight: int) -> None:
        """Suggest a name; of several the one with the largest weight is taken."""
        hints = self.root().hints
        hints[name] = max(weight, hints.get(name, 0))

    def __repr__(self) -> str:
        return f"{max(self.hints, key=self.hints.__getitem__, default='?')}={self.size}"


Axes = list[list[Factor]]


def atoms(factors: Iterable[Factor]) -> list[Factor]:
    """All atoms of a list of factors, in order."""
    return [atom for factor in factors for atom in factor.atoms()]


def fresh(size: int) -> list[Factor]:
    """The factors of a new dim: one, or none where its size is 1."""
    return [] if size == 1 else [Factor(size)]


def size_of(factors: Iterable[Factor]) -> int:
    """Elements along a dim."""
    return math.prod(factor.size for factor in factors)


def unify(one: Sequence[Factor], two: Sequence[Factor]) -> bool:
    """Make two dims the same, splitting what one of them splits; False where their parts do not fit each other."""
    left, right = atoms(one), atoms(two)
    while left and right:
        a, b = left[0], right[0]
        if a is b:
            left, right = left[1:], right[1:]
        elif a.size == b.size:
            b._same = a
            a.is_whole |= b.is_whole
            for name, weight in b.hints.items():
                a.hint(name, weight)
            left, right = atoms(left[1:]), atoms(right[1:])
        elif b.size % a.size == 0 and not b.is_whole:
            b.split(a.size)
            left, right = atoms(left), atoms(right)
        elif a.size % b.size == 0 and not a.is_whole:
            a.split(b.size)
            left, right = atoms(left), atoms(right)
        else:
            return False
    return not left and not right


def reshape(axes: Axes, shape: Sequence[int]) -> Axes | None:
    """The dims of a view with another shape; None where a dim would be cut across."""
    rest = atoms(factor for axis in axes for factor in axis)
    made: Axes = []
    for size in shape:
        axis: list[Factor] = []
        need = size
        while need > 1:
            if not rest:
                return None
            first = rest[0]
            if need % first.size == 0:
                axis.append(first)
                need //= first.size
                rest = rest[1:]
            elif first.size % need == 0 and not first.is_whole:
                outer, inner = first.split(need)
                axis.append(outer)
                need = 1
                # the same factor may stand again further on
                rest = [inner, *atoms(rest[1:])]
            else:
                return None
        made.append(axis)
    return made if not rest else None
