"""Topology XML of NCCL and RCCL."""

from __future__ import annotations

from pathlib import Path

import pytest

from proteus.cluster import Cluster
from proteus.cluster.readers.nccl_xml import read_nccl_xml
from proteus.errors import TopologyError


@pytest.fixture(scope="module")
def files(root: Path) -> Path:
    return root / "tests/data/topology"


def names(cluster: Cluster, src: int, dst: int) -> list[str]:
    return [cluster.link_name(i) for i in cluster.routes([src], [dst])[0] if i >= 0]


def test_nvswitch(files: Path) -> None:
    cluster = Cluster.from_nccl_xml(files / "system_nvswitch.xml", nodes=2)
    facts = cluster.report()
    assert facts["gpu"] == "h100-sxm" and facts["pairs"] == {"0-1": "NV18"} and facts["warnings"] == []
    assert facts["nics"] == ["mlx5_0", "eth0"]
    # Numbered by dev, not by place in the file.
    assert facts["nearest_nic"] == {"0": ["eth0"], "1": ["mlx5_0"]} and facts["numa"] == {"0": 1, "1": 0}
    assert cluster.host.has_nvswitch and cluster.link_capacity_Bps[0] == 450e9
    assert names(cluster, 1, 3) == ["host0/gpu1->pcie0", "host0/mlx5_0->net", "host1/net->mlx5_0", "host1/pcie0->gpu1"]


def test_xgmi(files: Path) -> None:
    cluster = Cluster.from_nccl_xml(files / "system_xgmi.xml")
    facts = cluster.report()
    assert facts["gpu"] == "mi250-gcd" and facts["numa"] == {}
    assert facts["pairs"] == {"0-1": "xgmix4", "0-2": "PHB", "1-2": "xgmix1"}
    assert facts["nearest_nic"] == {str(i): ["hsn0"] for i in range(3)}
    assert facts["warnings"] == ["line 23: NIC hsn0 has 200000000 Mb/s; no NIC has, so kb/s is taken"]
    capacity = dict(zip(map(cluster.link_name, range(cluster.num_links)), cluster.link_capacity_Bps, strict=True))
    assert capacity["host0/gpu0->gpu1"] == 200e9 and capacity["host0/hsn0->net"] == 25e9
    assert capacity["host0/gpu0->pcie0"] == pytest.approx(15.75e9, rel=1e-3)  # 8 lanes of PCIe 4


def test_bare_devices_are_counted_by_class(files: Path) -> None:
    cluster = Cluster.from_nccl_xml(files / "system_bare.xml")
    facts = cluster.report()
    assert facts["n_gpus"] == 3 and facts["nics"] == ["0101:00:00.0"]
    assert facts["pairs"] == {"0-1": "PIX", "0-2": "SYS", "1-2": "SYS"}
    assert facts["nearest_nic"] == {"0": ["0101:00:00.0"], "1": ["0101:00:00.0"], "2": []}
    assert facts["warnings"] == [
        "the file shows neither NVLink nor which GPU it is; pass gpu=... to have its usual links"
    ]
    known = Cluster.from_nccl_xml(files / "system_bare.xml", gpu="a100-40gb", nodes=2)
    assert known.host.has_nvswitch and "taken to be joined by NVSwitch" in known.warnings[0]
    assert "200 Gb/s each is assumed" in known.warnings[1]
    assert known.with_gpu("a100-pcie-80gb").host.has_nvswitch is False


def test_a_channel_graph_is_refused(files: Path) -> None:
    with pytest.raises(TopologyError, match=r"graphs\.xml: line 1: a channel graph .* not a topology"):
        Cluster.load_file(files / "graphs.xml")


def system(inner: str) -> str:
    return f'<system version="1">\n<cpu numaid="0">\n{inner}\n</cpu>\n</system>\n'


def gpu(dev: int, busid: str, inner: str = "", device: str = "0x1db5") -> str:
    return (
        f'<pci busid="{busid}" class="0x030200" device="{device}" link_speed="8.0 GT/s PCIe" link_width="16">\n'
        f'<gpu dev="{dev}" sm="70" rank="{dev}">{inner}</gpu></pci>'
    )


def nvlink(target: str, count: object = 1, tclass: str = "0x030200") -> str:
    return f'<nvlink target="{target}" count="{count}" tclass="{tclass}"/>'


def test_links_to_itself_make_no_pair() -> None:
    survey = read_nccl_xml(system(gpu(0, "a", nvlink("a", 12)) + gpu(1, "b", nvlink("b", 12))), "x")
    assert survey.direct == () and survey.pairs == ((0, 1, "PHB"),)
    assert survey.warnings[0] == "line 4: the 12 NVLinks of GPU 0 point at itself; no link is made of them"


