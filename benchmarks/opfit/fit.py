"""Least squares on logarithms, robust, with the time of its own host per source.

Sources time differently: CUDA graphs show a kernel of 2 us, timers around a
Python call show 30 us for the same.  So every source has an offset, fitted
beside the curve and thrown away; what ships is the curve alone.

Where the tables of single chips do not tell all parameters apart, chips share
the shape of a curve and differ in the efficiency (``fit`` over several chips),
or have curves of their own that stay near the shared one (``fit_near``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType

import numba
import numpy as np
from scipy.optimize import least_squares

from opfit.samples import Samples
from proteus.costs.attention import attention_time_s
from proteus.costs.conv import conv_flop, conv_time_s, out_size
from proteus.costs.gemm import gemm_time_s
from proteus.costs.memory import memory_time_s
from proteus.hardware.curves import AttentionCurve, ConvCurve, GemmCurve, MemoryCurve


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A curve, where its fit starts, and between which bounds it stays."""

    name: str
    names: tuple[str, ...]
    start: np.ndarray
    low: np.ndarray
    high: np.ndarray
    many: Callable[[np.ndarray, np.ndarray], np.ndarray]


def _many(
    function: Callable[..., float], num_args: int, num_params: int
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """`function` over the rows of a matrix of arguments, compiled."""
    # the curves call small functions of their own package: compile those too
    helpers = {"gemm_time_s": numba.njit(gemm_time_s), "out_size": numba.njit(out_size)}
    own_copy = FunctionType(function.__code__, {**function.__globals__, **helpers}, argdefs=function.__defaults__)
    compiled = numba.njit(own_copy)
    names = [f"a[i, {j}]" for j in range(num_args)] + [f"p[{j}]" for j in range(num_params)]
    lines = ["def many(a, p):", " out = np.empty(len(a))", " for i in range(len(a)):"]
    source = "\n".join([*lines, f"  out[i] = f({', '.join(names)})", " return out"])
    scope = {"np": np, "f": compiled}
    exec(source, scope)
    result: Callable[[np.ndarray, np.ndarray], np.ndarray] = numba.njit(scope["many"])
    return result


#: column of the direction among the arguments of attention; BOTH is forward plus backward
DIRECTION, BOTH = 8, 2.0


def _attention_many(num_args: int, num_params: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Like `_many`; tables often print the time of forward and backward together."""
    one = _many(attention_time_s, num_args, num_params)

    def many(args: np.ndarray, params: np.ndarray) -> np.ndarray:
        both = args[:, DIRECTION] == BOTH
        first, second = args.copy(), args.copy()
        first[both, DIRECTION], second[both, DIRECTION] = 0.0, 1.0
        return one(first, params) + np.where(both, one(second, params), 0.0)

    return many


def _family(
    name: str, function: Callable[..., float], num_args: int, curve: type, rows: dict[str, tuple[float, float, float]]
) -> Family:
    assert tuple(rows) == curve._fields  # type: ignore[attr-defined]
    start, low, high = np.array(list(rows.values())).T
    make = _attention_many if function is attention_time_s else partial(_many, function)
    return Family(name=name, names=tuple(rows), start=start, low=low, high=high, many=make(num_args, len(rows)))


GEMM_BOUNDS = {
    "eff": (0.85, 0.15, 2.5),  # above one where the sheet lists the vector rate, or small tiles lose much
    "floor_s": (3e-6, 1e-6, 8e-6),
    "k_fill": (100, 1, 1000),
    "tile_cost": (20, 1, 200),
    "memory_eff": (0.8, 0.4, 1.0),
    "wave": (0.5, 0.01, 1),
    "sharpness": (4, 1, 12),
    "split_s": (2e-6, 0.2e-6, 20e-6),
}
CONV_BOUNDS = {
    **GEMM_BOUNDS,
    "reread": (1.5, 1.0, 6.0),
    "fused": (0.9, 0.4, 1.5),
    "transform": (1.0, 0.3, 4.0),
    "scatter": (3.0, 0.3, 12.0),
    "strided_cost": (1.3, 0.8, 4.0),
    "grad_cost": (1.2, 0.8, 3.0),
    "weight_cost": (1.2, 0.8, 3.0),
    "weight_fill": (300, 30, 3000),
    "padded": (0.4, 0.05, 1.0),
}
ATTENTION_BOUNDS = {
    "eff": (0.8, 0.1, 1.5),
    "floor_s": (6e-6, 1e-6, 15e-6),
    "score_s": (40e-12, 1e-12, 300e-12),
    "fill_kv": (150, 1, 1500),
    "memory_eff": (0.5, 0.2, 1.0),
    "wave": (0.5, 0.01, 1),
    "backward_eff": (0.65, 0.3, 1.3),
    "wide_cost": (0.2, 0.01, 3.0),
    "tail": (0.5, 0.01, 1.0),
    "backward_fill": (1.5, 0.3, 8.0),
}
MEMORY_BOUNDS = {"eff": (0.85, 0.4, 1.0), "floor_s": (2e-6, 0.5e-6, 8e-6), "ramp_s": (2e-6, 0.01e-6, 50e-6)}

FAMILIES = {
    "gemm": _family("gemm", gemm_time_s, 9, GemmCurve, GEMM_BOUNDS),
    "attention": _family("attention", attention_time_s, 13, AttentionCurve, ATTENTION_BOUNDS),
    "conv": _family("conv", conv_time_s, 18, ConvCurve, CONV_BOUNDS),
    "memory": _family("memory", memory_time_s, 5, MemoryCurve, MEMORY_BOUNDS),
}


def bound_s(s: Samples) -> np.ndarray:
    """Time of the FLOP and bytes of every row at the rates of the sheet [s]."""
    a = s.args.T
    match s.family:
        case "gemm":
            return np.maximum(2.0 * a[0] * a[1] * a[2] * a[3] / a[5], a[4] / a[6])
        case "conv":
            out_h = (a[2] + 2.0 * a[9] - a[5]) // a[7] + 1.0
            out_w = (a[3] + 2.0 * a[10] - a[6]) // a[8] + 1.0
            return conv_flop(a[0], a[1], a[4], out_h, out_w, a[5], a[6], a[11]) / a[15]
        case "attention":
            return 2.0 * a[0] * a[1] * a[3] * a[4] * (a[5] + a[6]) * np.where(a[7] > 0, 0.5, 1.0) / a[10]
        case _:
            return a[0] / a[3]


#: share of a source's rows, those with the least work, that tell its harness; and from how many rows on
MIN_WORK, ENOUGH_ROWS = 0.1, 100
#: time of a small kernel over that of its work at the rates of the sheet
SMALL_KERNEL = 3.0
#: pull of a source's offset to the time of its harness, relative
HOST_PRIOR = 0.05


def host_s(s: Samples) -> float:
    """Time of the harness around a kernel, from the rows with the least work [s].

    Short tables print rates of kernels and not times of calls: no harness.
    """
    if len(s.time_s) < ENOUGH_ROWS:
        return 0.0
    work_s = bound_s(s)
    least = work_s <= np.quantile(work_s, MIN_WORK)
    return max(0.0, float(np.median((s.time_s - SMALL_KERNEL * work_s)[least])))


#: pull of a parameter's logarithm to its start, per root of weighted rows; and to the curve that chips share
PRIOR, SHARED_PRIOR = 0.01, 0.1
#: pull of a chip's efficiency to that of all chips, and how far it may go (logarithm)
CHIP_PRIOR, FARTHEST_CHIP = 0.025, 1.5
#: ... firmer where sources that measured one chip lie as far apart as chips do
FIRM_CHIP_PRIOR = {"conv": 0.3}
#: most that a source's timing may add to every row [us]
MAX_OFFSET_US = 400.0
#: an offset that all sources share is the floor of the kernel, up to this [s]
SHARED_OFFSET_S = 8e-6
#: relative residual at which a row starts to count as an outlier
OUTLIER = 0.1


def fit(
    family: Family, data: Sequence[Samples], start: np.ndarray | None = None, pull: float = PRIOR
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Parameters of the curve by chip, and every source's offset [s].

    Chips share all parameters but the first, the efficiency.  Every source
    counts as the square root of its rows, so that a long table does not drown
    a short one.
    """
    begin = family.start if start is None else start
    sources, chips = sorted({s.source for s in data}), sorted({s.chip for s in data})
    num, num_chip_terms = len(begin), len(chips) if len(chips) > 1 else 0
    low, high = np.log(family.low), np.log(family.high)
    #: an offset in units of 1 us, at least almost zero
    first = np.concatenate([
        np.clip(np.log(begin), low + 1e-6, high - 1e-6), np.zeros(num_chip_terms), np.full(len(sources), 0.5)
    ])  # fmt: skip
    bounds = (
        np.concatenate([low, np.full(num_chip_terms, -FARTHEST_CHIP), np.zeros(len(sources))]),
        np.concatenate([high, np.full(num_chip_terms, FARTHEST_CHIP), np.full(len(sources), MAX_OFFSET_US)]),
    )
    weight = [len(s.time_s) ** -0.25 for s in data]
    total = sum(len(s.time_s) ** 0.5 for s in data)
    host_us = np.array([max([1.0, *(host_s(s) * 1e6 for s in data if s.source == name)]) for name in sources])
    prior = np.log(begin)
    chip_pull = FIRM_CHIP_PRIOR.get(family.name, CHIP_PRIOR)

    def by_chip(x: np.ndarray, chip: str) -> np.ndarray:
        params = np.exp(x[:num])
        if num_chip_terms:
            params[0] *= np.exp(x[num + chips.index(chip)])
        return params

    def residuals(x: np.ndarray) -> np.ndarray:
        parts = []
        for s, w in zip(data, weight, strict=True):
            offset = x[num + num_chip_terms + sources.index(s.source)] * 1e-6
            error = np.log((family.many(s.args, by_chip(x, s.chip)) + offset) / s.time_s)
            robust = np.sign(error) * np.sqrt(2.0 * OUTLIER * (np.sqrt(1 + (error / OUTLIER) ** 2) - 1.0) * OUTLIER)
            parts.append(w * robust)
        parts.append(pull * np.sqrt(total) * (x[:num] - prior))
        parts.append(chip_pull * np.sqrt(total) * x[num : num + num_chip_terms])
        parts.append(HOST_PRIOR * np.sqrt(total) * (x[num + num_chip_terms :] / host_us - 1.0))
        return np.concatenate(parts)

    solution = least_squares(residuals, first, bounds=bounds, diff_step=1e-3, max_nfev=200)
    params = {chip: by_chip(solution.x, chip) for chip in chips}
    extra = solution.x[num + num_chip_terms :] * 1e-6
    floor = family.names.index("floor_s")
    shared = min(float(extra.min()), max(0.0, SHARED_OFFSET_S - float(np.exp(solution.x[floor]))))
    for values in params.values():
        values[floor] += shared
    return params, dict(zip(sources, extra - shared, strict=True))


def fit_near(family: Family, data: Sequence[Samples]) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Like `fit`: a curve for every chip, held near the one whose shape all chips share."""
    shared, offsets = fit(family, data)
    params = {}
    for chip, start in shared.items():
        chip_params, chip_offsets = fit(family, [s for s in data if s.chip == chip], start, SHARED_PRIOR)
        params |= chip_params
        offsets |= chip_offsets
    return params, offsets


def errors(family: Family, params: np.ndarray, s: Samples, offset_s: float = 0.0) -> np.ndarray:
    """Relative error of every row."""
    return (family.many(s.args, params) + offset_s) / s.time_s - 1.0
