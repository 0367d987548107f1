"""Which attention kernels run on which GPU; the table is ``kernels.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from proteus.hardware import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """What kernels ask of a GPU."""

    vendor: str
    generation: str
    compute_capability: float | None
    architecture: str = ""

    @classmethod
    def of(cls, gpu: Gpu) -> Chip:
        capability = gpu.compute_capability
        return cls(
            vendor=gpu.vendor,
            generation=gpu.generation,
            compute_capability=None if capability is None else float("{}.{}".format(*capability)),
            architecture=gpu.chip.architecture,
        )


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
        return _cannot_run_on_amd(row["amd"], chip.architecture)
    have = chip.compute_capability
    if chip.vendor != "nvidia" or have is None:
        return None
    least, most = float(row["nvidia"]["least"]), row["nvidia"].get("most")
    if have < least or (most is not None and have > float(most)):
        words = f"{least}" if most == least else f"{least} or more" if most is None else f"{least} to {most}"
        return f"needs compute capability {words}; this GPU has {have}"
    return None


def _cannot_run_on_amd(needs: dict[str, str], architecture: str) -> str | None:
    if not needs:
        return "needs an NVIDIA GPU"
    if not architecture or _order(needs["least"]) <= _order(architecture) <= _order(needs["most"]):
        return None
    return f"needs {needs['least']} to {needs['most']}; this GPU is {architecture}"


def _order(architecture: str) -> tuple[int, int, int]:
    """Major, minor and stepping of AMD's architecture.

    >>> _order("gfx908") < _order("gfx90a") < _order("gfx942") < _order("gfx1100")
    True
    """
    digits = architecture.removeprefix("gfx")
    return int(digits[:-2]), int(digits[-2], 16), int(digits[-1], 16)
