"""The picture of a cluster: everything in place, the same every time."""

from __future__ import annotations

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
    assert drawn.nodes == [] and len(drawn.hosts) == 16
    assert [cell["device"] for cell in drawn.hosts[2].cells] == list(range(16, 24))


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
