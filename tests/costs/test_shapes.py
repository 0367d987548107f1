"""Shapes of groups: what they tell apart and what they do not."""

from __future__ import annotations

import numpy as np
import pytest

from proteus.cluster import clusters
from proteus.cluster.cluster import Cluster
from proteus.cluster.fabric import Fabric
from proteus.costs.collectives import Collective, choose, terms
from proteus.costs.links import families
from proteus.costs.shapes import group_shapes
from tests.costs.sample_hosts import cube_mesh, pcie_box, switched


def test_groups_that_cost_the_same_have_one_shape():
    cluster = switched(16)
    shapes, index = group_shapes(np.arange(128).reshape(16, 8), cluster)
    assert len(shapes) == 1 and not index.any()
    # One rank per host: eight patterns, yet every GPU has its own card.
    shapes, index = group_shapes(np.arange(128).reshape(16, 8).T, cluster)
    assert len(shapes) == 1 and not index.any()
    assert (shapes[0].num_ranks, shapes[0].num_hosts, shapes[0].ranks_per_host) == (16, 16, 1)


def test_groups_that_cost_differently_have_two():
    groups = np.array([[0, 1], [0, 8], [2, 3]])
    shapes, index = group_shapes(groups, switched(2))
    assert index.tolist() == [0, 1, 0] or index.tolist() == [1, 0, 1]
    assert {shape.num_hosts for shape in shapes} == {1, 2}


def test_pairs_on_a_cube_mesh_differ_by_their_links():
    shapes, index = group_shapes(np.array([[0, 3], [0, 1], [1, 2]]), cube_mesh())
    assert index[0] == index[2] != index[1]
    assert len(shapes) == 2


@pytest.mark.parametrize(
    ("cluster", "group", "intra", "rings"),
    [
        (switched(), range(8), "nvlink3", 1),
        (switched(gpu="h100-sxm"), range(8), "nvlink4", 1),
        (switched(gpu="b200"), range(8), "nvlink5", 1),
        (cube_mesh(), range(8), "nvlink2", 6),
        (cube_mesh(), range(4), "nvlink2", 4),
        (pcie_box(), range(8), "socket", 1),
        (pcie_box(), range(4), "pcie3", 1),
        (switched(2), range(16), "nvlink3", 8),
        (switched(2, nics=1), range(0, 16, 8), "nvlink3", 1),
    ],
)
def test_family_and_rings(cluster: Cluster, group: range, intra: str, rings: int):
    shape = group_shapes(np.array(group)[None], cluster)[0][0]
    assert (shape.intra, shape.rings) == (intra, rings)
    assert shape.intra in families() and shape.inter in families()


def test_the_network_names_its_family():
    cluster = switched(2).with_fabric(Fabric(family="efa"))
    assert group_shapes(np.array([[0, 8]]), cluster)[0][0].inter == "efa"


def test_order_of_ranks_does_not_matter():
    one, _ = group_shapes(np.array([[9, 0, 1, 8]]), switched(2))
    other, _ = group_shapes(np.array([[0, 1, 8, 9]]), switched(2))
    assert one == other


def test_slow_devices_and_mixed_gpus_keep_the_rings():
    """What a GPU computes like says nothing of its links."""
    cluster = switched(2)
    slow, _ = group_shapes(np.arange(16)[None], cluster.slow_device(3, 2.0))
    whole, _ = group_shapes(np.arange(16)[None], cluster)
    assert slow == whole
    mixed = Cluster.mixed([switched(1), switched(1, gpu="h100-sxm")])
    assert group_shapes(np.arange(16)[None], mixed)[0][0].rings == 8
    assert not group_shapes(np.arange(16)[None], mixed)[0][0].nvls


def test_unequal_hosts_are_not_regular():
    shape = group_shapes(np.arange(11)[None], switched(2))[0][0]
    assert not shape.is_regular and shape.rings == 1 and shape.ranks_per_host == 8


def test_a_large_group_has_the_limits_of_a_small_one_on_each_rank():
    small = group_shapes(np.arange(64 * 8)[None], switched(64))[0][0]
    large = group_shapes(np.arange(256 * 8)[None], switched(256))[0][0]
    for limit in small.limits:
        per_rank = {"pairs": (64 * 8 - 8) / (256 * 8 - 8), "rooted": 511 / 2047, "hierarchical": 63 / 255}
        scale = per_rank.get(limit.algorithm, 1.0)
        assert large.limit(limit.algorithm).rate_Bps == pytest.approx(limit.rate_Bps * scale, rel=0.02)


def test_shapes_print_short():
    shape = group_shapes(np.arange(16)[None], switched(2))[0][0]
    assert repr(shape) == "group(16: 2x8 nvlink3+ib)"


@pytest.mark.parametrize("name", clusters.names())
@pytest.mark.parametrize("nodes", [1, 2])
def test_every_preset_can_run_every_collective(name: str, nodes: int):
    cluster = clusters.load(name, nodes=nodes)
    shape = group_shapes(np.arange(cluster.num_devices)[None], cluster)[0][0]
    best_Bps = max(cluster.link_capacity_Bps) * cluster.devices_per_host
    for kind in Collective:
        if kind is Collective.SEND:
            continue
        price = terms(kind, shape, choose(kind, shape, 1e9), 1e9)
        assert 1e9 / best_Bps < price.alone_s < 1e9 / 1e8  # between a perfect host and 0.1 GB/s
