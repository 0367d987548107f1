"""Ring orders on hosts where the order matters."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from proteus.cluster.cluster import Cluster
from proteus.costs.patterns import host_table
from proteus.costs.rings import HostTable, best_paths, best_rings, edge_counts
from tests.costs.sample_hosts import cube_mesh, full_mesh, pcie_box, switched


def total_Bps(table: HostTable, rings: tuple[tuple[int, ...], ...]) -> float:
    """Rate of all rings together when they run side by side."""
    use = sum(table.link_counts()[a, b] for ring in rings for a, b in itertools.pairwise((*ring, ring[0])))
    assert isinstance(use, np.ndarray)
    capacity = np.array(table.capacity_Bps)
    return len(rings) * float((capacity[use > 0] / use[use > 0]).min())


@pytest.mark.parametrize(
    ("cluster", "members", "expected_Bps"),
    [
        (switched(), range(8), 300e9),
        (cube_mesh(), range(8), 150e9),  # all 6 links of every GPU
        (cube_mesh(), range(4), 100e9),  # the 4 links that stay in the quad
        (cube_mesh(), (0, 3), 50e9),
        (full_mesh(), range(8), 6 * 64e9),  # of 7 links; rings come in pairs, there and back
        (pcie_box(), range(4), 12e9),
        (pcie_box(), range(8), 6e9),
        (pcie_box(), (0, 7, 1, 6), 6e9),
    ],
)
def test_best_total_rate(cluster: Cluster, members: range, expected_Bps: float):
    table = host_table(np.array(members), cluster)
    rings = best_rings(table)
    assert all(sorted(ring) == list(range(len(members))) for ring in rings)
    assert total_Bps(table, rings) == pytest.approx(expected_Bps)


@pytest.mark.parametrize("size", [3, 4, 5, 6])
def test_no_single_ring_is_better(size: int):
    for members in itertools.combinations(range(8), size):
        table = host_table(np.array(members), cube_mesh())
        every = (total_Bps(table, ((0, *rest),)) for rest in itertools.permutations(range(1, size)))
        assert total_Bps(table, best_rings(table)) >= max(every) * 0.99


def test_paths_keep_their_ends():
    table = host_table(np.arange(8), cube_mesh())
    ends = ((0, 1), (2, 3), (4, 5), (6, 7))
    paths = best_paths(table, ends)
    assert tuple((path[0], path[-1]) for path in paths) == ends
    assert all(sorted(path) == list(range(8)) for path in paths)


def test_paths_share_out_a_full_mesh():
    # 8 paths of 7 steps are 56 steps: each direction of the 28 pairs once.
    table = host_table(np.arange(8), full_mesh())
    paths = best_paths(table, tuple((i, (i + 4) % 8) for i in range(8)))
    counts = edge_counts(paths, 8, closed=False)
    assert (counts[~np.eye(8, dtype=bool)] == 1).all()


def test_edges_of_open_and_closed_orders():
    assert edge_counts(((0, 1), (0, 1)), 2, closed=True).tolist() == [[0, 2], [2, 0]]
    assert edge_counts(((0, 1), (0, 1)), 2, closed=False).tolist() == [[0, 2], [0, 0]]
    assert edge_counts(((0,),), 1, closed=True).tolist() == [[0]]
