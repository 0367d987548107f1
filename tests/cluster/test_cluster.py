"""What a cluster answers, and the clusters made from it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from proteus.cluster import Cluster, Fabric, clusters
from proteus.errors import TopologyError


def test_devices_are_numbered_host_by_host() -> None:
    cluster = clusters.load("dgx-a100", nodes=3)
    assert (cluster.num_devices, cluster.num_hosts, cluster.devices_per_host) == (24, 3, 8)
    assert cluster.host_of([0, 7, 8, 23]).tolist() == [0, 0, 1, 2]
    assert cluster.local_of([0, 7, 8, 23]).tolist() == [0, 7, 0, 7]


def test_gpu_of_a_device() -> None:
    cluster = Cluster.mixed([clusters.load("dgx-a100"), clusters.load("dgx-h100")])
    assert (cluster.gpu(7).name, cluster.gpu(8).name) == ("a100-80gb", "h100-sxm")
    assert cluster.gpu_kind().tolist() == [0] * 8 + [1] * 8
    with pytest.raises(TopologyError, match="there is no device 16; devices are 0 to 15"):
        cluster.gpu(16)


def test_uniform() -> None:
    cluster = clusters.load("dgx-a100", nodes=2)
    assert cluster.is_uniform
    assert not cluster.slow_device(3, 2.0).is_uniform
    assert not cluster.without_nic(0, 0).is_uniform
    assert not Cluster.mixed([cluster, clusters.load("dgx-h100")]).is_uniform


def test_nvls_needs_nvswitch_of_hopper_or_later() -> None:
    assert [clusters.load(name).nvls for name in ("dgx-a100", "dgx-h100", "gb200-nvl72", "mi300x", "hc1")] == [
        False, True, True, False, False
    ]  # fmt: skip


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


def test_with_gpu_keeps_the_links() -> None:
    cluster = clusters.load("dgx-h100", nodes=2)
    other = cluster.with_gpu("h200")
    assert other.gpu().name == "h200"
    assert other.link_capacity_Bps.tolist() == cluster.link_capacity_Bps.tolist()


def test_slow_device() -> None:
    cluster = clusters.load("dgx-a100").slow_device(2, 1.5).slow_device(2, 2.0)
    assert cluster.device_slowdown.tolist() == [1, 1, 3, 1, 1, 1, 1, 1]
    colours = cluster.colours()
    assert len(set(colours.tolist())) == 2 and (colours == colours[2]).sum() == 1
    with pytest.raises(TopologyError, match="there is no device 8"):
        cluster.slow_device(8, 2.0)


def test_slow_link_by_number_is_that_link() -> None:
    cluster = clusters.load("dgx-a100", nodes=12)
    slow = cluster.slow_link(70, 0.25)
    assert np.flatnonzero(slow.link_capacity_Bps != cluster.link_capacity_Bps).tolist() == [70]
    assert slow.link_capacity_Bps[70] == cluster.link_capacity_Bps[70] * 0.25


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
    with pytest.raises(TopologyError, match="no clusters given"):
        Cluster.mixed([])


def test_mixed_moves_slow_devices_along() -> None:
    slow = clusters.load("dgx-a100", nodes=2).slow_device(3, 2.0)
    assert Cluster.mixed([slow, slow]).faults.slow_devices == ((3, 2.0), (19, 2.0))


def test_equal_clusters_are_equal_and_travel() -> None:
    one = clusters.load("dgx-a100", nodes=2).slow_device(1, 2.0)
    two = clusters.load("dgx-a100:2").slow_device(1, 2.0)
    assert one == two and hash(one) == hash(two)
    assert one != two.slow_device(2, 2.0)
    back = pickle.loads(pickle.dumps(one))
    assert back == one and back.routes([0], [9]).tolist() == one.routes([0], [9]).tolist()


def test_repr_is_short() -> None:
    mixed = Cluster.mixed([clusters.load("dgx-a100", nodes=2), clusters.load("dgx-h100")])
    assert repr(mixed) == "Cluster(mixed: 2 hosts x 8 a100-80gb, 1 host x 8 h100-sxm)"
    assert repr(clusters.load("hc1").slow_device(0, 2.0)) == "Cluster(hc1: 1 host x 8 titan-xp, with faults)"


def test_values_are_not_changed() -> None:
    cluster = clusters.load("dgx-a100", nodes=2)
    before = cluster.link_capacity_Bps.copy()
    cluster.slow_link("*", 0.5), cluster.without_nic(0, 0), cluster.with_fabric(Fabric(oversubscription=2.0))
    assert (cluster.link_capacity_Bps == before).all() and cluster.num_links == len(before)
