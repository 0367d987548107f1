"""Random numbers that do not depend on how a tensor is cut: dropout's masks.

A mask is drawn for the whole tensor of the whole step, from a seed made of
the op's path, and every rank takes its part: divided and undivided runs drop
the same elements.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

import torch

from proteus.model.graph import BATCH
from proteus.verify.place import Place


@dataclass(slots=True)
class Noise:
    """Uniform numbers by op path; `global_batch` samples are drawn at once."""

    seed: int
    global_batch: int
    drawn: dict[str, torch.Tensor] = field(default_factory=dict)

    def of(self, path: str, dims: tuple[str, ...], at: Place, first_sample: int) -> torch.Tensor:
        """The part of the op's numbers at `at`, when the micro-batch starts at `first_sample`."""
        if path not in self.drawn:
            generator = torch.Generator().manual_seed(zlib.crc32(f"{self.seed}/{path}".encode()))
            shape = [self.global_batch if dim == BATCH else at.total[dim] for dim in dims]
            self.drawn[path] = torch.rand(shape, generator=generator, dtype=torch.float64)
        noise = self.drawn[path]
        for axis, dim in enumerate(dims):
            start = at.start[dim] + (first_sample if dim == BATCH else 0)
            noise = noise.narrow(axis, start, at.length[dim])
        return noise


@dataclass(frozen=True, slots=True)
class Draw:
    """The noise of one op in one copy of a block for one micro-batch."""

    noise: Noise
    path: str
    first_sample: int

    def keep(self, dims: tuple[str, ...], at: Place, rate: float) -> torch.Tensor:
        """Dropout's factors: 0 where an element is dropped, else ``1 / (1 - rate)``."""
        uniform = self.noise.of(self.path, dims, at, self.first_sample)
        return (uniform >= rate).to(torch.float64) / (1.0 - rate)
