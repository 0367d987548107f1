"""Seconds of a fused (flash) attention kernel.

A block of query rows stays on one SM and walks over the keys and values
(backward: a block of keys walks over the queries).  Besides the GEMMs,
every score costs an exponential, which no tensor core does::

    time of one score = GEMMs (dims of q.k and of p.v) / tensor rate of the SM + softmax

The softmax does not shrink with the tensor rate, so short heads and strong
tensor cores reach a smaller share of the peak.  Causal attention skips the
blocks above the diagonal; blocks on it are computed in full.  Its blocks are
of unequal length: when the last long one ends, other SMs have been idle for a
while (`tail`).
"""

from __future__ import annotations

import math

#: query rows and keys of one block (FlashAttention-2, section 3.3)
BLOCK_Q, BLOCK_KV = 128.0, 128.0
#: widest head whose block keeps its size
WIDE_DIM = 128.0


def attention_flop(
    batch: float, heads: float, seq_q: float, seq_kv: float, dim_qk: float, dim_v: float, causal: float, backward: float
) -> float:
    """FLOP of attention, the lower triangle only where it is causal.

    Backward makes five GEMMs: the scores again, dP, dV, dQ, dK.
    """
    pairs = seq_q * seq_kv
    if causal:
        short = min(seq_q, seq_kv)
        pairs = short * (seq_kv - (short - 1.0) / 2.0)
    per_pair = 2.0 * (dim_qk + dim_v)
    if backward:
        per_pair = 2.0 * (3.0 * dim_qk + 2.0 * dim_v)
    return batch * heads * pairs * per_pair


def attention_time_s(
    batch: float,
    heads: float,
    kv_heads: float,
    seq_q: float,
    seq_kv: float,
    dim_qk: float,
    dim_v: float,
    causal: float,
    backward: float,
    element_bytes: float,
    peak_flops: float,
    memory_Bps: float,
    num_sms: float,
    eff: float,
    floor_s: float,
    score_s: float,
    fill_kv: float,
    memory_eff: float,
    wave: float,
    backward_eff: float,
    wide_cost: float,
    tail: float,
    backward_fill: float,
) -> float:
    """Time of one fused attention kernel on an idle GPU [s].

    Parameters
    ----------
    causal, backward
        0 or 1; backward is the whole gradient (q, k and v).
    element_bytes
        Bytes per element of q, k, v and the output.

    Notes
    -----
    Not modelled: dropout, sliding windows, attention bias, split of keys for
    decoding.
    """
    rows = seq_kv if backward else seq_q  # what is cut into blocks
    walk = seq_q if backward else seq_kv  # what a block walks over
    blocks = math.ceil(rows / BLOCK_Q)
    mean_walk = walk
    if causal:
        # mean length below the diagonal; the diagonal block is computed in full
        short = min(seq_q, seq_kv)
        mean_walk = min(short * (seq_kv - short / 2.0) / rows + BLOCK_KV / 2.0, walk)
    fill = fill_kv * backward_fill if backward else fill_kv
    mean_walk = math.ceil(mean_walk / 16.0) * 16.0 + fill
    dims = 3.0 * dim_qk + 2.0 * dim_v if backward else dim_qk + dim_v
    share = eff * backward_eff if backward else eff
    dims = dims * (1.0 + wide_cost * max(0.0, max(dim_qk, dim_v) / WIDE_DIM - 1.0))
    pair_s = 2.0 * dims / (peak_flops / num_sms * share) + score_s
    waves = batch * heads * blocks / num_sms
    if causal:
        longest = walk + fill
        walked = max(longest, waves * mean_walk + tail * longest)
    elif waves < 1.0:
        walked = mean_walk
    else:
        walked = (waves + wave * (math.ceil(waves) - waves)) * mean_walk
    compute_s = BLOCK_Q * walked * pair_s
    moved = batch * element_bytes * (heads * seq_q * (dim_qk + dim_v) + kv_heads * seq_kv * (dim_qk + dim_v))
    if backward:
        moved = 2.0 * moved + batch * heads * seq_q * (dim_v * element_bytes + 2.0 * dim_qk * 4.0)
    memory_s = moved / (memory_Bps * memory_eff)
    return floor_s + math.sqrt(compute_s * compute_s + memory_s * memory_s)
