"""Which fitted curve describes a GPU, and which one replaces it if there is none.

The curves are those of the GPU's chip (``proteus/hardware/chips``).  A missing
curve is looked up at another dtype of the chip, then at the chip's fallbacks;
both count as assumed, and widen the error (:mod:`proteus.costs.residuals`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from proteus.costs import residuals
from proteus.costs.gemm import TILES
from proteus.costs.residuals import Spread
from proteus.errors import InputError
from proteus.hardware import Chip, Gpu
from proteus.hardware.curves import GemmCurve
from proteus.units import GB

#: the dtype whose GEMMs tensor cores do not make
VECTOR = "fp32"
#: the curves that may describe a dtype or a library, best first; half is fp16 and bf16
STAND_INS = {
    "fp16": ("half", "tf32", "fp32"),
    "bf16": ("half", "tf32", "fp32"),
    "half": ("half", "tf32", "fp32"),
    "tf32": ("tf32", "half", "fp32"),
    "fp8": ("fp8", "half"),
    "nvfp4": ("nvfp4", "fp8", "half"),
    "fp32": ("fp32", "half"),
    "cudnn": ("cudnn", "flash3", "flash2", "serving"),
    "flash3": ("flash3", "cudnn", "flash2", "serving"),
    "flash2": ("flash2", "serving"),
    "flash1": ("flash1", "flash2", "serving"),
    "memory_efficient": ("memory_efficient", "flash1", "flash2", "serving"),
}
#: Exponent of the fp32 clock in the power: GEMMs as NeuSight's on P4, of which large batched ones ask for 1.0 and all
#: for 0.55, tested on those on T4 (23 % off; 28 % with 0.55); convolutions: NeuSight's on P4.
FP32_EXPONENT = {"gemm": 0.75, "conv": 0.55}


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Parameters, by the names of the family's curve, and where they are from.

    `key` is the dtype or variant whose measurements they describe, `chip` the
    one on which these were made.
    """

    key: str
    params: tuple[float, ...]
    spread: Spread
    source: str
    chip: Chip
    is_assumed: bool


def places(chips: Sequence[Chip], key: str) -> Iterator[tuple[Chip, str]]:
    """Where a curve of that dtype or variant is looked for: chip and key, best first.

    GEMMs outside tensor cores are more like those of another chip than
    like those in the tensor cores of their own.

    >>> from proteus.hardware import load
    >>> chips = load("h100").chips
    >>> [(chip.name, key) for chip, key in places(chips, "fp32")][:3]
    [('gh100', 'fp32'), ('ga100', 'fp32'), ('gv100', 'fp32')]
    >>> [(chip.name, key) for chip, key in places(chips, "half")][:2]
    [('gh100', 'half'), ('gh100', 'tf32')]
    """
    names = keys_for(key)
    if names[0] == VECTOR:
        yield from ((chip, VECTOR) for chip in chips)
    yield from ((chip, name) for chip in chips for name in names)


def keys_for(key: str) -> tuple[str, ...]:
    """The keys under which a curve of that dtype or variant is looked for, best first.

    >>> keys_for("bf16")
    ('half', 'tf32', 'fp32')
    """
    return STAND_INS.get(key, (key,))


def find(family: str, key: str, gpu: Gpu) -> Curve:
    """The curve of a family (``gemm``, ...) and key (a dtype or a variant).

    Raises
    ------
    InputError
        Neither the GPU's chip nor one that stands in has such a curve.

    >>> from proteus.hardware import load
    >>> find("gemm", "bf16", load("a100-80gb")).is_assumed
    False
    """
    own_key = keys_for(key)[0]
    for chip, name in places(gpu.chips, key):
        row = chip.curve(family, name)
        if row is None:
            continue
        borrowed = chip is not gpu.chip or name != own_key
        params: tuple[float, ...] = row.params
        if family == "conv" and name != own_key:
            params = with_products(params, chip, own_key)
        return Curve(
            key=name,
            params=params,
            spread=residuals.of_curve(family, own_key, row.sigma, is_borrowed=borrowed),
            source=f"{family} curve {chip.name}/{name}: {row.source}",
            chip=chip,
            is_assumed=borrowed,
        )
    raise InputError(
        f"GPU {gpu.name}: no {family} curve for {key} on {', '.join(chip.name for chip in gpu.chips)}; "
        "name a chip that has one among its fallbacks"
    )


