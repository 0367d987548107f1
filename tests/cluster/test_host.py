"""Vertices, links and NIC choice of hosts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proteus.cluster import LinkKind, VertexKind, clusters
from proteus.cluster.host import Host, build
from proteus.cluster.layout import Layout, Slot
from proteus.errors import TopologyError


def host_with_nics(num_gpus: int, nics: tuple[Slot, ...]) -> Host:
    layout = Layout(
        cpus=("cpu0",),
        gpu_slots=tuple(Slot(name=f"gpu{i}", parent="cpu0", up_Bps=30e9) for i in range(num_gpus)),
        nics=nics,
        gpus=(None,) * num_gpus,
        socket_Bps=10e9,
        memory_Bps=100e9,
    )
    return build("host", layout)


def nic_names(host: Host) -> list[str]:
    return [host.vertices[nic].name for nic in host.nic_of_gpu]


def nics(*rates_Bps: float) -> tuple[Slot, ...]:
    return tuple(Slot(name=f"nic{i}", parent="cpu0", up_Bps=rate) for i, rate in enumerate(rates_Bps))


def test_both_directions_of_every_cable() -> None:
    host = clusters.load("dgx-a100").host
    for one, back in zip(host.links[::2], host.links[1::2], strict=True):
        assert (one.src, one.dst, one.kind, one.capacity_Bps) == (back.dst, back.src, back.kind, back.capacity_Bps)


def test_gpus_come_first_and_kinds_are_right() -> None:
    host = clusters.load("dgx-a100").host
    kinds = [vertex.kind for vertex in host.vertices]
    assert kinds[:8] == [VertexKind.GPU] * 8
    assert kinds.count(VertexKind.PCIE_SWITCH) == 4 and kinds.count(VertexKind.NIC) == 8
    assert kinds.count(VertexKind.NVSWITCH) == kinds.count(VertexKind.NETWORK) == 1


def test_gpus_with_the_same_nearest_nics_take_turns() -> None:
    assert nic_names(host_with_nics(4, nics(25e9, 25e9))) == ["nic0", "nic0", "nic1", "nic1"]
    assert nic_names(host_with_nics(2, nics(25e9, 25e9))) == ["nic0", "nic1"]
    assert nic_names(host_with_nics(3, nics(25e9))) == ["nic0"] * 3


def test_only_the_fastest_of_the_nearest_counts() -> None:
    assert nic_names(host_with_nics(2, nics(1e9, 25e9))) == ["nic1", "nic1"]


def test_nics_that_a_gpu_has_to_itself_are_one() -> None:
    host = host_with_nics(2, nics(12.5e9, 12.5e9, 12.5e9, 12.5e9))
    assert nic_names(host) == ["nic0+nic2", "nic1+nic3"]
    assert {link.capacity_Bps for link in host.links if link.kind == LinkKind.NIC} == {25e9}


def test_without_a_nic_its_gpus_use_the_next() -> None:
    host = clusters.load("dgx-h100").host
    left = host.without_nic("nic3")
    assert len(left.nics) == 7 and "nic3" not in left.nics
    assert nic_names(left)[3] in left.nics
    assert [name for i, name in enumerate(nic_names(left)) if i != 3] == [
        name for i, name in enumerate(nic_names(host)) if i != 3
    ]
    # The other NICs stay on their rails.
    assert {n.name: n.rail for n in left.layout.nics} == {n.name: n.rail for n in host.layout.nics if n.name != "nic3"}


def test_unknown_nic_lists_the_nearest() -> None:
    with pytest.raises(TopologyError, match=r"unknown NIC of dgx-h100 'nic33'; nearest: .*nic3"):
        clusters.load("dgx-h100").host.without_nic("nic33")


def test_equal_hosts_are_equal_and_hash_alike() -> None:
    host = clusters.load("dgx-a100").host
    again = build(host.name, host.layout)
    assert again == host and hash(again) == hash(host)
    slower = build(host.name, replace(host.layout, socket_Bps=1e9))
    assert slower != host
