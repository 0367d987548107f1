"""A device mesh: named axes over an array of ranks, outermost axis first."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from proteus.arguments import Pairs, check_fields
from proteus.errors import StrategyError


@dataclass(frozen=True, slots=True)
class Mesh:
    """Named axes with their sizes.

    Parameters
    ----------
    axes
        ``(name, size)`` pairs, outermost first.  Rank ``r`` has the
        coordinates ``unravel_index(r, sizes)``.

    Examples
    --------
    >>> mesh = Mesh((("dp", 4), ("tp", 2)))
    >>> mesh
    mesh(dp=4, tp=2)
    >>> mesh.groups("tp").tolist()
    [[0, 1], [2, 3], [4, 5], [6, 7]]
    """

    axes: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        check_fields(self, StrategyError, axes=Pairs())
        names = [name for name, _ in self.axes]
        if len(set(names)) != len(names):
            raise StrategyError(f"mesh axes {names} repeat a name; give each axis its own")

    def __repr__(self) -> str:
        return f"mesh({', '.join(f'{name}={size}' for name, size in self.axes)})"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(size for _, size in self.axes)

    @property
    def size(self) -> int:
        """Number of ranks."""
        return math.prod(self.shape)

    def degree(self, axes: tuple[str, ...] | str) -> int:
        """Number of ranks along `axes` together."""
        wanted = (axes,) if isinstance(axes, str) else axes
        sizes = dict(self.axes)
        return math.prod(sizes[name] for name in wanted)

    def coordinates(self) -> np.ndarray:
        """int[size, num_axes]: the coordinates of every rank."""
        return np.stack(np.unravel_index(np.arange(self.size), self.shape or (1,)), axis=1)

    def groups(self, axes: tuple[str, ...] | str) -> np.ndarray:
        """int[num_groups, degree]: the ranks that differ only along `axes`.

        The order inside a group is that of the mesh axes, whatever the order
        in which `axes` names them.
        """
        wanted = (axes,) if isinstance(axes, str) else axes
        unknown = [name for name in wanted if name not in self.names]
        if unknown:
            raise StrategyError(f"mesh axis {unknown[0]!r} is not in {self!r}")
        inner = [i for i, name in enumerate(self.names) if name in wanted]
        outer = [i for i in range(len(self.axes)) if i not in inner]
        ranks = np.arange(self.size).reshape(self.shape)
        return ranks.transpose(outer + inner).reshape(-1, self.degree(tuple(wanted)))
