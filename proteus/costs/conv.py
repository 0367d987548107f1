"""Seconds of a convolution: the fastest of the algorithms that libraries have for it.

As a GEMM of patches::

    direction   rows m            columns n         depth k
    forward     c_out / groups    batch x out h w   c_in / groups x kh x kw
    input grad  c_in / groups     batch x out h w   c_out / groups x kh x kw
    weight grad c_out / groups    c_in x kh x kw    batch x out h w

Where fp32 has no tensor cores, kernels of stride 1 also go through Winograd's
transform (Lavin and Gray, arXiv 1509.09308), which needs fewer multiplications: in
one kernel with F(2x2, 3x3), 2.25 times fewer; or in four, F(4x4, kxk) in
memory, as one batched GEMM over the points of a tile::

    input, weights --transform--> (4 + k - 1)**2 products --transform--> output

The kernel in one piece gives every SM a patch of 8 x 16 output points of one
image and 32 channels: what a small image leaves of a patch is computed for
nothing, which is why 7x7 images are slow::

    16 x 16 image        7 x 7 image
    +--------+           +----+---+
    |11111111|           |1111|...|
    +--------+           |1111|...|   38 % of the points are used
    |22222222|           +----+---+
    +--------+
"""

from __future__ import annotations

import math

from proteus.costs.gemm import gemm_time_s

#: tiles of fp32 kernels, channels by points: cuDNN names its kernels 128x128, 128x64 and 128x32
TILES = ((128, 128), (64, 128), (32, 128))
#: only the weight gradient, whose depth is the batch, is split along it; few channels leave it one tile for all SMs
MAX_SPLIT = 128.0
#: tensor cores take channels by 16 bytes; fewer are padded
CHANNEL_BYTES = 16.0
#: channels of the only tile with which the input gradient of a strided kernel wider than 1x1 is computed
STRIDED_TILE = 128.0
#: output points of a Winograd tile per dim: in one kernel, and through memory
FUSED_TILE, WINOGRAD_TILE = 2.0, 4.0
#: Winograd tiles of a patch, down and across; its 32 tiles of 32 channels, 16 products each, are the work of one
#: 128 x 128 tile of a plain GEMM
PATCH, PATCH_TILES, FUSED_TILES = (4.0, 8.0), 32.0, ((128, 128),)
#: the widest kernel that libraries transform
WIDEST_WINOGRAD = 5.0


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
    scatter: float,
    strided_cost: float,
    grad_cost: float,
    weight_cost: float,
    weight_fill: float,
    padded: float,
) -> float:
    """Time of one convolution in one direction on an idle GPU [s].

    Parameters
    ----------
    direction
        0 forward, 1 input gradient, 2 weight gradient.
    tensor_cores
        1 where the GEMMs run on them.
    memory_Bps
        What elementwise kernels reach on this GPU.

    Notes
    -----
    Not modelled: FFT kernels, layout transforms around the call, a library
    that picks another than the fastest algorithm, its limits of workspace.
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
    cost, split, fill, scattered = 1.0, 1.0, k_fill, 0.0
    if direction == 0:
        m, n, k = deep_out, batch * out_h * out_w, deep_in * kh * kw
    elif direction == 1:
        m, n, k = deep_in, batch * out_h * out_w, deep_out * kh * kw
        cost = grad_cost
        if stride_h * stride_w > 1.0 and kh * kw == 1.0:
            scattered = scatter * batch * h * w * c_in
        elif stride_h * stride_w > 1.0 and groups == 1.0:
            m, cost = math.ceil(m / STRIDED_TILE) * STRIDED_TILE, strided_cost
    else:
        m, n, k = deep_out, deep_in * kh * kw, batch * out_h * out_w
        cost, split, fill = weight_cost, MAX_SPLIT, weight_fill
    small = 1.0
    if direction != 1:
        small = min(kh * kw / (stride_h * stride_w), 1.0)  # a strided 1x1 kernel skips points
    points_in, points_out = batch * h * w * c_in * small, batch * out_h * out_w * c_out
    weights = c_out * deep_in * kh * kw
    spread = reread if kh * kw > 1 else 1.0
    traffic = element_bytes * (points_in * spread + points_out + weights)
    after = (tile_cost, memory_eff, wave, sharpness, split_s)
    gpu = (memory_Bps, num_sms, split, eff, floor_s)
    scatter_s = element_bytes * scattered / (memory_Bps * memory_eff)
    if tensor_cores:
        return scatter_s + cost * gemm_time_s(groups, m, n, k, traffic, rate, *gpu, fill, *after)
    best = scatter_s + cost * gemm_time_s(groups, m, n, k, traffic, rate, *gpu, fill, *after, TILES)
    if groups > 1.0 or kh != kw or kh == 1.0 or kh > WIDEST_WINOGRAD or stride_h * stride_w > 1.0:
        return best
    if kh == 3.0 and direction != 2:
        high, wide = PATCH
        patches = batch * math.ceil(out_h / FUSED_TILE / high) * math.ceil(out_w / FUSED_TILE / wide)
        channels, points = FUSED_TILE**2 * m, FUSED_TILE**2 * PATCH_TILES * patches
        depth, fast = k / (kh * kw), rate * fused
        fused_s = gemm_time_s(1.0, channels, points, depth, traffic, fast, *gpu, k_fill, *after, FUSED_TILES)
        best = min(best, cost * fused_s)
    products = (WINOGRAD_TILE + kh - 1.0) ** 2
    tiles = batch * math.ceil(out_h / WINOGRAD_TILE) * math.ceil(out_w / WINOGRAD_TILE)
    if direction == 0:
        m, n, k = c_out, tiles, c_in
    elif direction == 1:
        m, n, k = c_in, tiles, c_out
    else:
        m, n, k = c_out, c_in, tiles
    transformed = products * (tiles * (c_in + c_out) + c_in * c_out)
    product_s = gemm_time_s(products, m, n, k, element_bytes * transformed, rate, *gpu, k_fill, *after, TILES)
    moved = element_bytes * (points_in + points_out + c_in * c_out * kh * kw + transformed)
    transform_s = 3.0 * floor_s + transform * moved / (memory_Bps * memory_eff)
    return min(best, product_s + transform_s)
