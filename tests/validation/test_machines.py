"""The cluster of a published run."""

from __future__ import annotations

import pytest

import proteus as pt
from proteus.cluster import LinkKind
from proteus.errors import TopologyError
from proteus.validation.machines import find_gpu, hosts_of, links_of
from proteus.validation.runs import Run
from proteus.validation.settings import Settings


def run(**changes: object) -> Run:
    return Run(
        **{
            "id": "1",
            "table_id": "t",
            "kind": "llm",
            "gpu": "a100-80gb-sxm",
            "gpus_per_node": 8,
            "num_gpus": 16,
            **changes,
        }
    )  # type: ignore[arg-type]


def cluster_of(stated: Run, assumed: list[str]) -> pt.Cluster:
    return pt.clusters.load(hosts_of(stated, Settings(), assumed))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a100-80gb-sxm", "a100-80gb"),
        ("h100-96gb-hbm2e (2.4tb/s, 500w limit)", "h100-sxm-96gb-hbm2e"),
        ("gb200 (nvl72)", "gb200"),
        ("dell 2x h100 80gb sxm5", "h100-sxm"),
        ("v100-sxm3-32gb (dgx-2h 450w)", "v100-sxm3-32gb"),
    ],
)
def test_gpus_are_found_in_free_text(text: str, name: str) -> None:
    gpu = find_gpu(text)
    assert gpu is not None and gpu.name == name


def test_the_rate_of_a_run_is_shared_by_whole_nics() -> None:
    cluster = cluster_of(run(gpu_Gbps=50.0), [])
    assert cluster.num_hosts == 2
    nics = cluster.link_capacity_Bps[cluster.link_kind == LinkKind.NIC]
    assert set(nics.tolist()) == {12.5e9}  # four of 100 Gb/s
    assert len(nics) == 2 * 2 * 4  # hosts, directions, NICs


def test_what_is_not_said_is_told() -> None:
    assumed: list[str] = []
    cluster_of(run(), assumed)
    assert assumed == ["network as usual for a100-80gb"]
    assumed.clear()
    cluster_of(run(gpu_Gbps=200.0), assumed)
    assert assumed == []


@pytest.mark.parametrize(("gpus", "links"), [(2, 1), (4, 6), (8, 16)])
def test_some_gpus_of_a_cube_have_the_links_between_them(gpus: int, links: int) -> None:
    stated = run(gpu="v100-sxm2-16gb", link="nvlink2 hybrid cube mesh", gpus_per_node=gpus, num_gpus=gpus)
    cluster = cluster_of(stated, [])
    assert (cluster.link_kind == LinkKind.NVLINK).sum() == 2 * links


def test_a_rack_is_one_host() -> None:
    cluster = cluster_of(run(gpu="gb200 (nvl72)", link="nvlink5 nvl72", gpus_per_node=4, num_gpus=64), [])
    assert (cluster.num_hosts, cluster.devices_per_host) == (1, 72)


def test_a_job_over_several_racks_fills_them_equally() -> None:
    racks = cluster_of(run(gpu="gb200 (nvl72)", link="nvlink5 nvl72", gpus_per_node=4, num_gpus=256), [])
    assert (racks.num_hosts, racks.devices_per_host) == (4, 64)


def test_links_follow_the_words_and_the_gpu() -> None:
    assert cluster_of(run(link="pcie", num_gpus=8), []).host.layout.direct == ()
    assert cluster_of(run(gpu="v100-32gb", gpus_per_node=4, link="nvlink2"), []).host.layout.direct
    assert not cluster_of(run(gpu="v100-32gb", link="nvlink2"), []).host.has_nvswitch


def test_modules_of_amd_reach_one_another() -> None:
    modules = cluster_of(run(gpu="mi300x", num_gpus=8), [])
    assert (modules.link_kind == LinkKind.XGMI).sum() == 8 * 7
    assert cluster_of(run(gpu="mi250", num_gpus=8), []).host.layout.direct
    cards = run(gpu="mi210", num_gpus=8)
    assert cluster_of(cards, []).host.layout.direct == ()
    assert cluster_of(run(gpu="mi210", num_gpus=4, gpus_per_node=4, link="xgmi bridge"), []).host.layout.direct


def test_an_unknown_gpu_is_named() -> None:
    with pytest.raises(TopologyError, match="'warp-9' is not known"):
        cluster_of(run(gpu="warp-9"), [])
    with pytest.raises(TopologyError, match="not stated"):
        cluster_of(run(gpu=""), [])


def test_hosts_are_said_in_words() -> None:
    assert hosts_of(run(gpu_Gbps=12.5), Settings(), []) == "2 x 8 x a100-80gb, network_Gbps=12.5"
    assert hosts_of(run(num_gpus=8), Settings(hosts={"peer_to_peer": "false"}), []) == (
        "1 x 8 x a100-80gb, peer_to_peer=false"
    )
    assert hosts_of(run(gpu="h100", gpus_per_node=4, link="pcie5"), Settings(), []) == "4 x 4 x h100-sxm, links=none"


def test_a_bridge_that_is_not_stated_is_not_there() -> None:
    assert links_of("pcie (nvlink bridge not stated)") == "none"
    with pytest.raises(TopologyError, match="'carrier pigeon' is not understood"):
        links_of("carrier pigeon")
