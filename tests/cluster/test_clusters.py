"""The presets."""

from __future__ import annotations

import pytest

from proteus.cluster import LinkKind, clusters
from proteus.errors import InputError, TopologyError

GB = 1e9


@pytest.mark.parametrize("name", clusters.names())
def test_every_preset_is_whole(name: str) -> None:
    cluster = clusters.load(name, nodes=2)
    assert cluster.name == name
    assert (cluster.link_capacity_Bps > 0).all() and (cluster.link_latency_s > 0).all()
    assert cluster.warnings == ()
    assert min(cluster.host.nic_of_gpu) >= 0


@pytest.mark.parametrize(
    ("name", "gpu", "per_host", "gpu_link_GBps", "nic_GBps", "num_nics"),
    [
        ("dgx1-v100", "v100-sxm2-32gb", 8, 25, 12.5, 4),
        ("dgx2", "v100-sxm3-32gb", 16, 150, 12.5, 8),
        ("dgx-a100", "a100-80gb", 8, 300, 25, 8),
        ("dgx-a100-40gb", "a100-40gb", 8, 300, 25, 8),
        ("dgx-h100", "h100-sxm", 8, 450, 50, 8),
        ("dgx-h200", "h200", 8, 450, 50, 8),
        ("dgx-b200", "b200", 8, 900, 50, 8),
        ("gb200-nvl72", "gb200", 72, 900, 50, 72),
        ("p4d", "a100-40gb", 8, 300, 12.5, 4),
        ("p5", "h100-sxm", 8, 450, 50, 8),
        ("mi300x", "mi300x", 8, 64, 50, 8),
        ("hc1", "titan-xp", 8, 15.75, 7, 1),
        ("hc2", "v100-sxm2-32gb", 8, 25, 12.5, 1),
        ("hc3", "a100-40gb", 8, 300, 25, 1),
    ],
)
def test_figures(name: str, gpu: str, per_host: int, gpu_link_GBps: float, nic_GBps: float, num_nics: int) -> None:
    cluster = clusters.load(name)
    assert cluster.gpu().name == gpu and cluster.devices_per_host == per_host
    first = cluster.routes([0], [1])[0][0]
    assert cluster.link_capacity_Bps[first] == pytest.approx(gpu_link_GBps * GB)
    rates = {link.capacity_Bps for link in cluster.host.links if link.kind == LinkKind.NIC}
    assert rates == {nic_GBps * GB} and len(cluster.host.nics) == num_nics


def test_the_papers_clusters_have_their_sizes() -> None:
    assert [clusters.load(name).num_hosts for name in ("hc1", "hc2", "hc3")] == [1, 4, 2]


def test_nodes_behind_a_colon() -> None:
    assert clusters.load("dgx-a100:4") == clusters.load("DGX-A100", nodes=4) == clusters.load("dgx-a100-80gb", 4)
    with pytest.raises(InputError, match="'x' is not a number of nodes; write for example dgx-a100:4"):
        clusters.load("dgx-a100:x")
    with pytest.raises(InputError, match="disagree"):
        clusters.load("dgx-a100:4", nodes=2)
    with pytest.raises(TopologyError, match=r" nodes=0; it must be a whole number of at least 1"):
        clusters.load("dgx-a100", nodes=0)


def test_unknown_names_list_the_nearest() -> None:
    with pytest.raises(TopologyError, match=r"unknown cluster 'dgx-a10'; nearest: .*dgx-a100"):
        clusters.load("dgx-a10")


def test_another_gpu() -> None:
    assert clusters.load("dgx-a100", gpu="a100-40gb").gpu().name == "a100-40gb"


def test_a_tray_of_grace_is_no_full_mesh() -> None:
    host = clusters.load("gb200-nvl72").host
    assert sum(link.kind == LinkKind.SOCKET for link in host.links) == 36
    alone = clusters.load("gb200-nvl72", nodes=2).without_nic(0, "nic0").without_nic(0, "nic1")
    route = [alone.link_name(i) for i in alone.routes([0], [72])[0] if i >= 0]
    assert route[1:3] == ["host0/cpu0->cpu1", "host0/nic2->net"]
