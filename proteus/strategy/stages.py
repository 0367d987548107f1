"""Cutting the chain of blocks into pipeline chunks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise, takewhile

import numpy as np

from proteus.errors import StrategyError
from proteus.model.graph import Model


def split_chain(model: Model, num_chunks: int, layers: Sequence[int] | None = None) -> tuple[tuple[int, int], ...]:
    """Half-open block ranges of the chunks.

    Parameters
    ----------
    layers
        Layers per chunk: of the main block (the one with most copies), or of
        all kinds where some are others, such as the dense ones that come before
        sparse ones; what they add up to says which.  None: equal numbers when
        they divide, as Megatron does, else the cut whose heaviest chunk has the
        fewest FLOP.

    Raises
    ------
    StrategyError
        More chunks than blocks, or a list that does not add up.
    """
    main = max(range(len(model.blocks)), key=lambda i: model.blocks[i].count)
    count = model.blocks[main].count
    before = sum(block.count for block in model.blocks[:main])
    total = model.num_blocks
    if layers is not None:
        kinds = [block.count for block in model.blocks if block.indexed]
        if len(layers) != num_chunks or sum(layers) not in (count, sum(kinds)) or min(layers) < 0:
            raise StrategyError(
                f"layers_per_stage={list(layers)} must list {num_chunks} numbers that add up to "
                f"the {count} {model.blocks[main].name}" + (f" or to all {sum(kinds)}" if len(kinds) > 1 else "")
            )
        if sum(layers) != count:
            before = sum(block.count for block in takewhile(lambda block: not block.indexed, model.blocks))
        edges = [0, *(before + done for done in accumulate(layers[:-1])), total]
    elif num_chunks == 1:
        edges = [0, total]
    elif count > 1 and count % num_chunks == 0:
        step = count // num_chunks
        edges = [0, *(before + step * i for i in range(1, num_chunks)), total]
    elif num_chunks > total:
        name = model.blocks[main].name
        raise StrategyError(f"{num_chunks} pipeline chunks for {total} blocks ({count} {name}); possible: 1 to {total}")
    else:
        flop = ((sum(op.flop() for op in block.ops), block.count) for block in model.blocks)
        edges = list(balanced_edges(tuple(cost for cost, copies in flop for _ in range(copies)), num_chunks))
    if any(a >= b for a, b in pairwise(edges)):
        raise StrategyError(f"a pipeline chunk would hold no block: cuts at {edges}")
    return tuple(pairwise(edges))


@lru_cache(maxsize=256)  # menus try the same few again after every edit
def balanced_edges(cost: tuple[float, ...], num_parts: int) -> tuple[int, ...]:
    """Cuts of a chain into non-empty parts with the smallest heaviest part.

    >>> balanced_edges((1, 1, 1, 1, 6), 2)
    (0, 4, 5)
    """
    total = np.concatenate([[0.0], np.cumsum(np.array(cost, float))])
    n = len(cost)
    # best[i]: heaviest part when the first i blocks are cut in as many parts as the rows of `choice`
    best, choice = total, [np.zeros(n + 1, np.int64)]
    for parts in range(2, num_parts + 1):
        row, cut = np.full(n + 1, np.inf), np.zeros(n + 1, np.int64)
        for i in range(parts, n + 1):
            heaviest = np.maximum(best[parts - 1 : i], total[i] - total[parts - 1 : i])
            at = int(heaviest.argmin())
            row[i], cut[i] = heaviest[at], parts - 1 + at
        best = row
        choice.append(cut)
    edges = [n]
    for parts in range(num_parts - 1, 0, -1):
        edges.append(int(choice[parts][edges[-1]]))
    return (0, *reversed(edges))
