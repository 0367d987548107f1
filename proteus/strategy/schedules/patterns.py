"""The order of every rank in closed form, one function per schedule.

In all of these schedules the micro-batches of one chunk pass in order, so a
row is known by its sequence of (local chunk, kind) alone: ``F0`` stands for
"the next forward of the rank's first chunk".  A row is written as such a
sequence, ``[F0] * 3 + [F1, B1, W1] * 2``, and numbered by numpy afterwards.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from proteus.strategy.schedules.pipeline_plan import B, F, W

# A symbol is 3 * local chunk + kind.
F0, B0, W0, F1, B1, W1 = range(6)

Columns = tuple[np.ndarray, np.ndarray, np.ndarray]


def numbered(symbols: list[int] | np.ndarray, local_chunks: tuple[int, ...], num_micro_batches: int) -> Columns:
    """Columns of a row of symbols: the n-th use of a symbol is micro-batch n.

    Micro-batches from `num_micro_batches` on are left out: a schedule that is
    drawn for more micro-batches than there are stays correct without the last.
    """
    symbol = np.asarray(symbols, "i4")
    order = np.argsort(symbol, kind="stable")
    counts = np.bincount(symbol, minlength=1)
    micro_batch = np.empty(len(symbol), "i4")
    micro_batch[order] = np.arange(len(symbol)) - np.repeat(np.cumsum(counts) - counts, counts)
    keep = micro_batch < num_micro_batches
    symbol, micro_batch = symbol[keep], micro_batch[keep]
    return np.asarray(local_chunks, "i4")[symbol // 3], (symbol % 3).astype("u1"), micro_batch


def gpipe(rank: int, num_ranks: int, num_micro_batches: int, max_in_flight: int) -> Columns:
    """All forwards, then all backwards; under a limit, in groups of that many.

    Source: Huang et al., "GPipe", 2019, fig. 2c.  Backwards go in the order of
    the forwards, as in PyTorch's ``ScheduleGPipe``; the paper draws them
    reversed, which takes the same time.
    """
    groups, rest = divmod(num_micro_batches, min(max_in_flight, num_micro_batches))
    size = min(max_in_flight, num_micro_batches)
    row = ([F0] * size + [B0] * size) * groups + [F0] * rest + [B0] * rest
    return numbered(row, (rank,), num_micro_batches)


def one_f_one_b(rank: int, num_ranks: int, num_micro_batches: int, max_in_flight: int) -> Columns:
    """Forwards until the first backward can come back, then one of each.

    ::

        rank 0   F0 F1 F2 F3 B0 F4 B1 ...
        rank 3   F0 B0 F1 B1 F2 B2 ...

    Source: Narayanan et al., "Efficient Large-Scale Language Model Training on
    GPU Clusters", 2021, section 2.2.1 (PipeDream-Flush).  Rank r holds
    ``num_ranks - r`` micro-batches, or fewer under a limit.
    """
    warm_up = min(num_ranks - rank - 1, max_in_flight - 1, num_micro_batches)
    row = [F0] * warm_up + [F0, B0] * (num_micro_batches - warm_up) + [B0] * warm_up
    return numbered(row, (rank,), num_micro_batches)


def interleaved(rank: int, num_ranks: int, num_micro_batches: int, virtual_stages: int) -> Columns:
    """1F1B over several chunks per rank, `num_ranks` micro-batches of each in turn.

    Forward number k of a rank is micro-batch ``k // (p v) * p + k % p`` of its
    chunk ``k // p % v``; backwards take the chunks from the last.

    Source: Narayanan et al. 2021, section 2.2.2, and Megatron-LM's
    ``forward_backward_pipelining_with_interleaving``: 2 (p - r - 1) + (v - 1) p
    forwards before the first backward.
    """
    total = num_micro_batches * virtual_stages
    warm_up = min(2 * (num_ranks - rank - 1) + (virtual_stages - 1) * num_ranks, total)
    k = np.arange(total)
    micro_batch = k // (num_ranks * virtual_stages) * num_ranks + k % num_ranks
    local = k // num_ranks % virtual_stages

    kind = np.empty(2 * total, "u1")
    kind[:warm_up] = F
    kind[warm_up : 2 * total - warm_up : 2] = F
    kind[warm_up + 1 : 2 * total - warm_up : 2] = B
    kind[2 * total - warm_up :] = B

    chunk = np.empty(2 * total, "i4")
    chunk[kind == F] = local * num_ranks + rank
    chunk[kind == B] = (virtual_stages - 1 - local) * num_ranks + rank
    both = np.empty(2 * total, "i4")
    both[kind == F] = both[kind == B] = micro_batch
    return chunk, kind, both


def zb_h1(rank: int, num_ranks: int, num_micro_batches: int) -> Columns:
    """1F1B with the backward cut in two; weight gradients fill the end.

    Rank r runs its weight gradients r micro-batches late, so every rank holds
    as much as the first rank of 1F1B does, `num_ranks` micro-batches, and the
    bubble is (p - 1) (F + B - W) instead of (p - 1) (F + B + W).

    Source: Qi et al., "Zero Bubble Pipeline Parallelism", 2023 (arXiv
    2401.10241), section 2.1 and table 2; the order of PyTorch's
    ``ScheduleInterleavedZeroBubble`` with one chunk per rank.
    """
    n = max(num_micro_batches, num_ranks)
    warm_up = num_ranks - rank - 1
    row = [F0] * warm_up
    row += [F0, B0] * rank
    row += [F0, B0, W0] * (n - num_ranks + 1)
    row += [B0, W0] * warm_up
    row += [W0] * rank
    return numbered(row, (rank,), num_micro_batches)


def zb_h2(rank: int, num_ranks: int, num_micro_batches: int) -> Columns:
    """More forwards before the first backward, and no rank ever waits.

    Rank r starts with ``2 (p - r) - 1`` forwards, as many as fit until its
    first backward can come back, and runs its weight gradients 2 r micro-batches
    late.  With F = B = W every rank works from its first action to its last;
    every rank holds ``2 p - 1`` micro-batches, about twice what 1F1B does.

    Source: Qi et al. 2023, section 2.2 and fig. 3 (ZB-H2, their "2p" limit).
    """
    p, r = num_ranks, rank
    warm_up = 2 * (p - r) - 1
    n = max(num_micro_batches, 2 * p - 1)
    row = [F0] * warm_up
    row += [B0, F0] * (2 * r)
    row += [B0, W0, F0] * (n - 2 * p + 1)
    row += [B0, W0] * warm_up
    row += [W0] * (2 * r)
    return numbered(row, (rank,), num_micro_batches)


def zb_v(rank: int, num_ranks: int, num_micro_batches: int) -> Columns:
    """Zero bubble over two chunks per rank, the model going down and up again.

    The last chunk is on the first rank, so its backward starts as soon as the
    first forward has passed.  With F = B = W no rank ever waits between its
    first and its last action.  A rank holds 2p chunks of half a stage: what
    the first rank of 1F1B holds, half of what ZB-H2 does.

    Source: Qi et al. 2023, section 6 and fig. 8; the order of PyTorch's
    ``ScheduleZBVZeroBubble``, which differs from the figure in the last W's.
    """
    p, r = num_ranks, rank
    n = max(num_micro_batches, 2 * p - 1)
    row = [F0] * (2 * (p - r) - 1)
    row += [F1, F0] * r
    row += [F1, B1, W1] * (p - r)
    row += [F0, B0, W0, F1, B1, W1] * (n - 2 * p + r + 1)
    row += [B0, W0, F1, B1, W1] * (p - r - 1)
    row += [B0, B1] * r
    row += [B0, W0] * (p - r)
    row += [W1] * r + [W0] * r
    return numbered(row, _v_chunks(r, p), num_micro_batches)


def v_half(rank: int, num_ranks: int, num_micro_batches: int) -> Columns:
    """The V of zb-v with half of 1F1B's activations, (p + 2) // 2 stages, for a bubble at the ends.

    Source: Qi et al., "Pipeline Parallelism with Controllable Memory", 2024
    (arXiv 2405.15362), section 3 and the offsets of table 9.
    """
    p, r = num_ranks, rank
    gap = 3 if p % 2 == 0 else 0  # else two actions of a period would meet in one unit of time
    block = (2 * r, 3 * p - r - 2, 3 * p + gap + 2 * r - 1, 6 * p + gap - r - 2)
    return _repeated(block, rank, num_ranks, num_micro_batches)


def v_min(rank: int, num_ranks: int, num_micro_batches: int) -> Columns:
    """The V of zb-v with a third of 1F1B's activations, (p + 4) // 3 stages: every action as early as it can be.

    Source: Qi et al. 2024, section 3 and the offsets of table 8.
    """
    p, r = num_ranks, rank
    gap = 2 if p % 3 == 0 else 0
    block = (r, 2 * p - r - 1, 2 * p + gap + r, 4 * p + gap - r - 1)
    return _repeated(block, rank, num_ranks, num_micro_batches)


def _repeated(block: tuple[int, int, int, int], rank: int, num_ranks: int, num_micro_batches: int) -> Columns:
    """One block of F0, F1, B1, B0 at these units of time, again every 6 units; W where there is room.

    A micro-batch is six actions on its rank, so with F = B = W a block every 6
    units keeps the rank busy, and what is held at once is how long the block
    holds its activations.  Only the order is kept here: at run time
    every action starts as soon as it can, as the paper's "squeeze" does.  The
    paper's further reordering of the warm-up and the end is left out, which
    costs V-Half half a unit per rank (3.5 p instead of 3 p).
    """
    period = 6
    start = np.add.outer(np.arange(num_micro_batches) * period, np.asarray(block)).ravel()
    planned = dict(zip(start.tolist(), (F0, F1, B1, B0) * num_micro_batches))
    late: deque[int] = deque()
    row = []
    for time in range(max(planned) + 1):
        symbol = planned.get(time)
        if symbol is None:
            if late:
                row.append(late.popleft())
            continue
        row.append(symbol)
        if symbol in (B0, B1):
            late.append(symbol + W - B)
    return numbered([*row, *late], _v_chunks(rank, num_ranks), num_micro_batches)


def dualpipe(rank: int, num_ranks: int, num_micro_batches: int) -> Columns:
    """DualPipeV: DualPipe cut in half, so that each parameter exists once.

    DualPipe feeds micro-batches from both ends and keeps two copies of every
    parameter for it.  Folded in the middle it runs on half the ranks, the two
    directions become the two arms of a V, and the copies are gone.  A forward
    of one arm stands next to a backward of the other (``F0 B1 W1``,
    ``F1 B0 W0``): their computation hides each other's communication.  Where
    the published schedule runs a whole backward, B and W stand together here,
    so the gradient of the input can leave before W has run: with F = B = W the
    bubble is p - 1 units, where the published (p - 1) (F&B + B - 3W) is 2p - 2.

    Source: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.2.1;
    Sea AI Lab, "DualPipe could be better without the Dual", 2025; the eight
    steps of PyTorch's ``ScheduleDualPipeV``.
    """
    p, r = num_ranks, rank
    row = [F0] * (2 * (p - r - 1))
    row += [F0, F1] * (r + 1)
    row += [B1, W1, F1] * (p - r - 1)
    row += [F0, B1, W1, F1, B0, W0] * (num_micro_batches - 2 * p + r + 1)
    row += [B1, W1, F1, B0, W0] * (p - r - 1)

    # The second half of the last backwards of this step and all that follow leave W for the end.
    tail = [B1, B0] * (r + 1)
    whole = r + 1
    late: deque[int] = deque()
    for i, symbol in enumerate(tail):
        row.append(symbol)
        if i < whole:
            row.append(symbol + W - B)
        else:
            late.append(symbol + W - B)
    for _ in range(p - r - 1):
        row += [late.popleft(), B0]
        late.append(W0)
    row += late
    return numbered(row, _v_chunks(r, p), num_micro_batches)


def _v_chunks(rank: int, num_ranks: int) -> tuple[int, int]:
    return rank, 2 * num_ranks - 1 - rank
