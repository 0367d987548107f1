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
