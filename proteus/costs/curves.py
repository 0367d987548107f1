"""Which fitted curve describes a GPU, and which stands in where none does.

``data/chips.json`` says which GPUs share a chip; ``data/curves.json`` holds
the parameters, written by ``benchmarks/fit_ops.py`` from measurements.  A
missing curve is looked up at another dtype of the chip, then at the chip's
fallback; both count as assumed, and widen the error
(:mod:`proteus.costs.residuals`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Protocol

from proteus.costs import residuals
from proteus.costs.gemm import TILES, GemmCurve
from proteus.costs.residuals import Spread
from proteus.units import GB

#: the dtype whose products tensor cores do not make
VECTOR = "fp32"


class HasGeneration(Protocol):
    """Anything that has the generation of a GPU."""

    @property
    def generation(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Parameters, by the names of the family's curve, and where they are from.

    `key` is the dtype or variant whose measurements they describe.
    """

    key: str
    params: tuple[float, ...]
    spread: Spread
    source: str
    chip: str
    is_assumed: bool


@cache
def _table(name: str) -> dict[str, Any]:
    text = resources.files("proteus.costs").joinpath(f"data/{name}.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def _match(name: str, prefixes: dict[str, Any] | list[str]) -> str | None:
    found = [prefix for prefix in prefixes if name.startswith(prefix)]
    return max(found, key=len) if found else None


@cache
def chip_of(gpu_name: str, generation: str) -> tuple[str, bool]:
    """The chip of a GPU, and whether it had to be guessed from the generation.

    >>> chip_of("a100-80gb", "ampere"), chip_of("a9000", "hopper")
    (('ga100', False), ('gh100', True))
    """
    chips = _table("chips")["chips"]
    prefixes = {prefix: chip for chip, row in chips.items() for prefix in row["names"]}
    prefix = _match(gpu_name, prefixes)
    if prefix is not None:
        return prefixes[prefix], False
    near = [chip for chip, row in chips.items() if row["generation"] == generation]
    return (near[0] if near else _table("chips")["default_chip"]), True


def chain(chip: str) -> Iterator[str]:
    """The chip, its fallbacks, theirs, and so on; every chip once.

    >>> list(chain("cdna2"))
    ['cdna2', 'cdna1', 'ga100', 'gv100']
    """
    seen: list[str] = []
    chips, todo = _table("chips")["chips"], [chip]
    while todo:
        chip = todo.pop(0)
        if chip not in seen:
            seen.append(chip)
            yield chip
            todo += chips[chip]["fallback"]


def places(chip: str, key: str) -> Iterator[tuple[str, str]]:
    """Where a curve of that dtype or variant is looked for: chip and key, best first.

    Products outside tensor cores are more like those of another chip than
    like those in the tensor cores of their own.

    >>> list(places("gh100", "fp32"))[:3], list(places("gh100", "half"))[:2]
    ([('gh100', 'fp32'), ('ga100', 'fp32'), ('gv100', 'fp32')], [('gh100', 'half'), ('gh100', 'tf32')])
    """
    names = keys_for(key)
    if names[0] == VECTOR:
        yield from ((other, VECTOR) for other in chain(chip))
    yield from ((other, name) for other in chain(chip) for name in names)


def keys_for(key: str) -> tuple[str, ...]:
    """The keys under which a curve of that dtype or variant is looked for, best first.

    >>> keys_for("bf16")
    ('half', 'tf32', 'fp32')
    """
    return tuple(_table("chips")["stand_ins"].get(key, [key]))


@cache
def find(family: str, key: str, gpu_name: str, generation: str) -> Curve:
    """The curve of a family (``gemm``, ...) and key (a dtype or a variant).

    >>> find("gemm", "bf16", "a100-80gb", "ampere").is_assumed
    False
    """
    chip, guessed = chip_of(gpu_name, generation)
    table = _table("curves")["curves"]
    own = keys_for(key)[0]
    for other, name in places(chip, key):
        row = table.get(other, {}).get(family, {}).get(name)
        if row is None:
            continue
        borrowed = guessed or other != chip or name != own
        params = tuple(row["params"].values())
        if family == "conv" and name != own:
            params = with_products(params, other, own)
        return Curve(
            key=name,
            params=params,
            spread=residuals.of_curve(family, own, row["sigma"], is_borrowed=borrowed),
            source=f"{family} curve {other}/{name}: {row['source']}",
            chip=other,
            is_assumed=borrowed,
        )
    raise AssertionError(f"no {family} curve for {key} on any chip of the chain of {chip}")


def with_products(conv_params: tuple[float, ...], chip: str, key: str) -> tuple[float, ...]:
    """A convolution's parameters from another dtype, with those of the products of `key` where they are known.

    >>> conv, products = find("conv", "fp32", "v100", "volta").params, find("gemm", "half", "v100", "volta").params
    >>> with_products(conv, "gv100", "half") == products + conv[len(products) :]
    True
    >>> with_products(conv, "gp100", "half") == conv  # Pascal has no tensor cores
    True
    """
    row = _table("curves")["curves"].get(chip, {}).get("gemm", {}).get(key)
    return conv_params if row is None else (*row["params"].values(), *conv_params[len(GemmCurve._fields) :])


def access(pattern: str) -> tuple[float, float]:
    """Bandwidth of an access pattern over the elementwise one, and the pace of one SM [B/s]."""
    row = _table("curves")["access"][pattern]
    return float(row["eff"]), float(row["sm_GBps"]) * GB


def power_factor(chip: str, tdp_w: float, peak_half_flops: float) -> float:
    """The clock under load that the power per peak of a GPU allows, over that of the GPU of the curve.

    Above 1 where a board has more power than the one that was measured.
    Where power holds a chip near its lowest voltage, the clock goes with the
    power itself; above that the voltage has to rise with the clock, which
    costs the more.  Source of the exponents: see the data file.
    """
    row = _table("curves")["power"]
    reference = row["reference_W_per_TFLOPS"].get(chip)
    if reference is None or not tdp_w or not peak_half_flops:
        return 1.0
    ratio = float(tdp_w / (peak_half_flops / 1e12) / reference)
    return float(ratio ** _table("curves")["sustained"]["exponent"].get(chip, row["exponent"]))


def fp32_clock(family: str, chip: str, tdp_w: float, peak_fp32_flops: float) -> float:
    """The clock that a board's power leaves for fp32 products, over the one that its sheet counts with.

    Convolutions gather and transform between their products, which draws less
    power than products (``gemm``) alone.

    >>> fp32_clock("gemm", "gp102", 250.0, 12e12), round(fp32_clock("gemm", "tu10x", 70.0, 8.1e12), 2)
    (1.0, 0.58)
    >>> round(fp32_clock("conv", "tu10x", 70.0, 8.1e12), 2)
    0.67
    """
    row = _table("curves")["power"]["fp32"]
    full = row["full_W_per_TFLOPS"].get(chip)
    if full is None or not tdp_w or not peak_fp32_flops:
        return 1.0
    return min(1.0, float((tdp_w / (peak_fp32_flops / 1e12) / full) ** row["exponent"][family]))


def overlap_table() -> dict[str, Any]:
    """The slow-downs by generation, as ``data/overlap.json`` has them."""
    return _table("overlap")


def sustained_factor(chip: str) -> float:
    """Tensor-core rate in a training step over that of a micro-benchmark.

    >>> sustained_factor("ga102")
    1.0
    """
    return float(_table("curves")["sustained"]["factor"].get(chip, 1.0))


@cache
def borrowed_factor(chip: str, gpu_name: str, generation: str) -> float:
    """Efficiency of a GPU that borrows the curve of `chip` over that chip's.

    Where neither attention nor convolution was measured, the share of the
    peak that large products reach says how far the sheet is from the truth.
    """
    own, _ = chip_of(gpu_name, generation)
    lender = _table("curves")["curves"].get(chip, {}).get("gemm", {}).get("half")
    if own == chip or lender is None:
        return 1.0
    mine = find("gemm", "half", gpu_name, generation).params
    return large_share(mine) / large_share(tuple(lender["params"].values()))


def large_share(gemm_params: tuple[float, ...]) -> float:
    """Share of the peak that a large product reaches, by its curve.

    >>> large_share(GemmCurve(0.9, 2e-6, 100, 0.0, 0.8, 0.5, 4, 2e-6))
    0.9
    """
    curve = GemmCurve(*gemm_params)
    tile_m, tile_n = TILES[0]
    return curve.eff / (1.0 + curve.tile_cost * (1.0 / tile_m + 1.0 / tile_n))
