"""The double binary tree of NCCL over hosts."""

from __future__ import annotations

from functools import lru_cache

import numpy as np


def _parents(num: int) -> np.ndarray:
    """Parent of every node of one binary tree; -1 for the root, node 0."""
    node = np.arange(num)
    bit = node & -node  # the lowest set bit says how deep a node is
    up = (node ^ bit) | (bit << 1)
    parent = np.where(up < num, up, node ^ bit)
    if num:
        parent[0] = -1
    return parent


@lru_cache(maxsize=256)
def double_tree(num: int) -> tuple[np.ndarray, np.ndarray]:
    """Parents in two trees in which a node that has children in one is a leaf in the other.

    An even number of nodes mirrors the first tree, an odd number shifts it.

    Source: NCCL ``src/graph/trees.cc``; Sanders et al., "Two-tree algorithms
    for full bandwidth broadcast, reduction and scan" (2009).

    >>> first, second = double_tree(4)
    >>> first.tolist(), second.tolist()
    ([-1, 2, 0, 2], [1, 3, 1, -1])
    """
    first = _parents(num)
    if num % 2 == 0:
        second = np.where(first[::-1] < 0, -1, num - 1 - first[::-1])
    else:
        shifted = np.roll(first, 1)
        second = np.where(shifted < 0, -1, (shifted + 1) % num)
    for tree in (first, second):
        tree.setflags(write=False)
    return first, second
