"""The columns of a whole cluster equal what its hosts say one by one."""

from __future__ import annotations

import numpy as np
import pytest

from proteus.cluster import Cluster, Fabric, LinkKind, clusters
from proteus.errors import TopologyError


def varied() -> Cluster:
    """Three kinds of host, an oversubscribed fabric, a slow link."""
    a100, h100 = clusters.load("dgx-a100", nodes=3), clusters.load("dgx-h100", nodes=2)
    mixed = Cluster.mixed([a100, h100, a100]).without_nic(4, "nic2")
    return mixed.with_fabric(Fabric(oversubscription=2.0, hosts_per_leaf=3)).slow_link("host1/gpu0->nvswitch", 0.5)


def test_links_are_those_of_the_hosts_in_order() -> None:
    cluster = varied()
    for h in range(cluster.num_hosts):
        host = cluster.host_at(h)
        links = cluster.link_range(h)
        assert len(links) == len(host.links)
        for link, ends in zip(links, host.links, strict=True):
            slow = 0.5 if cluster.link_name(link) == "host1/gpu0->nvswitch" else 1.0
            assert cluster.link_capacity_Bps[link] == ends.capacity_Bps * slow
            assert cluster.link_kind[link] == ends.kind
            assert cluster.link_latency_s[link] == ends.latency_s


def test_routes_of_many_pairs_are_those_of_each() -> None:
    cluster = varied()
    devices = np.arange(cluster.num_devices)
    src, dst = (grid.reshape(-1) for grid in np.meshgrid(devices, devices))
    together = cluster.routes(src, dst)
    assert together.dtype == np.int32
    for i in range(0, len(src), 37):
        alone = cluster.routes(src[i : i + 1], dst[i : i + 1])[0]
        assert alone[alone >= 0].tolist() == together[i][together[i] >= 0].tolist()
    assert (together[src == dst] == -1).all()
    assert (together[src != dst].max(axis=1) >= 0).all()


def test_a_route_enters_and_leaves_by_the_nics_of_its_ends() -> None:
    cluster = varied()
    route = [cluster.link_name(i) for i in cluster.routes([0], [cluster.num_devices - 1])[0] if i >= 0]
    assert route == [
        "host0/gpu0->pcie0", "host0/nic0->net", "fabric/leaf0->spine", "fabric/spine->leaf23",
        "host7/net->nic7", "host7/pcie3->gpu7",
    ]  # fmt: skip


def test_same_leaf_needs_no_spine() -> None:
    cluster = clusters.load("dgx-h100", nodes=8, fabric=Fabric(oversubscription=4.0, hosts_per_leaf=4))
    spine = {LinkKind.LEAF, LinkKind.SPINE}

    def crosses(src: int, dst: int) -> bool:
        return any(int(cluster.link_kind[i]) in spine for i in cluster.routes([src], [dst])[0] if i >= 0)

    assert not crosses(3, 8 + 3)  # same rail, same unit
    assert crosses(3, 8 + 4)  # other rail
    assert crosses(3, 4 * 8 + 3)  # other unit


@pytest.mark.parametrize("kind", ["rail", "leaf"])
def test_uplinks_have_the_rate_of_their_nics_by_the_oversubscription(kind: str) -> None:
    fabric = Fabric(kind=kind, oversubscription=4.0, hosts_per_leaf=4)  # type: ignore[arg-type]
    cluster = clusters.load("dgx-h100", nodes=6, fabric=fabric)
    up = cluster.link_capacity_Bps[cluster.link_kind == LinkKind.LEAF]
    down = cluster.link_capacity_Bps[cluster.link_kind == LinkKind.SPINE]
    per_host = 1 if kind == "rail" else 8
    leaves = 8 if kind == "rail" else 1
    expected = [4 * per_host * 50e9 / 4] * leaves + [2 * per_host * 50e9 / 4] * leaves
    assert up.tolist() == down.tolist() == expected


def test_no_leaf_links_without_oversubscription() -> None:
    cluster = clusters.load("dgx-h100", nodes=3)
    assert not np.isin(cluster.link_kind, [LinkKind.LEAF, LinkKind.SPINE]).any()


def test_colours_part_what_differs_and_nothing_else() -> None:
    cluster = varied()
    colour = cluster.link_colours()
    kinds_and_rates = list(zip(cluster.link_kind.tolist(), cluster.link_capacity_Bps.tolist(), strict=True))
    assert (
        len(set(colour.tolist()))
        == len(set(kinds_and_rates))
        == len(set(zip(kinds_and_rates, colour.tolist(), strict=True)))
    )


def test_names_and_patterns() -> None:
    cluster = clusters.load("dgx-h100", nodes=12, fabric=Fabric(oversubscription=2.0))
    names = [cluster.link_name(i) for i in range(cluster.num_links)]
    assert len(set(names)) == len(names)
    slow = cluster.slow_link("host1/nic0->*", 0.5).link_capacity_Bps
    changed = [names[i] for i in np.flatnonzero(slow != cluster.link_capacity_Bps)]
    assert changed == ["host1/nic0->net"]
    everywhere = cluster.slow_link("nic0->net", 0.5).link_capacity_Bps != cluster.link_capacity_Bps
    assert everywhere.sum() == 12
    leaf = cluster.slow_link("fabric/leaf3->spine", 0.5).link_capacity_Bps
    assert [names[i] for i in np.flatnonzero(leaf != cluster.link_capacity_Bps)] == ["fabric/leaf3->spine"]


def test_a_pattern_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(TopologyError, match=r"no link matches 'host9/nic0->net'; names look like 'host0/"):
        clusters.load("dgx-h100", nodes=2).slow_link("host9/nic0->net", 0.5)


def test_numbers_of_a_large_cluster_fit() -> None:
    cluster = clusters.load("dgx-h100", nodes=16_384)
    assert cluster.num_devices == 131_072
    src = np.arange(0, cluster.num_devices, 1013)
    routes = cluster.routes(src, src[::-1])
    assert routes.max() < cluster.num_links
    ends = {
        cluster.link_ends(int(i))[0].split("/")[0] for i in routes[0] if i >= 0 and "gpu" in cluster.link_name(int(i))
    }
    assert ends == {"host0", f"host{src[-1] // 8}"}
