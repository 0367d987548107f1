"""The double binary tree."""

from __future__ import annotations

import numpy as np
import pytest

from proteus.costs.trees import double_tree


@pytest.mark.parametrize("num", [2, 3, 4, 5, 7, 8, 13, 16, 31, 248, 1000])
def test_both_trees_reach_every_node_and_share_the_work(num: int):
    children = []
    for parent in double_tree(num):
        assert (parent < 0).sum() == 1
        count = np.bincount(parent[parent >= 0], minlength=num)
        assert count.max() <= 2
        children.append(count)
        depth = np.zeros(num, int)
        node = np.arange(num)
        while (parent[node] >= 0).any():
            depth += parent[node] >= 0
            node = np.where(parent[node] >= 0, parent[node], node)
            assert depth.max() <= num  # no cycle
        assert depth.max() <= int(np.ceil(np.log2(num))) + 1
    # Nobody has two children in both trees: no card carries more than two messages in and two out, up and down.
    assert (children[0] + children[1]).max() <= 3
    if num > 2:
        assert not ((children[0] == 2) & (children[1] == 2)).any()


def test_trees_of_eight():
    #      0                 7
    #      |                 |
    #      4                 3
    #     / \               / \
    #    2   6             5   1
    #   / \ / \           / \ / \
    #   1 3 5 7           6 4 2 0
    first, second = double_tree(8)
    assert first.tolist() == [-1, 2, 4, 2, 0, 6, 4, 6]
    assert second.tolist() == [1, 3, 1, 7, 5, 3, 5, -1]


def test_one_host_has_no_edges():
    assert [tree.tolist() for tree in double_tree(1)] == [[-1], [-1]]
