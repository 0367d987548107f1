"""The picture of a cluster: everything in place, the same every time."""

from __future__ import annotations

import dataclasses
import itertools
import json

import pytest

import proteus as pt
from proteus_widgets.layout import BOX, Picture, picture

CLUSTERS = ["dgx1-v100", "dgx2", "dgx-a100", "dgx-h100", "gb200-nvl72", "hc1", "hc2", "p4d", "mi300x"]


def whole(name: str, nodes: int) -> Picture:
    return picture(pt.clusters.load(name, nodes=nodes))


@pytest.mark.parametrize("nodes", [1, 2, 8])
@pytest.mark.parametrize("name", CLUSTERS)
def test_boxes_do_not_overlap_and_lie_in_the_picture(name: str, nodes: int) -> None:
    drawn = whole(name, nodes)
    rows: dict[tuple[float, str], list] = {}
    for node in drawn.nodes:
        assert node.x - node.width / 2 >= 0 and node.x + node.width / 2 <= drawn.width + 1e-6, node
        assert node.y - BOX / 2 >= 0 and node.y + BOX / 2 <= drawn.height + 1e-6, node
        rows.setdefault((node.y, node.kind), []).append(node)
    for row in rows.values():
        row.sort(key=lambda node: node.x)
        for left, right in itertools.pairwise(row):
            assert left.x + left.width / 2 <= right.x - right.width / 2 + 1e-6, (left, right)


@pytest.mark.parametrize("name", CLUSTERS)
def test_same_cluster_same_picture(name: str) -> None:
    assert whole(name, 2).message() == whole(name, 2).message()


def test_devices_stand_in_order() -> None:
    gpus = [node for node in whole("dgx-h100", 2).nodes if node.kind == "gpu"]
    assert [node.device for node in gpus] == list(range(16))
    assert [node.label for node in gpus] == [str(i) for i in range(16)]
    assert [node.x for node in gpus] == sorted(node.x for node in gpus)


def test_every_link_but_those_to_memory_is_drawn() -> None:
    cluster = pt.clusters.load("dgx-a100", nodes=2)
    drawn = {link for edge in picture(cluster).edges for link in edge.links}
    missing = [cluster.link_name(link) for link in range(cluster.num_links) if link not in drawn]
    assert all("memory" in name for name in missing), missing


def test_one_host_alone_has_no_fabric() -> None:
    assert not [node for node in whole("dgx-a100", 1).nodes if node.kind in ("leaf", "spine")]


def test_more_than_64_gpus_collapse_to_tiles() -> None:
    drawn = whole("dgx-a100", 16)
    assert [node.kind for node in drawn.nodes] == ["spine"] and len(drawn.hosts) == 16
    assert [cell["device"] for cell in drawn.hosts[2].cells] == list(range(16, 24))


@pytest.mark.parametrize("name", ["dgx-a100", "dgx1-v100", "mi300x", "hc1"])
def test_the_bars_of_a_tile_are_the_links_of_its_host(name: str) -> None:
    cluster = pt.clusters.load(name, nodes=20)
    drawn = picture(cluster)
    for host in range(cluster.num_hosts):
        bars = {edge.ends[1]: edge.links for edge in drawn.edges if edge.ends[0] == f"host {host}"}
        assert set(bars) == {"network", "GPU to GPU"}
        assert all(link in cluster.link_range(host) for links in bars.values() for link in links)
        assert all("nic" in cluster.link_name(link) for link in bars["network"])
        assert len(set(bars["network"]) & set(bars["GPU to GPU"])) == 0


def test_a_network_that_can_limit_has_a_bar_over_the_tiles() -> None:
    free = pt.clusters.load("dgx-a100", nodes=128)
    narrow = free.with_fabric(dataclasses.replace(free.fabric, oversubscription=4.0))
    assert not [edge for edge in picture(free).edges if edge.ends == ("leaf", "spine")]
    (bar,) = [edge for edge in picture(narrow).edges if edge.ends == ("leaf", "spine")]
    assert all(narrow.link_name(link).startswith("fabric/") for link in bar.links)


def test_an_opened_host_is_drawn_in_full() -> None:
    drawn = picture(pt.clusters.load("dgx-a100", nodes=16), {3})
    assert [node.device for node in drawn.nodes if node.kind == "gpu"] == list(range(24, 32))
    assert len(drawn.hosts) == 16 and sum(bool(box.cells) for box in drawn.hosts) == 15


def test_very_many_hosts_end_in_words() -> None:
    drawn = whole("dgx-a100", 1000)
    assert drawn.note == "and 872 more hosts"


@pytest.mark.parametrize("nodes", [2, 16])
def test_message_is_plain_json(nodes: int) -> None:
    assert json.loads(json.dumps(whole("dgx-a100", nodes).message(), allow_nan=False))
