"""A chip: what all boards built with it share, and what was measured on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from proteus.hardware.curves import AnyCurve
from proteus.units import KiB, MiB

#: exponent of the clock in a board's power where no chip's own is known: micro-benchmarks of boards of one chip
POWER_EXPONENT = 0.3
#: rows and columns of :class:`Overlap`: what bounds a kernel, and where a communication goes
COMPUTE_CLASSES = ("gemm", "attention", "conv", "memory")
COMM_CLASSES = ("intra", "inter", "p2p", "copy")


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedCurve:
    """Parameters of a family of kernels at one dtype or variant.

    Parameters
    ----------
    params
        By the names of the family's curve (:data:`proteus.hardware.curves.FAMILIES`).
    sigma
        Mean absolute error on sources that took no part in the fit.
    rows
        Measurements behind it.
    source
        Where those are from.
    """

    params: AnyCurve
    sigma: float
    rows: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """What a board's power leaves of the clock.

    Parameters
    ----------
    reference_W_per_TFLOPS
        Power over half-precision peak of the board that the curves were fitted on [W/TFLOPS]; None: power is
        not looked at.
    exponent
        Of the clock in the power.
    sustained
        Tensor-core rate in a training step over that of a micro-benchmark.
    fp32_full_W_per_TFLOPS
        Power over fp32 peak from which boards hold their clock in fp32 kernels [W/TFLOPS]; None: all do.
    """

    reference_W_per_TFLOPS: float | None = None
    exponent: float = POWER_EXPONENT
    sustained: float = 1.0
    fp32_full_W_per_TFLOPS: float | None = None
    source: str = ""


Table = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Extra time, as a share, while a kernel and a communication run on one GPU.

    Parameters
    ----------
    compute
        Of the kernel: a row per :data:`COMPUTE_CLASSES`, a column per :data:`COMM_CLASSES`.
    comm
        Of the communication: a row per :data:`COMM_CLASSES`, a column per :data:`COMPUTE_CLASSES`.
    """

    compute: Table
    comm: Table
    source: str = field(repr=False)


#: where nothing was measured: between the tables of Volta, Ampere and Hopper
DEFAULT_OVERLAP = Overlap(
    compute=(
        (0.25, 0.10, 0.06, 0.02),
        (0.25, 0.10, 0.06, 0.02),
        (0.25, 0.12, 0.06, 0.02),
        (0.50, 0.20, 0.15, 0.05),
    ),
    comm=(
        (0.10, 0.10, 0.10, 0.30),
        (0.03, 0.03, 0.03, 0.08),
        (0.05, 0.05, 0.05, 0.15),
        (0.0, 0.0, 0.0, 0.05),
    ),
    source="estimated: between the tables of gv100, ga100 and gh100",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Libraries:
    """Scratch memory that libraries take on a chip.

    Parameters
    ----------
    cublas_bytes
        Of a cuBLAS handle as PyTorch sets it up: aten/src/ATen/cuda/CUDABlas.cpp, ``:4096:8`` on Hopper and
        ``:4096:2:16:8`` elsewhere [bytes].
    transformer_engine_bytes
        Of Transformer Engine's GEMMs: module/base.py, get_cublas_workspace_size_bytes [bytes].
    """

    cublas_bytes: int = 8 * MiB + 128 * KiB
    transformer_engine_bytes: int = 4 * MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A chip, or a family of chips whose kernels were measured together.

    Parameters
    ----------
    name
        Such as ``"ga100"``.
    vendor
        ``"nvidia"``, ``"amd"``, or empty for devices that are no GPU of a catalogue.
    generation
        Such as ``"ampere"``.
    compute_capability
        Of CUDA, such as ``(8, 0)``; None for chips without.
    architecture
        Of AMD, such as ``"gfx942"``; empty for chips without.
    fallback
        Chips whose curves stand in where this one has none, best first.
    nvlink
        Family of fitted links, such as ``"nvlink3"``, that its NVLink belongs to; None without NVLink.
    has_nvls
        Whether its NVSwitches reduce in the switch (NVLink SHARP).
    network_Bps
        What its usual host gives each GPU of the network, where a published run does not say [B/s].
    curves
        By family of kernels, then by dtype or variant.  Read only.
    source
        Of what is not of a board, where no nearer source stands.
    """

    name: str
    vendor: str
    generation: str
    compute_capability: tuple[int, int] | None = None
    architecture: str = ""
    fallback: tuple[str, ...] = ()
    nvlink: str | None = None
    has_nvls: bool = False
    network_Bps: float = 12.5e9
    libraries: Libraries = Libraries()
    clock: Clock = Clock()
    overlap: Overlap = DEFAULT_OVERLAP
    curves: Mapping[str, Mapping[str, FittedCurve]] = field(default_factory=dict, repr=False)
    source: str = field(default="", repr=False)

    def __hash__(self) -> int:
        return hash(self.name)  # equal chips have equal names; hashing every curve would cost more than comparing

    def __repr__(self) -> str:
        measured = [f"{family} {'/'.join(keys)}" for family, keys in self.curves.items()]
        return f"Chip({self.name}: {self.generation}; measured: {', '.join(measured) or 'nothing'})"

    def curve(self, family: str, key: str) -> FittedCurve | None:
        """The curve of a family (``gemm``, ...) at a dtype or variant, or None."""
        return self.curves.get(family, {}).get(key)
