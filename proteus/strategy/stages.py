"""Cutting the chain of blocks into pipeline chunks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    if num_chunks > total:
        name = model.blocks[main].name
        raise StrategyError(f"{num_chunks} pipeline chunks for {total} blocks ({count} {name}); possible: 1 to {total}")
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


def layers_per_stage(layers: int, chunks: int) -> tuple[int, ...] | None:
    """Layers of every chunk where they do not divide; None where they do.

    A first and a last chunk with one layer less make room for the embedding
    and the head, as Megatron-Core's ``account_for_embedding_in_pipeline_split``.

    >>> layers_per_stage(22, 8), layers_per_stage(24, 8)
    ((2, 3, 3, 3, 3, 3, 3, 2), None)
    """
    if layers % chunks == 0:
        return None
    if chunks > 1 and (layers + 2) % chunks == 0:
        each = (layers + 2) // chunks
        return (each - 1, *((each,) * (chunks - 2)), each - 1)
    each, more = divmod(layers, chunks)
    return tuple(each + (1 if more > 0 and chunks - 1 - more <= i < chunks - 1 else 0) for i in range(chunks))


def light_last_stage(layers: int, chunks: int) -> tuple[int, ...] | None:
    """Layers of every chunk where the last, with the head, gets fewer, as LiBai does for four chunks and more.

    It divides the layers as if there were some more at the end, up to one by
    chunk, and leaves those away (``libai/utils/distributed.py``).

    >>> light_last_stage(24, 4), light_last_stage(48, 8), light_last_stage(24, 2)
    ((6, 7, 7, 4), (6, 6, 7, 7, 7, 7, 7, 1), None)
    """
    if chunks < 4 or layers < 8 or layers % chunks:
        return layers_per_stage(layers, chunks)
    absent = min(chunks - 1, layers // chunks)
    each, more = divmod(layers + absent, chunks)
    layer_counts = [each + (i >= chunks - more) for i in range(chunks)]
    layer_counts[-1] -= absent
    return tuple(layer_counts)


def filled_stages(layers: int, chunks: int) -> tuple[int, ...] | None:
    """Layers of every chunk where all are as full as the fullest but the last, which takes what is left.

    DeepSpeed fills one part after another (``deepspeed/runtime/utils.py``,
    partition_balanced), and so are the layouts of Megatron-Bridge for layers
    that do not divide (``recipes/deepseek/deepseek_v3.py``).  What
    Megatron-Core cuts by itself comes first.

    >>> filled_stages(61, 8), filled_stages(94, 8), filled_stages(72, 12)
    ((8, 8, 8, 8, 8, 8, 8, 5), (11, 12, 12, 12, 12, 12, 12, 11), None)
    """
    full = -(-layers // chunks)
    rest = layers - full * (chunks - 1)
    if layers % chunks == 0 or (layers + 2) % chunks == 0 or rest <= 0:
        return layers_per_stage(layers, chunks)
    return (*((full,) * (chunks - 1)), rest)


def equal_modules(layers: int, chunks: int) -> tuple[int, ...] | None:
    """Layers of every chunk where embedding, final norm and head count as much as a layer (Aleph Alpha's scaling).

    The first chunks get one more where they do not divide
    (``core/nn/parallel_module/pipeline_partitioning.py``, uniform).

    >>> equal_modules(40, 2), equal_modules(40, 4)
    ((21, 19), (10, 11, 11, 8))
    """
    each, more = divmod(layers + 3, chunks)
    layer_counts = [each + (i < more) for i in range(chunks)]
    layer_counts[0] -= 1
    layer_counts[-1] -= 2
    return tuple(layer_counts) if min(layer_counts) >= 0 else layers_per_stage(layers, chunks)


def balanced(layers: int, chunks: int) -> None:
    """None: :func:`split_chain` balances the FLOP of the chunks."""
    return None


#: how layers are split into chunks: (layers of the model, chunks) → layers of each; None leaves it to `split_chain`
CUTS: Mapping[str, Callable[[int, int], tuple[int, ...] | None]] = {
    "balanced": balanced,
    "layers": layers_per_stage,
    "filled": filled_stages,
    "light_last": light_last_stage,
    "modules": equal_modules,
}