def test_links_add_up_and_must_agree() -> None:
    both = gpu(0, "A", nvlink("b", 1) + nvlink("B", 1)) + gpu(1, "b", nvlink("a", 2))
    assert read_nccl_xml(system(both), "x").pairs == ((0, 1, "NV2"),)
    one = read_nccl_xml(system(gpu(0, "a", nvlink("b", 2)) + gpu(1, "b", nvlink("a", 1))), "x")
    assert one.pairs == ((0, 1, "NV1"),) and "the smaller counts" in one.warnings[0]
    half = read_nccl_xml(system(gpu(0, "a", nvlink("b", 2)) + gpu(1, "b")), "x")
    assert half.pairs == ((0, 1, "NV2"),) and "only GPU 0 tells of its link with GPU 1" in half.warnings[0]
    gone = read_nccl_xml(system(gpu(0, "a", nvlink("c", 2)) + gpu(1, "b")), "x")
    assert gone.direct == () and "leads to c, which is not in the file" in gone.warnings[0]


def test_nvswitch_seen_from_a_virtual_machine() -> None:
    inner = nvlink("fffffff:ffff:ff", 12, "")
    survey = read_nccl_xml(system(gpu(0, "a", inner) + gpu(1, "b", inner) + gpu(2, "c", inner)), "x")
    assert survey.switched == (12, 12, 12) and {word for *_, word in survey.pairs} == {"NV12"}


def test_a_link_that_sleeps_has_no_rate() -> None:
    text = system(gpu(0, "a")).replace("8.0 GT/s PCIe", "2.5 GT/s PCIe").replace('link_width="16"', 'link_width="1"')
    survey = read_nccl_xml(text, "x")
    assert survey.gpus[0].rate_Bps is None and "a link that sleeps" in survey.warnings[0]


@pytest.mark.parametrize("speed", ["", "-1", "0", "nan", "fast"])
def test_a_nic_without_a_speed(speed: str) -> None:
    nic = f'<nic><net name="eth0" dev="0" speed="{speed}"/></nic>'
    survey = read_nccl_xml(system(gpu(0, "a") + nic), "x")
    assert survey.nics[0].rate_Bps is None and "a number in Mb/s belongs there" in survey.warnings[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('<!DOCTYPE x [<!ENTITY a "b">]><system/>', "line 1: a document type or entity"),
        ('<?xml version="1.0"?>\n<!DOCTYPE system SYSTEM "http://x/y.dtd">\n<system/>', "line 2: a document type"),
        (system(gpu(0, "a"))[:-20], r"line \d+: not well-formed XML inside <pci> of line 3: unclosed token"),
        ("<topology/>", "line 1: the root is <topology>; a topology begins with <system>"),
        ('<system version="1"/>', "line 1: no GPU in the file"),
        (system(gpu(0, "a").replace('dev="0"', 'dev="zero"')), "line 4: dev='zero' of <gpu> is not a whole number"),
        ("<system>" + "<pci>" * 100, "elements nest deeper than 64"),
        ("<system>&lol;</system>", "line 1: not well-formed XML"),
    ],
)
def test_refusals_have_line_and_reason(text: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        read_nccl_xml(text, "x")


def test_what_stands_around_a_pasted_system_is_left_out() -> None:
    survey = read_nccl_xml("here it is:\n```\n" + system(gpu(0, "a")) + "```\nthanks\n", "x")
    assert survey.warnings == (
        "line 3: what stands before <system> is left out",
        "what stands behind </system> is left out",
    )
    declared = '\n<?xml version="1.0" encoding="UTF-16"?>\n' + system(gpu(0, "a") + "<pci>")
    with pytest.raises(TopologyError, match=r"line 7: not well-formed XML inside <pci> of line 6"):
        read_nccl_xml(declared, "x")


def test_nvlink_to_a_cpu_is_no_switch() -> None:
    survey = read_nccl_xml(system(gpu(0, "a", nvlink("0004:04:00.0", 3, "0x068001")) + gpu(1, "b")), "x")
    assert survey.switched == () and survey.direct == ()
    assert "NVLink between GPU and CPU is not modelled" in survey.warnings[0]


def test_repeated_numbers_give_way_to_the_order_of_the_file() -> None:
    survey = read_nccl_xml(system(gpu(0, "a") + gpu(0, "b")), "x")
    assert [gpu.label for gpu in survey.gpus] == ["0", "1"] and "incomplete or repeated" in survey.warnings[0]
