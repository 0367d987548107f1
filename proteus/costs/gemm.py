"""Seconds of a GEMM: tiles, waves, depth, and memory.

A GEMM is cut in output tiles of ``tile_m x tile_n``; every streaming
multiprocessor (SM, or compute unit) works on one tile at a time, so the last
wave of tiles is partly idle::

    C (m x n)            tiles 12, SMs 5 -> waves 3, of which the last is 2/5 full
    +--+--+--+--+
    |1 |2 |3 |4 |        compute = waves x (k + k_fill) x tile flop rate
    |5 |1 |2 |3 |        memory  = bytes read and written / bandwidth
    |4 |5 |1 |2 |        time    = floor + smooth maximum of the two
    +--+--+--+--+

The library picks the tile and the split of k (several SMs share one output
tile and add their partial sums through memory); so does this function, as
the fastest of a short list.  All is plain arithmetic on floats, so that the
fitting script can compile the same code.
"""

from __future__ import annotations

import math

#: output tiles that cuBLAS, CUTLASS and rocBLAS kernels are built with
TILES = (
    *((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64)),
    *((64, 32), (32, 64), (128, 32), (32, 128), (32, 32), (16, 128)),
)
#: how many SMs may share one output tile along k (split-k, stream-k)
SPLITS = (1, 2, 4, 8, 16, 32, 64, 128)
#: bytes per element of the partial sums of split k, always fp32
PARTIAL_BYTES = 4.0


def gemm_time_s(
    batch: float,
    m: float,
    n: float,
    k: float,
    traffic_bytes: float,
    peak_flops: float,
    memory_Bps: float,
    num_sms: float,
    max_split: float,
    eff: float,
    floor_s: float,
    k_fill: float,
    tile_cost: float,
    memory_eff: float,
    wave: float,
    sharpness: float,
    split_s: float,
    tiles: tuple[tuple[int, int], ...] = TILES,
) -> float:
    """Time of `batch` GEMMs of (m, k) by (k, n) on an idle GPU [s].

    Parameters
    ----------
    traffic_bytes
        Bytes read and written once: operands, result, an accumulated result.
    peak_flops, memory_Bps, num_sms
        The GPU's sheet: dense peak of the dtype, memory bandwidth, SMs.
    max_split
        Most SMs that may share one output tile; 1 where the library never
        splits k.
    eff, floor_s, k_fill, tile_cost, memory_eff, wave, sharpness, split_s
        A :class:`GemmCurve`.
    tiles
        Output tiles that the library has kernels for.

    Notes
    -----
    Not modelled: alignment of k to 16 bytes, L2 hits, clock drift.
    """
    bandwidth = memory_Bps * memory_eff
    memory_s = traffic_bytes / bandwidth
    sm_flops = peak_flops * eff / num_sms
    best = math.inf
    for tile_m, tile_n in tiles:
        num_tiles = batch * math.ceil(m / tile_m) * math.ceil(n / tile_n)
        tile_rate = sm_flops / (1.0 + tile_cost * (1.0 / tile_m + 1.0 / tile_n))
        depth_s = 2.0 * tile_m * tile_n / tile_rate
        for split in SPLITS:
            if split > max_split:
                break
            waves = num_tiles * split / num_sms
            whole = math.ceil(waves)
            waves = waves + wave * (whole - waves) if waves > 1.0 else 1.0
            compute_s = waves * (k / split + k_fill) * depth_s
            extra_s = 0.0
            if split > 1:
                extra_s = split_s + batch * m * n * split * PARTIAL_BYTES / bandwidth
            ratio = min(compute_s, memory_s) / max(compute_s, memory_s)
            both = max(compute_s, memory_s) * (1.0 + ratio**sharpness) ** (1.0 / sharpness)
            best = min(best, both + extra_s)
            if num_tiles * split > 2 * num_sms or k / split < 128:
                break  # deeper splits only add traffic
    return floor_s + best
