"""Hosts in a line of text."""

from __future__ import annotations

import pytest

from proteus.cluster import LinkKind, clusters
from proteus.errors import InputError, ProteusError


def test_hosts_gpus_and_network() -> None:
    cluster = clusters.load("4 x 8 x a100-80gb, network_Gbps=50")
    assert (cluster.num_hosts, cluster.devices_per_host, cluster.gpu().name) == (4, 8, "a100-80gb")
    nics = cluster.link_capacity_Bps[cluster.link_kind == LinkKind.NIC]
    assert set(nics.tolist()) == {12.5e9}  # four of 100 Gb/s stand for eight of 50
    assert clusters.load("8 x a100-80gb").num_hosts == 1
    assert clusters.load("8 x a100-80gb", nodes=3).num_hosts == 3


def test_the_same_words_are_the_same_cluster() -> None:
    assert clusters.load("2 x 8 x h100") is clusters.load("2  x 8 x h100") or (
        clusters.load("2 x 8 x h100") == clusters.load("2  x 8 x h100")
    )


def test_links_are_as_usual_or_as_said() -> None:
    usual, without = clusters.load("4 x l40s"), clusters.load("4 x h100-sxm, links=none")
    assert not usual.host.has_nvswitch and not without.host.has_nvswitch
    assert clusters.load("4 x h100-sxm").host.has_nvswitch
    assert (clusters.load("8 x mi300x").link_kind == LinkKind.XGMI).sum() == 8 * 7


def test_many_gpus_are_a_rack_of_trays() -> None:
    rack = clusters.load("2 x 72 x gb200")
    assert (rack.num_devices, rack.host.has_nvswitch) == (144, True)


def test_gpus_may_reach_one_another_through_the_host() -> None:
    cluster = clusters.load("2 x h100-sxm, peer_to_peer=false")
    kinds = {LinkKind(cluster.link_kind[i]) for i in cluster.routes([0], [1])[0] if i >= 0}
    assert LinkKind.HOST_MEMORY in kinds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4 x 8 x a1000-80gb", "unknown GPU"),
        ("4 x 8 x a100-80gb, netwrk_Gbps=3", "unknown field of hosts 'netwrk_Gbps'; nearest: network_Gbps"),
        ("4 x 8 x a100-80gb, network_Gbps=nan", "above 0"),
        ("4 x 8 x a100-80gb, network_Gbps", "write network_Gbps=VALUE once"),
        ("4 x 8 x a100-80gb, links=string", "one of none, pairs"),
        ("8 x a100-80gb, peer_to_peer=maybe", "true or false"),
        ("0 x a100-80gb", "at least 1 GPU"),
        ("0 x 8 x a100-80gb", "at least 1"),
    ],
)
def test_what_cannot_be_is_refused(text: str, message: str) -> None:
    with pytest.raises(ProteusError, match=message):
        clusters.load(text)


def test_two_numbers_of_hosts_disagree() -> None:
    with pytest.raises(InputError, match="disagree"):
        clusters.load("4 x 8 x a100-80gb", nodes=2)
