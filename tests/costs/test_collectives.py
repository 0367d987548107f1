"""Terms against the alpha-beta formula, terms against flows, and the tuner's choices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proteus.cluster.cluster import Cluster
from proteus.costs.collectives import (
    Algorithm,
    Choice,
    Collective,
    GroupShape,
    Protocol,
    algorithms,
    choose,
    num_channels,
    protocols,
    terms,
    terms_with,
)
from proteus.costs.flows import flows
from proteus.costs.links import LinkTraits, ProtocolTraits
from proteus.costs.shapes import group_shapes
from proteus.errors import StrategyError
from proteus.units import GB, MB
from tests.costs.sample_hosts import cube_mesh, pcie_box, switched

#: links without latency, overhead or ramp, so that only the bytes of an algorithm are left
PERFECT = LinkTraits(
    base_s=0.0,
    hop_s=dict.fromkeys(Protocol, 0.0),
    pair_s=0.0,
    nvls_s=0.0,
    efficiency=dict.fromkeys(("ring", "tree", "nvls", "pairs", "p2p"), 1.0),
    half_bytes=dict.fromkeys(("ring", "tree", "nvls", "pairs", "p2p"), 0.0),
    protocol_share=dict.fromkeys(Protocol, 1.0),
    own_share={},
    ramp_power=1.0,
    sigma=0.0,
    source="none",
)
PLAIN = ProtocolTraits(efficiency=1.0)
S = 64 * MB


def shape_of(cluster: Cluster, group: np.ndarray | range) -> GroupShape:
    shapes, index = group_shapes(np.array(group)[None], cluster)
    assert index.tolist() == [0]
    return shapes[0]


def alone_s(cluster: Cluster, group: range, kind: Collective, algorithm: Algorithm) -> float:
    """Time on perfect links, from the flows."""
    shape = shape_of(cluster, group)
    choice = Choice(algorithm, Protocol.SIMPLE, num_channels(algorithm, shape))
    price = terms_with(kind, shape, choice, S, PERFECT, PERFECT, PLAIN)
    rate_Bps = flows(kind, algorithm, np.array(group)[None], cluster).rates_Bps(1, cluster.link_capacity_Bps)[0]
    assert price.cap_Bps >= rate_Bps * (1 - 1e-9)  # a perfect GPU never limits
    return price.latency_s + price.work_bytes / min(price.cap_Bps, rate_Bps)


NVLINK, NIC = 300 * GB, 25 * GB


@pytest.mark.parametrize(
    ("kind", "algorithm", "expected_s"),
    [
        (Collective.ALL_REDUCE, Algorithm.RING, 2 * 7 / 8 * S / NVLINK),
        (Collective.ALL_GATHER, Algorithm.RING, 7 / 8 * S / NVLINK),
        (Collective.REDUCE_SCATTER, Algorithm.RING, 7 / 8 * S / NVLINK),
        (Collective.BROADCAST, Algorithm.RING, S / NVLINK),
        (Collective.ALL_REDUCE, Algorithm.TREE, 2 * S / NVLINK),  # a middle rank sends up and down
        (Collective.ALL_REDUCE, Algorithm.NVLS, 9 / 8 * S / NVLINK),
        (Collective.ALL_GATHER, Algorithm.NVLS, S / NVLINK),
        (Collective.REDUCE_SCATTER, Algorithm.NVLS, S / NVLINK),
        (Collective.ALL_TO_ALL, Algorithm.PAIRS, 7 / 8 * S / NVLINK),
        (Collective.GATHER, Algorithm.ROOTED, 7 / 8 * S / NVLINK),
        (Collective.SCATTER, Algorithm.ROOTED, 7 / 8 * S / NVLINK),
    ],
)
def test_bytes_of_every_algorithm_on_one_switch(kind: Collective, algorithm: Algorithm, expected_s: float):
    assert alone_s(switched(gpu="h100-sxm"), range(8), kind, algorithm) == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("kind", "algorithm", "expected_s"),
    [
        (Collective.ALL_REDUCE, Algorithm.RING, 2 * 31 / 32 * S / (8 * NIC)),
        (Collective.ALL_GATHER, Algorithm.RING, 31 / 32 * S / (8 * NIC)),
        # The host that has two children in a tree and is a leaf in the other: 2 S through 8 cards.
        (Collective.ALL_REDUCE, Algorithm.TREE, 2 * S / (8 * NIC)),
        (Collective.ALL_REDUCE, Algorithm.NVLS_TREE, 2 * S / (8 * NIC)),
        (Collective.ALL_REDUCE, Algorithm.HIERARCHICAL, 2 * 3 / 4 * S / (8 * NIC)),
        (Collective.ALL_GATHER, Algorithm.HIERARCHICAL, 3 / 4 * S / (8 * NIC)),
        (Collective.ALL_TO_ALL, Algorithm.PAIRS, 24 / 32 * S / NIC),
    ],
)
def test_bytes_of_every_algorithm_between_four_hosts(kind: Collective, algorithm: Algorithm, expected_s: float):
    cluster = switched(4, gpu="h100-sxm", nvlink=3000 * GB)  # NVLink is no limit here
    assert alone_s(cluster, range(32), kind, algorithm) == pytest.approx(expected_s)


def test_bytes_on_a_cube_mesh_use_all_six_links():
    expected_s = 2 * 7 / 8 * S / (6 * 25 * GB)
    assert alone_s(cube_mesh(), range(8), Collective.ALL_REDUCE, Algorithm.RING) == pytest.approx(expected_s)


def test_bytes_on_a_pcie_box_pass_the_socket():
    expected_s = 2 * 7 / 8 * S / (6 * GB)
    assert alone_s(pcie_box(), range(8), Collective.ALL_REDUCE, Algorithm.RING) == pytest.approx(expected_s)


CASES = [
    (switched(), range(8)),
    (switched(), range(2)),
    (switched(2, nics=4), range(16)),
    (switched(2, gpu="h100-sxm"), range(16)),
    (switched(3), range(0, 24, 8)),
    (switched(2), range(11)),
    (cube_mesh(), range(4)),
    (cube_mesh(2), range(16)),
    (pcie_box(2), range(16)),
]


@pytest.mark.parametrize(("cluster", "group"), CASES)
@pytest.mark.parametrize("kind", [k for k in Collective if k is not Collective.SEND])
def test_terms_and_flows_agree_on_who_limits(cluster: Cluster, group: range, kind: Collective):
    """The cap stays below what the links allow, so that alone the time is latency + work / cap."""
    shape = shape_of(cluster, group)
    for algorithm in algorithms(kind, shape, all_known=True):
        rate_Bps = flows(kind, algorithm, np.array(group)[None], cluster).rates_Bps(1, cluster.link_capacity_Bps)[0]
        for protocol in protocols(algorithm, shape):
            price = terms(kind, shape, Choice(algorithm, protocol, num_channels(algorithm, shape)), S)
            assert 0 < price.cap_Bps <= rate_Bps * (1 + 1e-9)
            assert price.alone_s == pytest.approx(price.latency_s + price.work_bytes / min(price.cap_Bps, rate_Bps))


@pytest.mark.parametrize(("cluster", "group"), CASES)
def test_work_times_flows_is_what_leaves_each_gpu(cluster: Cluster, group: range):
    """An all_reduce must carry at least 2(n-1)/n S out of every GPU, whatever the algorithm on plain links."""
    shape, n = shape_of(cluster, group), len(group)
    for algorithm in (Algorithm.RING, Algorithm.HIERARCHICAL):
        if not shape.can_run(algorithm):
            continue
        choice = Choice(algorithm, Protocol.SIMPLE, num_channels(algorithm, shape))
        work = terms_with(Collective.ALL_REDUCE, shape, choice, S, PERFECT, PERFECT, PLAIN).work_bytes
        group_flows = flows(Collective.ALL_REDUCE, algorithm, np.array(group)[None], cluster)
        sent: dict[str, float] = {}
        for link, count in zip(group_flows.link.tolist(), group_flows.count.tolist(), strict=True):
            source = cluster.link_ends(link)[0]
            if source.rpartition("/")[2].startswith("gpu"):
                sent[source] = sent.get(source, 0.0) + count * work
        assert len(sent) == n
        assert min(sent.values()) >= 2 * (n - 1) / n * S * (1 - 1e-9)


# --- choices ------------------------------------------------------------------


def test_small_messages_take_the_protocol_with_least_latency():
    shape = shape_of(switched(), range(8))
    assert choose(Collective.ALL_REDUCE, shape, 1e3).protocol is Protocol.LL
    assert choose(Collective.ALL_REDUCE, shape, 1e9) == Choice(Algorithm.RING, Protocol.SIMPLE, 1)


def test_pcie_has_no_ll128():
    shape = shape_of(pcie_box(), range(8))
    assert {choose(Collective.ALL_REDUCE, shape, 2.0**e).protocol for e in range(8, 32)} == {
        Protocol.LL,
        Protocol.SIMPLE,
    }


def test_hopper_reduces_in_the_switch_when_the_group_is_large():
    cluster = switched(gpu="h100-sxm", nvlink=450 * GB)
    assert choose(Collective.ALL_REDUCE, shape_of(cluster, range(8)), 1 * GB).algorithm is Algorithm.NVLS
    # Of two ranks the switch would carry 3/2 S and the ring 1 S.
    assert choose(Collective.ALL_REDUCE, shape_of(cluster, range(2)), 1 * GB).algorithm is Algorithm.RING
    assert choose(Collective.ALL_GATHER, shape_of(cluster, range(8)), 1 * GB).algorithm is Algorithm.RING


def test_many_hosts_take_a_tree_for_latency():
    shape = shape_of(switched(32), range(256))
    assert choose(Collective.ALL_REDUCE, shape, 64e3).algorithm is Algorithm.TREE
    assert choose(Collective.ALL_GATHER, shape, 64e3).algorithm is Algorithm.RING


def test_forced_algorithm_and_protocol():
    shape = shape_of(switched(4), range(32))
    assert choose(Collective.ALL_REDUCE, shape, S, "tree/ll128") == Choice(Algorithm.TREE, Protocol.LL128, 8)
    assert choose(Collective.ALL_REDUCE, shape, S, "hierarchical").algorithm is Algorithm.HIERARCHICAL
    assert choose(Collective.ALL_REDUCE, shape, 1e9, "LL").protocol is Protocol.LL


def test_forced_what_a_group_cannot_do_is_left_to_the_tuner():
    shape = shape_of(switched(), range(8))
    assert choose(Collective.ALL_REDUCE, shape, S, "nvls") == choose(Collective.ALL_REDUCE, shape, S)


def test_unknown_algorithm_names_the_known_ones():
    with pytest.raises(StrategyError, match=r"unknown collective algorithm or protocol 'rings'; nearest: ring"):
        choose(Collective.ALL_REDUCE, shape_of(switched(), range(8)), S, "rings")


def test_a_group_of_one_costs_nothing():
    shape = shape_of(switched(), range(1))
    price = terms(Collective.ALL_REDUCE, shape, choose(Collective.ALL_REDUCE, shape, S), S)
    assert price.alone_s == 0.0


SHAPES = [shape_of(cluster, group) for cluster, group in CASES]


@given(
    st.sampled_from(SHAPES),
    st.sampled_from([k for k in Collective if k is not Collective.SEND]),
    st.floats(1.0, 1e11),
    st.floats(1.0, 8.0),
)
def test_more_bytes_never_take_less_time(shape: GroupShape, kind: Collective, size_bytes: float, factor: float):
    times = [terms(kind, shape, choose(kind, shape, s), s).alone_s for s in (size_bytes, size_bytes * factor)]
    assert times[0] <= times[1] * (1 + 1e-12)


@given(st.sampled_from(SHAPES), st.sampled_from(list(Collective)[:4]), st.floats(1.0, 1e11), st.floats(1.0, 4.0))
def test_faster_links_never_take_more_time(shape: GroupShape, kind: Collective, size_bytes: float, factor: float):
    faster = replace(shape, limits=tuple(replace(limit, rate_Bps=limit.rate_Bps * factor) for limit in shape.limits))
    times = [terms(kind, s, choose(kind, s, size_bytes), size_bytes).alone_s for s in (shape, faster)]
    assert times[1] <= times[0] * (1 + 1e-12)


@pytest.mark.parametrize("kind", [Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.ALL_TO_ALL])
def test_more_hosts_take_more_time_for_the_same_buffer(kind: Collective):
    times = []
    for nodes in (1, 2, 4, 8):
        shape = shape_of(switched(nodes), range(8 * nodes))
        times.append(terms(kind, shape, choose(kind, shape, S), S).alone_s)
    assert times == sorted(times)


def test_send_within_a_host_and_between_hosts():
    cluster = switched(2)
    near, far = (shape_of(cluster, np.array(pair)) for pair in ([0, 1], [0, 8]))
    near_s, far_s = (terms(Collective.SEND, s, choose(Collective.SEND, s, S), S).alone_s for s in (near, far))
    assert S / NVLINK < near_s < S / NIC < far_s < 2 * S / NIC


def test_a_slow_link_lengthens_the_time_by_its_share():
    """The cap is that of a healthy group, so the link decides once it is slower."""
    cluster = switched(4)
    slow = cluster.slow_link("host1/nic0->net", 0.25)
    groups = np.arange(32).reshape(2, 16)  # only the first group has the slow link
    shapes, index = group_shapes(groups, slow)
    assert index.tolist() == [0, 0]
    rates = flows(Collective.ALL_REDUCE, Algorithm.RING, groups, slow).rates_Bps(2, slow.link_capacity_Bps)
    assert rates.tolist() == [NIC / 4, NIC]
    assert shapes[0].limit(Algorithm.RING).rate_Bps == NIC
