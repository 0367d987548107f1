"""Routes inside hosts, against paths written by hand."""

from __future__ import annotations

import networkx as nx
import pytest

from proteus.cluster import Cluster, clusters
from proteus.cluster.routing import host_routes


def path(cluster: Cluster, src: int, dst: int) -> list[str]:
    return [cluster.link_name(i).replace("host0/", "") for i in cluster.routes([src], [dst])[0] if i >= 0]


def test_nvswitch_is_up_and_down() -> None:
    assert path(clusters.load("dgx-h100"), 2, 5) == ["gpu2->nvswitch", "nvswitch->gpu5"]


def test_cube_mesh_goes_direct_or_through_the_wider_of_its_neighbours() -> None:
    dgx1 = clusters.load("dgx1-v100")
    assert path(dgx1, 0, 3) == ["gpu0->gpu3"]
    # 0 and 7 share neighbours 3 (1 port on its second step) and 4 (2 ports on both).
    assert path(dgx1, 0, 7) == ["gpu0->gpu4", "gpu4->gpu7"]


def test_pcie_goes_through_what_the_two_share() -> None:
    hc1 = clusters.load("hc1")
    assert path(hc1, 0, 1) == ["gpu0->pcie0", "pcie0->gpu1"]
    assert path(hc1, 0, 2) == ["gpu0->pcie0", "pcie0->cpu0", "cpu0->pcie1", "pcie1->gpu2"]
    assert path(hc1, 1, 7) == ["gpu1->pcie0", "pcie0->cpu0", "cpu0->cpu1", "cpu1->pcie3", "pcie3->gpu7"]


def test_one_nic_is_reached_across_the_sockets() -> None:
    hc2 = clusters.load("hc2")
    assert path(hc2, 4, 8) == [
        "gpu4->pcie2", "pcie2->cpu1", "cpu1->cpu0", "cpu0->pcie0", "nic0->net",
        "host1/net->nic0", "host1/pcie0->gpu0",
    ]  # fmt: skip


def test_host_memory_is_that_of_the_own_socket() -> None:
    hc1 = clusters.load("hc1")
    out, back = (hc1.host_routes([7], to_host)[0] for to_host in (True, False))
    assert [hc1.link_name(i) for i in out if i >= 0] == [
        "host0/gpu7->pcie3", "host0/pcie3->cpu1", "host0/cpu1->cpu1-memory"
    ]  # fmt: skip
    assert [hc1.link_name(i) for i in back if i >= 0] == [
        "host0/cpu1-memory->cpu1", "host0/cpu1->pcie3", "host0/pcie3->gpu7"
    ]  # fmt: skip


def test_without_peer_to_peer_data_goes_through_the_memory_of_the_receiver() -> None:
    box = clusters.load("pcie-8x-rtx4090")
    back = ["cpu0-memory->cpu0", "cpu0->pcie0", "pcie0->gpu1"]
    assert path(box, 0, 1) == ["gpu0->pcie0", "pcie0->cpu0", "cpu0->cpu0-memory", *back]
    assert path(box, 7, 1) == ["gpu7->pcie1", "pcie1->cpu1", "cpu1->cpu0", "cpu0->cpu0-memory", *back]


def test_grace_memory_is_behind_c2c() -> None:
    gb200 = clusters.load("gb200-nvl72")
    kinds = gb200.link_kind[[i for i in gb200.host_routes([5], True)[0] if i >= 0]]
    assert [int(kind) for kind in kinds] == [3, 10]  # C2C, HOST_MEMORY


@pytest.mark.parametrize("name", clusters.names())
def test_every_route_is_a_walk_that_ends_where_it_should(name: str) -> None:
    cluster = clusters.load(name, nodes=2)
    graph = cluster.to_networkx()
    edges = {data["link"]: [] for *_, data in graph.edges(data=True)}  # type: ignore[var-annotated]
    for a, b, data in graph.edges(data=True):
        edges[data["link"]].append((a, b))
    last = cluster.num_devices - 1
    for src, dst in [(0, 1), (1, 0), (0, cluster.devices_per_host - 1), (0, last), (last, 1)]:
        if src == dst:
            continue
        walk = nx.DiGraph([edge for i in cluster.routes([src], [dst])[0] if i >= 0 for edge in edges[i]])
        ends = [f"host{d // cluster.devices_per_host}/gpu{d % cluster.devices_per_host}" for d in (src, dst)]
        if src // cluster.devices_per_host == dst // cluster.devices_per_host and not cluster.host.layout.peer_to_peer:
            assert nx.has_eulerian_path(walk, ends[0])  # into the memory and out of it, past a switch twice
        elif nx.has_path(walk, *ends):
            assert len(nx.shortest_path(walk, *ends)) == walk.number_of_nodes()
        else:
            # Two leaf switches under a spine that never limits: the walk has a gap there and only there.
            assert cluster.leaf_of(src) != cluster.leaf_of(dst)
            assert nx.has_path(walk, ends[0], f"leaf{cluster.leaf_of(src)}")
            assert nx.has_path(walk, f"leaf{cluster.leaf_of(dst)}", ends[1])


def test_tables_are_made_once() -> None:
    host = clusters.load("dgx-a100").host
    assert host_routes(host) is host_routes(clusters.load("dgx-a100", nodes=7).host)