def with_products(conv_params: tuple[float, ...], chip: Chip, key: str) -> tuple[float, ...]:
    """A convolution's parameters from another dtype, with those of the GEMMs of `key` where they are known.

    >>> from proteus.hardware import load
    >>> volta, pascal = load("v100"), load("p100")
    >>> conv, products = find("conv", "fp32", volta).params, find("gemm", "half", volta).params
    >>> with_products(conv, volta.chip, "half") == products + conv[len(products) :]
    True
    >>> with_products(conv, pascal.chip, "half") == conv  # Pascal has no tensor cores
    True
    """
    row = chip.curve("gemm", key)
    return conv_params if row is None else (*row.params, *conv_params[len(GemmCurve._fields) :])


@cache
def _access_table() -> dict[str, Any]:
    import yaml

    text = resources.files("proteus.costs").joinpath("data/access.yaml").read_text("utf-8")
    return dict(yaml.safe_load(text))


def access(pattern: str) -> tuple[float, float]:
    """Bandwidth of an access pattern over the elementwise one, and the pace of one SM [B/s]."""
    row = _access_table()[pattern]
    return float(row["eff"]), float(row["sm_GBps"]) * GB


def power_factor(chip: Chip, tdp_w: float, peak_half_flops: float) -> float:
    """The clock under load that the power per peak of a GPU allows, over that of the GPU of the curve.

    Above 1 where a board has more power than the one that was measured.
    Where power holds a chip near its lowest voltage, the clock goes with the
    power itself; above that the voltage has to rise with the clock, which
    costs the more.  Source of the exponents: see the files of the chips.
    """
    reference = chip.clock.reference_W_per_TFLOPS
    if reference is None or not tdp_w or not peak_half_flops:
        return 1.0
    return float(float(tdp_w / (peak_half_flops / 1e12) / reference) ** chip.clock.exponent)


def fp32_clock(family: str, chip: Chip, tdp_w: float, peak_fp32_flops: float) -> float:
    """The clock that a board's power leaves for fp32 GEMMs, over the one that its sheet counts with.

    Convolutions gather and transform between their GEMMs, which draws less
    power than GEMMs (``gemm``) alone.

    >>> from proteus.hardware import load
    >>> pascal, turing = load("titan-xp").chip, load("t4").chip
    >>> fp32_clock("gemm", pascal, 250.0, 12e12), round(fp32_clock("gemm", turing, 70.0, 8.1e12), 2)
    (1.0, 0.58)
    >>> round(fp32_clock("conv", turing, 70.0, 8.1e12), 2)
    0.67
    """
    full = chip.clock.fp32_full_W_per_TFLOPS
    if full is None or not tdp_w or not peak_fp32_flops:
        return 1.0
    return min(1.0, float((tdp_w / (peak_fp32_flops / 1e12) / full) ** FP32_EXPONENT[family]))


def sustained_factor(chip: Chip) -> float:
    """Tensor-core rate in a training step over that of a micro-benchmark.

    >>> from proteus.hardware import load
    >>> sustained_factor(load("a10").chip)
    1.0
    """
    return chip.clock.sustained


def borrowed_factor(chip: Chip, gpu: Gpu) -> float:
    """Efficiency of a GPU that borrows the curve of `chip` over that chip's.

    Where neither attention nor convolution was measured, the share of the
    peak that large GEMMs reach says how far the sheet is from the truth.
    """
    lender = chip.curve("gemm", "half")
    if chip is gpu.chip or lender is None:
        return 1.0
    mine = find("gemm", "half", gpu).params
    return large_share(mine) / large_share(lender.params)


def large_share(gemm_params: tuple[float, ...]) -> float:
    """Share of the peak that a large GEMM reaches, by its curve.

    >>> large_share(GemmCurve(0.9, 2e-6, 100, 0.0, 0.8, 0.5, 4, 2e-6))
    0.9
    """
    curve = GemmCurve(*gemm_params)
    tile_m, tile_n = TILES[0]
    return curve.eff / (1.0 + curve.tile_cost * (1.0 / tile_m + 1.0 / tile_n))
