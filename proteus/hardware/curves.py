"""The parameters of a chip's kernels, fitted to measurements; what they mean to a time is in ``proteus.costs``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class GemmCurve(NamedTuple):
    """Parameters of one GPU and dtype, fitted to measurements.

    Parameters
    ----------
    eff
        Share of the sheet's peak that full waves of the largest tile reach.
    floor_s
        Time of the smallest kernel [s].
    k_fill
        Depth of k that filling and draining a tile's pipeline costs [elements].
    tile_cost
        Loss of small tiles, whose operands are reused less: a tile runs at
        ``1 / (1 + tile_cost * (1/tile_m + 1/tile_n))`` of the SM's rate
        [elements].
    memory_eff
        Share of the sheet's memory bandwidth that a GEMM reaches.
    wave
        0: a partial last wave costs its share; 1: it costs a whole wave.
    sharpness
        Exponent of the smooth maximum of compute and memory time.
    split_s
        Extra time of a split of k, besides its traffic [s].
    """

    eff: float
    floor_s: float
    k_fill: float
    tile_cost: float
    memory_eff: float
    wave: float
    sharpness: float
    split_s: float


class AttentionCurve(NamedTuple):
    """Parameters of one GPU, fitted to measurements.

    Parameters
    ----------
    eff
        Share of the peak that the GEMMs of a very wide head would reach.
    floor_s
        Time of the smallest kernel [s].
    score_s
        Softmax of one score on one SM [s]; at 16 exponentials per clock
        and 1.4 GHz it is 45 ps, less what hides behind the GEMMs.
    fill_kv
        Keys that filling and draining a block costs, forward [elements].
    memory_eff
        Share of the sheet's memory bandwidth.
    wave
        0: a partial last wave costs its share; 1: it costs a whole wave.
    backward_eff
        `eff` of the backward over `eff` of the forward.
    wide_cost
        Loss of heads wider than 128, whose blocks shrink to fit the
        registers: GEMMs take ``1 + wide_cost * (dim / 128 - 1)`` as long.
    tail
        Idle time at the end of a causal kernel over that of the longest
        block; 0.5 where blocks come in any order, less where the longest
        come first.
    backward_fill
        `fill_kv` of the backward, which also writes dK and dV and has kernels
        of its own before and after, over that of the forward.
    """

    eff: float
    floor_s: float
    score_s: float
    fill_kv: float
    memory_eff: float
    wave: float
    backward_eff: float
    wide_cost: float
    tail: float
    backward_fill: float


class ConvCurve(NamedTuple):
    """Parameters of one GPU and dtype, fitted to measurements.

    The first eight are those of :class:`GemmCurve`.

    Parameters
    ----------
    reread
        Times that the input is read: patches overlap and the cache is small.
    fused
        Rate of Winograd in one kernel over that of a plain GEMM.
    transform
        Time of Winograd's transforms through memory over that of their bytes.
    scatter
        Times that the input gradient of a strided 1x1 kernel goes through
        memory: it is zeroed first, then written point by point.
    strided_cost
        Time of the input gradient of a wider strided kernel over the GEMM.
    grad_cost, weight_cost
        Time of the input and of the weight gradient over the same GEMM
        in forward.
    weight_fill
        `k_fill` of the weight gradient, whose depth lies apart in memory.
    padded
        Rate of tensor cores where channels are padded to 16 bytes.
    """

    eff: float
    floor_s: float
    k_fill: float
    tile_cost: float
    memory_eff: float
    wave: float
    sharpness: float
    split_s: float
    reread: float
    fused: float
    transform: float
    scatter: float
    strided_cost: float
    grad_cost: float
    weight_cost: float
    weight_fill: float
    padded: float


class MemoryCurve(NamedTuple):
    """Parameters of one GPU, fitted to measurements.

    Parameters
    ----------
    eff
        Share of the sheet's bandwidth that a long elementwise kernel reaches.
    floor_s
        Time of a kernel that moves nothing [s].
    ramp_s
        Time until all SMs stream: hidden in part under the floor [s].
    """

    eff: float
    floor_s: float
    ramp_s: float


AnyCurve = GemmCurve | AttentionCurve | ConvCurve | MemoryCurve

#: the curve of each family of kernels
FAMILIES: Mapping[str, type[AnyCurve]] = {
    "gemm": GemmCurve,
    "attention": AttentionCurve,
    "conv": ConvCurve,
    "memory": MemoryCurve,
}
