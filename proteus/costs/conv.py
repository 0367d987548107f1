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


class ConvCurve(NamedTuple):
    """Parameters of one GPU and dtype, fitted to measurements.

    The first eight are those of :class:`~proteus.costs.gemm.GemmCurve`.

    Parameters
    ----------
    reread
        Times that the input is read: patches overlap and the cache is small.
    winograd
        Speed-up of 3x3 stride-1 kernels; 1 where it is not used.
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
    if direction == 0:
        m, n, k = batch * out_h * out_w, deep_out, deep_in * kh * kw
    elif direction == 1:
        m, n, k = batch * h * w, deep_in, max(deep_out * kh * kw / (stride_h * stride_w), 1.0)
    else:
        m, n, k = deep_out, deep_in * kh * kw, batch * out_h * out_w
    speed = 1.0
    if kh == 3 and kw == 3 and stride_h == 1 and stride_w == 1 and direction != 2:
        speed = winograd
    cost = 1.0
    if direction == 1:
        cost = grad_cost
    elif direction == 2:
        cost = weight_cost
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
        eff,
        floor_s,
        k_fill,
        tile_cost,
        memory_eff,
        wave,
        sharpness,
        split_s,
    )
