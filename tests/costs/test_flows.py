"""Flows against drawings by hand, and counts against each other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from proteus.cluster.cluster import Cluster
from proteus.cluster.fabric import Fabric
from proteus.cluster.kinds import LinkKind
from proteus.costs import draw
from proteus.costs.collectives import Algorithm, Collective
from proteus.costs.flows import flows
from proteus.errors import StrategyError
from tests.costs.sample_hosts import cube_mesh, pcie_box, switched

RING, TREE, PAIRS = Algorithm.RING, Algorithm.TREE, Algorithm.PAIRS
ALL_REDUCE, ALL_TO_ALL = Collective.ALL_REDUCE, Collective.ALL_TO_ALL


def named(cluster: Cluster, kind: Collective, algorithm: Algorithm, group: list[int]) -> dict[str, int]:
    """Counts by link name, host names left out where there is one host."""
    group_flows = flows(kind, algorithm, np.array([group]), cluster)
    assert not group_flows.group.any()
    names = [cluster.link_name(int(link)) for link in group_flows.link]
    if cluster.num_hosts == 1:
        names = [name.removeprefix("host0/") for name in names]
    return dict(zip(names, group_flows.count.tolist(), strict=True))


def by_kind(cluster: Cluster, kind: Collective, algorithm: Algorithm, group: list[int]) -> dict[LinkKind, list[int]]:
    """The sorted counts on the links of each kind."""
    group_flows = flows(kind, algorithm, np.array([group]), cluster)
    kinds = cluster.link_kind[group_flows.link]
    return {LinkKind(k): sorted(group_flows.count[kinds == k].tolist()) for k in np.unique(kinds)}


def test_ring_on_a_switch_goes_up_and_down_once_per_gpu():
    expected = {f"gpu{i}->nvswitch": 1 for i in range(8)} | {f"nvswitch->gpu{i}": 1 for i in range(8)}
    assert named(switched(), ALL_REDUCE, RING, list(range(8))) == expected


def test_ring_of_some_gpus_touches_only_theirs():
    assert named(switched(), ALL_REDUCE, RING, [1, 5]) == {
        "gpu1->nvswitch": 1,
        "nvswitch->gpu1": 1,
        "gpu5->nvswitch": 1,
        "nvswitch->gpu5": 1,
    }


def test_six_rings_fill_every_nvlink_of_a_cube_mesh():
    # 8 GPUs x 6 NVLinks: 6 rings of 8 hops at 25 GB/s are all there is, two on a pair with two links.
    cluster = cube_mesh()
    group_flows = flows(ALL_REDUCE, RING, np.arange(8)[None], cluster)
    assert set(cluster.link_kind[group_flows.link]) == {LinkKind.NVLINK}
    assert group_flows.count.sum() == 6 * 8
    np.testing.assert_array_equal(group_flows.count * 25e9, cluster.link_capacity_Bps[group_flows.link])


def test_four_rings_in_one_quad_of_a_cube_mesh():
    # Inside a quad every GPU has 2 + 1 + 1 links: 4 of its 6.  Rings 0-1-2-3 and 0-2-1-3 use
    # (01 12 23 30) and (02 21 13 30), both directions: the double pairs 03 and 12 twice.
    expected = {}
    for a, b, count in ((0, 1, 1), (0, 2, 1), (0, 3, 2), (1, 2, 2), (1, 3, 1), (2, 3, 1)):
        expected |= {f"gpu{a}->gpu{b}": count, f"gpu{b}->gpu{a}": count}
    assert named(cube_mesh(), ALL_REDUCE, RING, [0, 1, 2, 3]) == expected


def test_ring_of_a_pcie_box_crosses_the_sockets_once_each_way():
    counts = named(pcie_box(), ALL_REDUCE, RING, list(range(8)))
    assert counts["cpu0->cpu1"] == 1 and counts["cpu1->cpu0"] == 1
    assert {count for name, count in counts.items() if name.startswith("gpu")} == {1}
    # Every switch has one way in and one way out: two neighbours stand beside each other in the ring.
    assert {name for name in counts if name.startswith("sw")} == (
        {f"sw{i // 2}->gpu{i}" for i in range(8)} | {f"sw{i}->cpu{i // 2}" for i in range(4)}
    )


def test_a_pcie_ring_finds_the_order_when_ranks_are_scrambled():
    assert named(pcie_box(), ALL_REDUCE, RING, [0, 4, 1, 5, 2, 6, 3, 7]) == named(
        pcie_box(), ALL_REDUCE, RING, list(range(8))
    )


def test_two_hosts_with_a_card_per_gpu():
    # 8 rings; in each host a ring makes 7 steps, so a GPU sends 7 times to the switch; every card 1 out, 1 in.
    cluster = switched(2)
    counts = by_kind(cluster, ALL_REDUCE, RING, list(range(16)))
    assert counts[LinkKind.NVSWITCH] == [7] * 32
    assert counts[LinkKind.NIC] == [1] * 32
    assert counts[LinkKind.PCIE] == [1] * 32


def test_two_hosts_that_share_one_card():
    # 8 rings through the one card of each host, each with an eighth of the bytes.
    cluster = switched(2, nics=1)
    counts = by_kind(cluster, ALL_REDUCE, RING, list(range(16)))
    assert counts[LinkKind.NIC] == [8] * 4
    assert counts[LinkKind.NVSWITCH] == [7] * 32


def test_rings_stay_on_their_rail():
    # On an even number of hosts the spine sees nothing although no leaf is shared.
    cluster = switched(4).with_fabric(Fabric(kind="rail", oversubscription=2.0, hosts_per_leaf=4))
    counts = by_kind(cluster, ALL_REDUCE, RING, list(range(32)))
    assert LinkKind.LEAF not in counts and LinkKind.SPINE not in counts


def test_rings_over_units_cross_the_spine():
    # 2 units of 2 hosts, one ring per rail: each rail goes up and down once per unit.
    cluster = switched(4).with_fabric(Fabric(kind="rail", oversubscription=2.0, hosts_per_leaf=2))
    counts = by_kind(cluster, ALL_REDUCE, RING, list(range(32)))
    assert counts[LinkKind.LEAF] == [1] * 16 and counts[LinkKind.SPINE] == [1] * 16


def test_tree_over_two_hosts():
    # Per rail two trees, each one edge up and down: a card sends 2 and gets 2.  In a host each of 8 rails
    # has a chain of 7 edges for 2 trees, up and down: 8 x 7 x 2 x 2 flows leave the 8 GPUs.
    cluster = switched(2)
    group_flows = flows(ALL_REDUCE, TREE, np.arange(16)[None], cluster)
    kinds = cluster.link_kind[group_flows.link]
    assert set(group_flows.count[kinds == LinkKind.NIC]) == {2}
    up = np.array([cluster.link_name(int(link)).endswith("->nvswitch") for link in group_flows.link])
    assert group_flows.count[up].sum() == 2 * 8 * 7 * 2 * 2


def test_nvls_counts_shares_of_the_switch():
    # all_reduce: a GPU's whole buffer and its reduced share up, its share and the whole result down.
    cluster = switched(gpu="h100-sxm")
    assert set(named(cluster, ALL_REDUCE, Algorithm.NVLS, list(range(8))).values()) == {9}
    gathered = named(cluster, Collective.ALL_GATHER, Algorithm.NVLS, list(range(8)))
    assert gathered["gpu0->nvswitch"] == 1 and gathered["nvswitch->gpu0"] == 8
    reduced = named(cluster, Collective.REDUCE_SCATTER, Algorithm.NVLS, list(range(8)))
    assert reduced["gpu0->nvswitch"] == 8 and reduced["nvswitch->gpu0"] == 1


def test_nvls_tree_loads_switch_and_cards_in_proportion():
    # Shares of S/16: S(1 + 1/8) = 18 shares on NVLink; two trees of one edge each, up and down, on the card.
    cluster = switched(2, gpu="h100-sxm")
    counts = by_kind(cluster, ALL_REDUCE, Algorithm.NVLS_TREE, list(range(16)))
    assert counts[LinkKind.NVSWITCH] == [18] * 32
    assert counts[LinkKind.NIC] == [2] * 32


def test_hierarchical_loads_switch_and_cards_in_proportion():
    # Shares of S/(8 x 2): inside 2 x 7/8 S = 28 shares; on the card 2 x 1/2 x S/8 = 2 shares.
    cluster = switched(2)
    counts = by_kind(cluster, ALL_REDUCE, Algorithm.HIERARCHICAL, list(range(16)))
    assert counts[LinkKind.NVSWITCH] == [28] * 32
    assert counts[LinkKind.NIC] == [2] * 32
    half = by_kind(cluster, Collective.ALL_GATHER, Algorithm.HIERARCHICAL, list(range(16)))
    assert half[LinkKind.NVSWITCH] == [14] * 32 and half[LinkKind.NIC] == [1] * 32


def test_all_to_all_under_one_card():
    # 8 senders x 8 receivers on the other host share the card; 7 flows stay inside per GPU.
    counts = by_kind(switched(2, nics=1), ALL_TO_ALL, PAIRS, list(range(16)))
    assert counts[LinkKind.NIC] == [64] * 4
    assert counts[LinkKind.NVSWITCH] == [7] * 32


def test_all_to_all_by_neighbours_equals_all_pairs():
    cluster = switched(3, nics=4)
    group = [0, 1, 2, 3, 9, 10, 20]  # hosts with 4, 2 and 1 members
    counts = named(cluster, ALL_TO_ALL, PAIRS, group)
    drawn: dict[str, int] = {}
    for a, b in itertools.permutations(group, 2):
        for link in cluster.routes([a], [b])[0]:
            if link >= 0:
                name = cluster.link_name(int(link))
                drawn[name] = drawn.get(name, 0) + 1
    assert counts == drawn


def test_all_to_all_on_a_cube_mesh_is_drawn_pair_by_pair():
    cluster = cube_mesh()
    group_flows = flows(ALL_TO_ALL, PAIRS, np.arange(8)[None], cluster)
    # Of 7 peers 4 are neighbours by NVLink, 3 are two NVLinks away.
    assert group_flows.count.sum() == 8 * 4 * 1 + 8 * 3 * 2


def test_all_to_all_sees_an_oversubscribed_spine():
    cluster = switched(4).with_fabric(Fabric(kind="leaf", oversubscription=2.0, hosts_per_leaf=2))
    counts = by_kind(cluster, ALL_TO_ALL, PAIRS, list(range(32)))
    assert counts[LinkKind.LEAF] == [16 * 16] * 2  # 16 senders below each leaf, 16 receivers below the other


def test_broadcast_sends_nothing_into_its_root():
    counts = named(switched(), Collective.BROADCAST, RING, [3, 4, 5, 6])
    assert "nvswitch->gpu3" not in counts and counts["gpu3->nvswitch"] == 1
    assert sum(count for name, count in counts.items() if name.startswith("gpu")) == 3


def test_gather_and_scatter_load_the_root():
    gathered = named(switched(), Collective.GATHER, Algorithm.ROOTED, [2, 0, 1, 3])
    scattered = named(switched(), Collective.SCATTER, Algorithm.ROOTED, [2, 0, 1, 3])
    assert gathered["nvswitch->gpu2"] == 3 and gathered["gpu0->nvswitch"] == 1
    assert scattered["gpu2->nvswitch"] == 3 and scattered["nvswitch->gpu0"] == 1


def test_send_takes_the_route_of_its_pair():
    assert named(switched(), Collective.SEND, Algorithm.P2P, [4, 1]) == {"gpu4->nvswitch": 1, "nvswitch->gpu1": 1}


def test_groups_of_one_rank_have_no_flows():
    assert not len(flows(ALL_REDUCE, RING, np.arange(4)[:, None], switched()).link)


def test_unequal_hosts_fall_back_to_one_ring_in_order():
    # 2 + 1 members: 0 -> 1 inside, 1 -> 8 and 8 -> 0 through the cards.
    counts = named(switched(2), ALL_REDUCE, RING, [8, 0, 1])
    assert counts == {
        "host0/gpu0->nvswitch": 1, "host0/nvswitch->gpu1": 1,
        "host0/gpu1->sw1": 1, "host0/nic1->net": 1, "host1/net->nic0": 1, "host1/sw0->gpu0": 1,
        "host1/gpu0->sw0": 1, "host1/nic0->net": 1, "host0/net->nic0": 1, "host0/sw0->gpu0": 1,
    }  # fmt: skip


@pytest.mark.parametrize("host", [0, 1])
def test_a_missing_card_takes_its_rings_away_wherever_it_is(host: int):
    # Two GPUs share a card, so a card carries 2 rings; without one, 6 of 8 rings are left.
    whole, broken = switched(2, nics=4), switched(2, nics=4).without_nic(host, 0)
    assert by_kind(whole, ALL_REDUCE, RING, list(range(16)))[LinkKind.NIC] == [2] * 16
    assert by_kind(broken, ALL_REDUCE, RING, list(range(16)))[LinkKind.NIC] == [2] * 12


@pytest.mark.parametrize("algorithm", [RING, TREE, PAIRS, Algorithm.NVLS_TREE, Algorithm.HIERARCHICAL])
def test_many_groups_at_once_equal_one_by_one(algorithm: Algorithm):
    cluster = switched(4, gpu="h100-sxm")
    groups = np.arange(32).reshape(2, 16)
    kind = ALL_TO_ALL if algorithm is PAIRS else ALL_REDUCE
    together = flows(kind, algorithm, groups, cluster)
    for i, group in enumerate(groups):
        alone = flows(kind, algorithm, group[None], cluster)
        np.testing.assert_array_equal(together.link[together.group == i], alone.link)
        np.testing.assert_array_equal(together.count[together.group == i], alone.count)


def test_groups_of_different_patterns_keep_their_rows():
    cluster = switched(2, nics=4)
    groups = np.array([[0, 1], [0, 8], [3, 7], [9, 2]])
    together = flows(ALL_REDUCE, RING, groups, cluster)
    for i, group in enumerate(groups):
        alone = flows(ALL_REDUCE, RING, group[None], cluster)
        np.testing.assert_array_equal(together.link[together.group == i], alone.link)
    assert (np.diff(together.group) >= 0).all()


def test_too_many_pairs_are_refused_with_the_numbers():
    cluster = switched(2048).with_fabric(Fabric(kind="leaf", oversubscription=2.0))
    with pytest.raises(StrategyError, match=r"1 groups of 16384 ranks has 268,435,456 pairs"):
        flows(ALL_TO_ALL, PAIRS, np.arange(16384)[None], cluster)


def test_nvls_shares_of_every_collective():
    assert draw.nvls_counts(ALL_REDUCE, 4) == (5, 5)
    assert draw.nvls_counts(Collective.ALL_GATHER, 4) == (1, 4)
