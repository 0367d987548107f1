"""Another GPU in a host: its links go with it, or the host does not take it."""

from __future__ import annotations

from dataclasses import replace

import pytest

import proteus as pt
from proteus.cluster import LinkKind
from proteus.cluster.host import build
from proteus.hardware import load


def rates(cluster: pt.Cluster, kind: LinkKind) -> set[float]:
    """Rates of links of a kind [GB/s]."""
    return {link.capacity_Bps / 1e9 for link in cluster.host.links if link.kind == kind}


@pytest.mark.parametrize(
    ("preset", "gpu", "kind", "rate_GBps"),
    [
        ("dgx-h100", "h800", LinkKind.NVSWITCH, 200.0),
        ("dgx-a100", "a800", LinkKind.NVSWITCH, 200.0),
        ("dgx-h100", "b200", LinkKind.NVSWITCH, 900.0),
        ("dgx1-v100", "p100", LinkKind.NVLINK, 20.0),
        ("mi300x", "mi355x", LinkKind.XGMI, 76.5),
        ("gb200-nvl72", "gb300", LinkKind.C2C, 450.0),
        ("pcie-8x-a40", "a100-pcie", LinkKind.NVLINK, 300.0),
    ],
)
def test_links_go_with_the_gpu(preset: str, gpu: str, kind: LinkKind, rate_GBps: float) -> None:
    cluster = pt.clusters.load(preset, gpu=gpu)
    assert cluster == pt.clusters.load(preset).with_gpu(gpu) and cluster.gpu() == load(gpu)
    assert rates(cluster, kind) == {rate_GBps}


def test_lanes_are_the_slower_of_gpu_and_host() -> None:
    def lanes(cluster: pt.Cluster) -> float:
        ends = cluster.host.vertices
        link = next(link for link in cluster.host.links if ends[link.src].name == "gpu0" and link.kind == LinkKind.PCIE)
        return link.capacity_Bps / 1e9

    old, new = pt.clusters.load("dgx-a100"), pt.clusters.load("dgx-h100")
    assert lanes(old.with_gpu("h100")) == 31.5 and lanes(new.with_gpu("a100")) == 31.5 and lanes(new) == 63.0
    assert rates(new.with_gpu("a100"), LinkKind.HOST_BRIDGE) == rates(new, LinkKind.HOST_BRIDGE)


@pytest.mark.parametrize("through", ["h800", "b200", "a100"])
def test_the_way_there_does_not_matter(through: str) -> None:
    cluster = pt.clusters.load("dgx-h100", nodes=2)
    assert cluster.with_gpu(through).with_gpu("h200") == cluster.with_gpu("h200")
    assert cluster.with_gpu(through).with_gpu("h100") == cluster


@pytest.mark.parametrize(
    ("preset", "gpu", "message"),
    [
        ("dgx-h100", "l40s", "joined by NVSwitch; l40s has neither NVLink nor xGMI"),
        ("dgx-a100", "a100-pcie", "joined by NVSwitch; a100-pcie-80gb has 12 NVLink .*wiring: pairs"),
        ("dgx-h100", "mi300x", "joined by NVSwitch; mi300x"),
        ("dgx1-v100", "a100", "wired as a cube mesh, which a100-80gb is not made for"),
        ("mi300x", "h100", "joined by XGMI; h100-sxm has 18 ports of NVLINK"),
        ("mi300x", "mi100", "each GPU reaches 7 others directly; mi100 has 3"),
        ("gb200-nvl72", "b200", "Grace CPUs by chip-to-chip links, and b200 has none"),
        ("dgx-b200", "gb200", "gb200 hangs from a Grace CPU of its own"),
    ],
)
def test_a_host_that_does_not_take_it_says_why(preset: str, gpu: str, message: str) -> None:
    with pytest.raises(pt.TopologyError, match=message):
        pt.clusters.load(preset, gpu=gpu)


def test_unused_ports_are_said() -> None:
    cluster = pt.clusters.load("hc1", gpu="v100")
    assert any("6 NVLink or xGMI ports that this host's PCIe slots leave unused" in note for note in cluster.warnings)
    assert pt.clusters.load("hc1").warnings == cluster.with_gpu("titan-xp").warnings == ()
    assert not rates(pt.clusters.load("pcie-8x-a40", gpu="l40s"), LinkKind.NVLINK)


def test_links_that_were_stated_stay() -> None:
    """A host without a design: another size of memory is fine, other links are not."""
    cluster = pt.clusters.load("dgx-h100")
    bare = build("bare", replace(cluster.host.layout, design=None))
    gpu = cluster.gpu()
    assert bare.with_gpu(replace(gpu, name="x", memory_bytes=2**36)).links == bare.links
    with pytest.raises(pt.TopologyError, match="bare: its links were measured or stated for h100-sxm"):
        bare.with_gpu(load("h800"))


def test_a_file_with_nvlink_takes_no_gpu_without(root: object) -> None:
    path = f"{root}/tests/data/topology/smi_4gpu_nvswitch.txt"
    with pytest.raises(pt.TopologyError, match="between GPUs, and l40s has none"):
        pt.Cluster.load_file(path, gpu="l40s")
    assert pt.Cluster.load_file(path, gpu=replace(load("a100"), name="mine")).gpu().name == "mine"
