"""Which attention kernels run on which GPU; the table is ``kernels.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from proteus.hardware import Gpu

#: least compute capability of the GPUs of a generation (NVIDIA, CUDA C++ Programming Guide, "Compute Capabilities")
_CAPABILITY = {
    "kepler": 3.7, "maxwell": 5.2, "pascal": 6.0, "volta": 7.0, "turing": 7.5, "ampere": 8.0, "ada": 8.9,
    "hopper": 9.0, "blackwell": 10.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """What kernels ask of a GPU."""

    vendor: str
    generation: str
    compute_capability: float | None

    @classmethod
    def of(cls, gpu: Gpu) -> Chip:
        return cls(vendor=gpu.vendor, generation=gpu.generation, compute_capability=_CAPABILITY.get(gpu.generation))


@cache
def _table() -> dict[str, Any]:
    text = resources.files("proteus.frameworks").joinpath("kernels.yaml").read_text("utf-8")
    table: dict[str, Any] = yaml.safe_load(text)
    return table


def names() -> tuple[str, ...]:
    """Kernels that do not run on every GPU."""
    return tuple(_table())


def source(kernel: str) -> str:
    """Where the requirement is documented."""
    return str(_table()[kernel]["source"])


def cannot_run(kernel: str, chip: Chip) -> str | None:
    """Why a kernel does not run on a GPU, or None where it does.

    A GPU of another vendor, or without a known compute capability, is not judged.

    >>> cannot_run("flash2", Chip(vendor="nvidia", generation="volta", compute_capability=7.0))
    'needs compute capability 8.0 or more; this GPU has 7.0'
    """
    row = _table().get(kernel)
    if row is None:
        return None
    if chip.vendor == "amd":
        if chip.generation in row["amd"]:
            return None
        return f"needs {', '.join(row['amd'])}; this GPU is {chip.generation}" if row["amd"] else "needs an NVIDIA GPU"
    have = chip.compute_capability
    if chip.vendor != "nvidia" or have is None:
        return None
    least, most = float(row["nvidia"]["least"]), row["nvidia"].get("most")
    if have < least or (most is not None and have > float(most)):
        words = f"{least}" if most == least else f"{least} or more" if most is None else f"{least} to {most}"
        return f"needs compute capability {words}; this GPU has {have}"
    return None
