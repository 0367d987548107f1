"""Cutting the chain of blocks into pipeline chunks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from proteus.errors import StrategyError
from proteus.model.graph import Model


def split_chain(model: Model, num_chunks: int, layers: Sequence[int] | None = None) -> tuple[tuple[int, int], ...]:
    """Half-open block ranges of the chunks.

    Parameters
    ----------
    layers
        Copies of the main block (the one with most copies) per chunk.  None:
        equal numbers when they divide, as Megatron does, else the cut whose
        heaviest chunk has the fewest FLOP.

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
        if len(layers) != num_chunks or sum(layers) != count or min(layers) < 0:
            raise StrategyError(
                f"layers_per_stage={list(layers)} must list {num_chunks} numbers that add up to "
                f"the {count} {model.blocks[main].name}"
            )
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
        flop = [sum(op.flop() for op in block.ops) for block in model.blocks for _ in range(block.count)]
        edges = balanced_edges(flop, num_chunks)
    if any(a >= b for a, b in pairwise(edges)):
        raise StrategyError(f"a pipeline chunk would hold no block: cuts at {edges}")
    return tuple(pairwise(edges))


def balanced_edges(cost: Sequence[float], num_parts: int) -> list[int]:
    """Cuts of a chain into non-empty parts with the smallest heaviest part.

    >>> balanced_edges([1, 1, 1, 1, 6], 2)
    [0, 4, 5]
    """
    total = [0.0, *accumulate(cost)]
    n = len(cost)
    # best[k][i]: heaviest part when the first i blocks are cut in k parts
    best = [total[: n + 1]]
    choice: list[list[int]] = [[0] * (n + 1)]
    for parts in range(2, num_parts + 1):
        row, cut = [float("inf")] * (n + 1), [0] * (n + 1)
        for i in range(parts, n + 1):
            for j in range(parts - 1, i):
                heaviest = max(best[-1][j], total[i] - total[j])
                if heaviest < row[i]:
                    row[i], cut[i] = heaviest, j
        best.append(row)
        choice.append(cut)
    edges = [n]
    for parts in range(num_parts - 1, 0, -1):
        edges.append(choice[parts][edges[-1]])
    return [0, *reversed(edges)]
