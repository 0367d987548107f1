"""Seconds of a convolution, as the matrix product that it is.

::

    direction   rows m            columns n         depth k
    forward     batch x out h w   c_out / groups    c_in / groups x kh x kw
    input grad  batch x in h w    c_in / groups     c_out / groups x kh x kw / (stride h w)
    weight grad c_out / groups    c_in x kh x kw    batch x out h w

Where fp32 has no tensor cores, 3x3 kernels of stride 1 go through Winograd's
transform, which needs 2.25 times fewer products (Lavin and Gray, arXiv
1509.09308, F(2x2, 3x3)).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from proteus.costs.gemm import gemm_time_s

#: only the weight gradient, whose depth is the batch, is split along it
MOST_SPLIT = 32.0
#: tensor cores take channels by eight halves (16 bytes); fewer are padded
CHANNEL_ALIGN = 8.0
#: output points of one Winograd tile per dim, F(4x4, 3x3)
WINOGRAD_TILE = 4.0


class ConvCurve(NamedTuple):
    """Parameters of one GPU and dtype, fitted to measurements.

    The first eight are those of :class:`~proteus.costs.gemm.GemmCurve`.

    Parameters
    ----------
    reread
        Times that the input is read: patches overlap and the cache is small.
    winograd
        Speed-up of 3x3 and 5x5 stride-1 kernels; 1 where it is not used.
    stride_waste
        Input gradient of a strided kernel: 0 skips the points that are zero,
        1 computes them all (as libraries before cuDNN 8 do).
    grad_cost, weight_cost
        Time of the input and of the weight gradient over the same product
        in forward: strided stores, and sums over the batch.
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
    winograd: float
    stride_waste: float
    grad_cost: float
    weight_cost: float


def conv_flop(
    batch: float, c_in: float, c_out: float, out_h: float, out_w: float, kh: float, kw: float, groups: float
) -> float:
    """Direct-convolution FLOP, equal in all three directions.

    >>> conv_flop(1, 3, 64, 112, 112, 7, 7, 1) / 1e6
    236.027904
    """
    return 2.0 * batch * out_h * out_w * c_out * (c_in / groups) * kh * kw


def out_size(size: float, kernel: float, stride: float, pad: float) -> float:
    """Output points along one dim.

    >>> out_size(224, 7, 2, 3)
    112.0
    """
    return float(math.floor((size + 2.0 * pad - kernel) / stride) + 1)


def conv_time_s(
    batch: float,
    c_in: float,
    h: float,
    w: float,
    c_out: float,
    kh: float,
    kw: float,
    stride_h: float,
    stride_w: float,
    pad_h: float,
    pad_w: float,
    groups: float,
    direction: float,
    element_bytes: float,
    peak_flops: float,
    memory_Bps: float,
    num_sms: float,
    eff: float,
    floor_s: float,
    k_fill: float,
    tile_cost: float,
    memory_eff: float,
    wave: float,
    sharpness: float,
    split_s: float,
    reread: float,
    winograd: float,
    stride_waste: float,
    grad_cost: float,
    weight_cost: float,
) -> float:
    """Time of one convolution in one direction on an idle GPU [s].

    Parameters
    ----------
    direction
        0 forward, 1 input gradient, 2 weight gradient.

    Notes
    -----
    Not modelled: FFT kernels, layout transforms around the call.
    """
    out_h = out_size(h, kh, stride_h, pad_h)
    out_w = out_size(w, kw, stride_w, pad_w)
    deep_in, deep_out = c_in / groups, c_out / groups
    if element_bytes <= 2.0 and groups == 1.0:
        deep_in = math.ceil(deep_in / CHANNEL_ALIGN) * CHANNEL_ALIGN
    if direction == 0:
        m, n, k = batch * out_h * out_w, deep_out, deep_in * kh * kw
    elif direction == 1:
        skipped = (stride_h * stride_w) ** (1.0 - stride_waste)
        m, n, k = batch * h * w, deep_in, max(deep_out * kh * kw / skipped, 1.0)
    else:
        m, n, k = deep_out, deep_in * kh * kw, batch * out_h * out_w
    speed = 1.0
    if kh == kw and 1 < kh <= 5 and stride_h == 1 and stride_w == 1:
        full_h = math.ceil(out_h / WINOGRAD_TILE) * WINOGRAD_TILE
        full_w = math.ceil(out_w / WINOGRAD_TILE) * WINOGRAD_TILE
        speed = max(1.0, winograd * out_h * out_w / (full_h * full_w))
    cost = 1.0
    if direction == 1:
        cost = grad_cost
    elif direction == 2:
        cost = weight_cost
    small = 1.0
    if direction != 1:
        small = min(kh * kw / (stride_h * stride_w), 1.0)  # a strided 1x1 kernel skips points
    points_in, points_out = batch * h * w * c_in * small, batch * out_h * out_w * c_out
    weights = c_out * deep_in * kh * kw
    spread = reread if kh * kw > 1 else 1.0
    traffic = element_bytes * (points_in * spread + points_out + weights)
    return cost * gemm_time_s(
        groups,
        m,
        n,
        k,
        traffic,
        peak_flops * speed,
        memory_Bps,
        num_sms,
        MOST_SPLIT if direction == 2 else 1.0,
        eff,
        floor_s,
        k_fill,
        tile_cost,
        memory_eff,
        wave,
        sharpness,
        split_s,
    )
