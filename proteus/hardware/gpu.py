"""A GPU: the data sheet of a board, and the chip on it with all that was measured there."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from proteus.errors import InputError, unknown
from proteus.hardware.chip import Chip, FittedCurve
from proteus.units import GB

#: Payload rate of 16 PCIe lanes, one direction, after line coding [B/s]: 128b/130b coding of
#: 8, 16 and 32 GT/s per lane, 242B/256B flits of 64 GT/s (PCI-SIG base specifications).
PCIE_X16_BPS = {1: 4.0 * GB, 2: 8.0 * GB, 3: 15.75 * GB, 4: 31.5 * GB, 5: 63.0 * GB, 6: 121.0 * GB}

#: How the usual host joins GPUs to each other: by NVSwitch, every pair directly, as the cube mesh of a DGX-1, by
#: bridges between pairs of cards, or not at all.
Wiring = Literal["nvswitch", "mesh", "cube", "pairs", "none"]

#: dtypes whose peak a sheet may state
DTYPES = ("fp32", "tf32", "fp16", "bf16", "fp8", "nvfp4")

#: (smallest, largest) figure that a GPU may have: a typing error is likelier than what lies beyond
RANGES: Mapping[str, tuple[float, float]] = {
    "memory_bytes": (1e6, 1e14),
    "memory_Bps": (1e6, 1e15),
    "nvlink_Bps": (0.0, 1e14),
    "nvlink_links": (0, 1024),
    "c2c_Bps": (0.0, 1e14),
    "tdp_w": (1.0, 1e5),
    "num_sms": (1, 1e5),
    "peak_flops": (1e6, 1e19),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU as training frameworks see it (one GCD of an MI250, one die of a K80).

    It is complete: what a kernel takes on it follows from this value alone, whatever its name.

    Parameters
    ----------
    name
        Such as ``"a100-80gb"``.
    memory_bytes
        What the driver reports as total [bytes].
    memory_Bps
        Peak of the device memory [B/s].
    peak_flops
        Dense peak by dtype [FLOP/s], keys ``fp32``, ``tf32``, ``fp16``, ``bf16``, ``fp8``, ``nvfp4`` where the
        GPU has them.  Read only.
    nvlink_Bps
        All NVLink or xGMI ports together, one direction [B/s]; 0 without any.
    nvlink_links
        Number of those ports.
    wiring
        How its usual host joins these GPUs (:data:`Wiring`).
    c2c_Bps
        Chip-to-chip link to its Grace CPU, one direction [B/s]; 0 without one.
    pcie_gen
        Generation of its 16 PCIe lanes.
    tdp_w
        Board power [W], or None when not known.
    num_sms
        Streaming multiprocessors or compute units, or None when not known.
    generation, compute_capability
        As :class:`~proteus.hardware.chip.Chip` has them; a board may differ from the others of its chip.
    source
        Where the figures come from.
    chip
        The chip on it: curves, clock, overlap, scratch memory of libraries.
    lenders
        Chips whose curves stand in where `chip` has none, best first.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from proteus.hardware import load
    >>> gpu = load("h100")
    >>> gpu
    Gpu(h100-sxm: gh100, 79.6 GiB at 3350 GB/s, bf16 989 TFLOPS)
    >>> replace(gpu, name="x100", memory_bytes=2 * gpu.memory_bytes).chip is gpu.chip
    True
    """

    name: str
    memory_bytes: int
    memory_Bps: float
    peak_flops: Mapping[str, float] = field(hash=False)
    nvlink_Bps: float = 0.0
    nvlink_links: int = 0
    wiring: Wiring = "none"
    c2c_Bps: float = 0.0
    pcie_gen: int
    tdp_w: float | None = None
    num_sms: int | None = None
    generation: str
    compute_capability: tuple[int, int] | None = None
    source: str
    chip: Chip = field(hash=False)
    lenders: tuple[Chip, ...] = field(default=(), hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InputError(f"GPU name {self.name!r}; it must be a word such as 'a100-80gb'")
        for field_name in RANGES:
            if field_name != "peak_flops":
                self._check(field_name, getattr(self, field_name))
        if not self.peak_flops:
            raise InputError(f"GPU {self.name}: peak_flops is empty; it needs the peak of one dtype at least")
        for dtype, peak in self.peak_flops.items():
            if dtype not in DTYPES:
                raise InputError(f"GPU {self.name}: peak_flops: {unknown('dtype', str(dtype), DTYPES)}")
            self._check("peak_flops", peak)
        if self.wiring not in get_args(Wiring):
            raise InputError(f"GPU {self.name}: {unknown('wiring', str(self.wiring), get_args(Wiring))}")
        if self.pcie_gen not in PCIE_X16_BPS:
            raise InputError(
                f"GPU {self.name}: pcie_gen={self.pcie_gen!r}; known are {', '.join(map(str, PCIE_X16_BPS))}"
            )
        if (self.nvlink_links > 0) != (self.nvlink_Bps > 0):
            raise InputError(
                f"GPU {self.name}: {self.nvlink_links} links of {self.nvlink_Bps:g} B/s together; give both or neither"
            )
        if self.wiring != "none" and not self.nvlink_links:
            raise InputError(
                f"GPU {self.name}: wiring={self.wiring!r} without NVLink or xGMI; give nvlink_links and rate"
            )

    def _check(self, field_name: str, value: object) -> None:
        minimum, maximum = RANGES[field_name]
        if value is None and field_name in ("tdp_w", "num_sms"):
            return
        whole = field_name in ("memory_bytes", "nvlink_links", "num_sms")
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            raise InputError(f"GPU {self.name}: {field_name}={value!r} is not a {'whole ' if whole else ''}number")
        if not (math.isfinite(value) and minimum <= value <= maximum):
            raise InputError(f"GPU {self.name}: {field_name}={value!r}; it must be from {minimum:g} to {maximum:g}")

    def __repr__(self) -> str:
        dtype = next(
            (dtype for dtype in ("bf16", "fp16", "fp32") if dtype in self.peak_flops), next(iter(self.peak_flops))
        )
        return (
            f"Gpu({self.name}: {self.chip.name}, {self.memory_bytes / 2**30:.3g} GiB at "
            f"{self.memory_Bps / GB:.4g} GB/s, "
            f"{dtype} {self.peak_flops[dtype] / 1e12:.4g} TFLOPS)"
        )

    @property
    def vendor(self) -> str:
        """``"nvidia"``, ``"amd"``, or empty for devices that are no GPU of a catalogue."""
        return self.chip.vendor

    @property
    def has_nvswitch(self) -> bool:
        """Whether its usual host joins these GPUs by NVSwitch."""
        return self.wiring == "nvswitch"

    @property
    def pcie_Bps(self) -> float:
        """Its 16 PCIe lanes, one direction [B/s]."""
        return PCIE_X16_BPS[self.pcie_gen]

    @property
    def nvlink_port_Bps(self) -> float:
        """One NVLink or xGMI port, one direction [B/s]; 0 without any."""
        return self.nvlink_Bps / self.nvlink_links if self.nvlink_links else 0.0

    @property
    def chips(self) -> tuple[Chip, ...]:
        """The chips whose curves describe it: its own, then those that stand in, best first."""
        return (self.chip, *self.lenders)

    def curve(self, family: str, key: str) -> FittedCurve | None:
        """The curve measured on its own chip, or None."""
        return self.chip.curve(family, key)

    @staticmethod
    def read(path: str | os.PathLike[str], name: str | None = None) -> Gpu:
        """A GPU of your own from a YAML file; see :func:`proteus.hardware.read`."""
        from proteus.hardware import gpus

        return gpus.read(path, name)

    def to_yaml(self) -> str:
        """The whole GPU, its chip included, as a file that :meth:`read` reads back."""
        from proteus.hardware import document

        return document.to_yaml(self)
