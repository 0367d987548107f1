"""Clusters made from other clusters."""

from __future__ import annotations

import pytest

from proteus.cluster import Cluster, clusters
from proteus.errors import TopologyError


def test_with_nodes_keeps_what_still_exists() -> None:
    cluster = clusters.load("dgx-a100", nodes=4).slow_device(1, 1.5).slow_device(30, 2.0)
    smaller = cluster.with_nodes(2)
    assert smaller.num_hosts == 2 and smaller.faults.slow_devices == ((1, 1.5),)
    slow = cluster.slow_link("host3/nic0->*", 0.5).slow_link("nic1->*", 0.5)
    assert slow.with_nodes(2).faults.slow_links == (("nic1->*", 0.5),)
    broken = cluster.without_nic(1, 0).with_nodes(3)
    assert [len(broken.host_at(h).nics) for h in range(3)] == [8, 7, 8]
    with pytest.raises(TopologyError, match="nodes=0"):
        cluster.with_nodes(0)


def test_with_gpu_keeps_what_the_gpu_does_not_bring() -> None:
    cluster = clusters.load("dgx-h100", nodes=2)
    changed = cluster.with_gpu("h200")
    assert changed.gpu().name == "h200"
    assert changed.link_capacity_Bps.tolist() == cluster.link_capacity_Bps.tolist()
    broken = cluster.without_nic(1, "nic0").slow_device(3, 1.5).with_gpu("h800")
    assert [len(broken.host_at(h).nics) for h in range(2)] == [8, 7] and broken.faults.slow_devices == ((3, 1.5),)


def test_without_nic_moves_its_gpus() -> None:
    cluster = clusters.load("dgx-a100", nodes=3)
    broken = cluster.without_nic(1, 3)
    assert [count for _, count in broken.runs] == [1, 1, 1]
    before, after = cluster.routes([11], [3])[0], broken.routes([11], [3])[0]
    assert "host1/nic3->net" in [cluster.link_name(i) for i in before if i >= 0]
    assert "host1/nic2->net" in [broken.link_name(i) for i in after if i >= 0]
    with pytest.raises(TopologyError, match="host 1 has no NIC 8; it has 8: nic0"):
        cluster.without_nic(1, 8)
    with pytest.raises(TopologyError, match="there is no host 3; hosts are 0 to 2"):
        cluster.without_nic(3, 0)


def test_the_last_nic_of_many_hosts_cannot_go() -> None:
    with pytest.raises(TopologyError, match="has no NIC; 4 hosts need one each"):
        clusters.load("hc2").without_nic(0, 0)
    assert clusters.load("hc2", nodes=1).without_nic(0, 0).num_devices == 8


def test_mixed_needs_hosts_of_one_size() -> None:
    with pytest.raises(TopologyError, match=r"hosts of \[8, 16\] GPUs"):
        Cluster.mixed([clusters.load("dgx-a100"), clusters.load("dgx2")])
    with pytest.raises(TopologyError, match="at least 1"):
        Cluster.mixed([])


def test_mixed_moves_slow_devices_along() -> None:
    slow = clusters.load("dgx-a100", nodes=2).slow_device(3, 2.0)
    assert Cluster.mixed([slow, slow]).faults.slow_devices == ((3, 2.0), (19, 2.0))
