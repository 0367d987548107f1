"""The cluster as a graph."""

from __future__ import annotations

import networkx as nx

from proteus.cluster import Fabric, clusters


def test_vertices_and_links() -> None:
    cluster = clusters.load("dgx-a100", nodes=3, fabric=Fabric(oversubscription=2.0))
    graph = cluster.to_networkx()
    assert nx.is_strongly_connected(graph)
    assert {data["link"] for *_, data in graph.edges(data=True)} == set(range(cluster.num_links))
    devices = sorted(data["device"] for _, data in graph.nodes(data=True) if data["kind"] == "gpu")
    assert devices == list(range(24))
    assert graph.edges["host1/pcie0", "host1/nic1"]["link"] == graph.edges["host1/nic1", "leaf1"]["link"]
    assert graph.edges["leaf0", "spine"]["kind"] == "LEAF"


def test_only_some_hosts() -> None:
    graph = clusters.load("dgx-h100", nodes=2000).to_networkx(max_hosts=2)
    hosts = {data["host"] for _, data in graph.nodes(data=True)}
    assert hosts == {-1, 0, 1}
    assert graph.edges["leaf0", "spine"]["link"] == -1


def test_ends_of_links_are_vertices() -> None:
    cluster = clusters.load("hc2", fabric=Fabric(kind="leaf", oversubscription=2.0, hosts_per_leaf=2))
    graph = cluster.to_networkx()
    for link in range(cluster.num_links):
        assert graph.has_edge(*cluster.link_ends(link)), cluster.link_name(link)
    nic = next(i for i in range(cluster.num_links) if cluster.link_name(i) == "host3/nic0->net")
    assert cluster.link_ends(nic) == ("host3/nic0", "leaf1")
