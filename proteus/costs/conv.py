"""Seconds of a convolution: the fastest of the algorithms that libraries have for it.

As a matrix product of patches::

    direction   rows m            columns n         depth k
    forward     c_out / groups    batch x out h w   c_in / groups x kh x kw
    input grad  c_in / groups     batch x in h w    c_out / groups x kh x kw / (stride h w)
    weight grad c_out / groups    c_in x kh x kw    batch x out h w

Where fp32 has no tensor cores, kernels of stride 1 also go through Winograd's
transform (Lavin and Gray, arXiv 1509.09308), which needs fewer products: in
one kernel with F(2x2, 3x3), 2.25 times fewer; or in four, F(4x4, kxk) in
memory, as one batched product over the points of a tile::

    input, weights --transform--> (4 + k - 1)**2 products --transform--> output
"""

from __future__ import annotations

import math
from typing import NamedTuple

from proteus.costs.gemm import gemm_time_s

#: only the weight gradient, whose depth is the batch, is split along it
MOST_SPLIT = 32.0
#: tensor cores take channels by 16 bytes; fewer are padded
CHANNEL_BYTES = 16.0
#: output points of a Winograd tile per dim: in one kernel, and through memory
FUSED_TILE, WINOGRAD_TILE = 2.0, 4.0
#: multiplications that F(2x2, 3x3) saves, and the widest kernel that libraries transform
FUSED_SAVES, WIDEST_WINOGRAD = 2.25, 5.0


class ConvCurve(NamedTuple):
    """Parameters of one GPU and dtype, fitted to measurements.

    The first eight are those of :class:`~proteus.costs.gemm.GemmCurve`.

    Parameters
    ----------
    reread
        Times that the input is read: patches overlap and the cache is small.
    fused
        Rate of Winograd in one kernel over that of a plain product.
    transform
        Time of Winograd's transforms through memory over that of their bytes.
    stride_waste, wide_stride_waste
        Input gradient of a strided 1x1 and of a wider kernel: 0 skips the
        points that are zero, 1 computes them all (as libraries before cuDNN 8 do).
    grad_cost, weight_cost
        Time of the input and of the weight gradient over the same product
        in forward: strided stores, and sums over the batch.
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
    stride_waste: float
    wide_stride_waste: float
    grad_cost: float
    weight_cost: float
    padded: float


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
    tensor_cores: float,
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
    fused: float,
    transform: float,
    stride_waste: float,
    wide_stride_waste: float,
    grad_cost: float,
    weight_cost: float,
    padded: float,
) -> float:
    """Time of one convolution in one direction on an idle GPU [s].

    Parameters
    ----------
    direction
        0 forward, 1 input gradient, 2 weight gradient.
    tensor_cores
        1 where the products run on them.

    Notes
    -----
    Not modelled: FFT kernels, layout transforms around the call, a library
    that picks another than the fastest algorithm.
    """
    out_h = out_size(h, kh, stride_h, pad_h)
    out_w = out_size(w, kw, stride_w, pad_w)
    deep_in, deep_out = c_in / groups, c_out / groups
    rate = peak_flops
    if tensor_cores and groups == 1.0:
        align = CHANNEL_BYTES / element_bytes
        if deep_in % align or deep_out % align:
            rate = peak_flops * padded
        deep_in = math.ceil(deep_in / align) * align
    cost, split = 1.0, 1.0
    if direction == 0:
        m, n, k = deep_out, batch * out_h * out_w, deep_in * kh * kw
    elif direction == 1:
        waste = stride_waste if kh * kw == 1.0 else wide_stride_waste
        skipped = (stride_h * stride_w) ** (1.0 - waste)
        m, n, k = deep_in, batch * h * w, max(deep_out * kh * kw / skipped, 1.0)
        cost = grad_cost
    else:
        m, n, k = deep_out, deep_in * kh * kw, batch * out_h * out_w
        cost, split = weight_cost, MOST_SPLIT
    small = 1.0
    if direction != 1:
        small = min(kh * kw / (stride_h * stride_w), 1.0)  # a strided 1x1 kernel skips points
    points_in, points_out = batch * h * w * c_in * small, batch * out_h * out_w * c_out
    weights = c_out * deep_in * kh * kw
    spread = reread if kh * kw > 1 else 1.0
    traffic = element_bytes * (points_in * spread + points_out + weights)
    gpu = (memory_Bps, num_sms, split, eff, floor_s, k_fill, tile_cost, memory_eff, wave, sharpness, split_s)
    best = cost * gemm_time_s(groups, m, n, k, traffic, rate, *gpu)
    if tensor_cores or groups > 1.0 or kh != kw or kh == 1.0 or kh > WIDEST_WINOGRAD or stride_h * stride_w > 1.0:
        return best
    if kh == 3.0 and direction != 2:
        whole = math.ceil(out_h / FUSED_TILE) * math.ceil(out_w / FUSED_TILE) * FUSED_TILE**2 / (out_h * out_w)
        best = min(best, cost * gemm_time_s(groups, m, n * whole, k, traffic, rate * FUSED_SAVES * fused, *gpu))
    products = (WINOGRAD_TILE + kh - 1.0) ** 2
    tiles = batch * math.ceil(out_h / WINOGRAD_TILE) * math.ceil(out_w / WINOGRAD_TILE)
    if direction == 0:
        m, n, k = c_out, tiles, c_in
    elif direction == 1:
        m, n, k = c_in, tiles, c_out
    else:
        m, n, k = c_out, c_in, tiles
    transformed = products * (tiles * (c_in + c_out) + c_in * c_out)
    product_s = gemm_time_s(products, m, n, k, element_bytes * transformed, rate, *gpu)
    moved = element_bytes * (points_in + points_out + c_in * c_out * kh * kw + transformed)
    transform_s = 3.0 * floor_s + transform * moved / (memory_Bps * memory_eff)
    return min(best, product_s + transform_s)
