"""Flat shards: how parameters, gradients and optimizer state are cut while not in use.

A local tensor is flattened, padded to a multiple of all parts, and viewed with
one dim per mesh axis that may cut it.  A shard over some of the axes is the
view indexed by the rank's coordinate on them; what is not indexed is whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from proteus.mesh import Mesh


@dataclass(frozen=True, slots=True)
class FlatSpec:
    """The axes that may cut a tensor, in mesh order, and its shape on the rank."""

    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, mesh: Mesh, axes: Sequence[str], shape: Sequence[int]) -> FlatSpec:
        used = tuple(name for name in mesh.names if name in axes)
        return cls(used, tuple(mesh.degree(name) for name in used), tuple(shape))

    def flatten(self, local: Tensor) -> FlatShard:
        numel, parts = math.prod(self.shape), math.prod(self.sizes)
        padded = torch.zeros(-(-numel // parts) * parts, dtype=local.dtype)
        padded[:numel] = local.reshape(-1)
        return FlatShard(self, (), padded.reshape(*self.sizes, -1))


@dataclass(frozen=True, slots=True)
class FlatShard:
    """What a rank holds of a flat tensor: cut over the axes `held`."""

    spec: FlatSpec
    held: tuple[str, ...]
    data: Tensor

    def _position(self, axis: str) -> int:
        return sum(1 for name in self.spec.axes[: self.spec.axes.index(axis)] if name not in self.held)

    def pick(self, axes: Sequence[str], coordinate: dict[str, int]) -> FlatShard:
        """Cut over more axes, at the rank's coordinate."""
        shard = self
        for axis in axes:
            if axis not in shard.held:
                data = shard.data.select(shard._position(axis), coordinate[axis])
                held = tuple(name for name in shard.spec.axes if name in (*shard.held, axis))
                shard = FlatShard(shard.spec, held, data)
        return shard

    def with_data(self, data: Tensor) -> FlatShard:
        return FlatShard(self.spec, self.held, data)

    def whole(self) -> Tensor:
        """The local tensor; only where nothing is cut."""
        assert not self.held, f"still cut over {self.held}"
        return self.data.reshape(-1)[: math.prod(self.spec.shape)].reshape(self.spec.shape)


def joined(shards: Sequence[FlatShard], axes: Sequence[str]) -> FlatShard:
    """The shards of a group put together along `axes`; ranks in mesh order."""
    spec, held = shards[0].spec, shards[0].held
    order = [axis for axis in spec.axes if axis in axes]
    assert set(axes) <= set(held), f"joins over {axes} what is cut over {held}"
    left = tuple(axis for axis in held if axis not in axes)
    sizes = [spec.sizes[spec.axes.index(axis)] for axis in order]
    stacked = torch.stack([s.data for s in shards]).reshape(*sizes, *shards[0].data.shape)
    # dims now: the joined axes, the axes that were whole, the rest; put the axes in mesh order
    now = [*order, *(axis for axis in spec.axes if axis not in held)]
    want = [axis for axis in spec.axes if axis not in left]
    permutation = [now.index(axis) for axis in want]
    return FlatShard(spec, left, stacked.permute(*permutation, len(now)).contiguous())
