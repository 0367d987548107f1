"""NCCL's log of its topology."""

from __future__ import annotations

from pathlib import Path

import pytest

from proteus.cluster import Cluster
from proteus.cluster.readers.nccl_dump import read_nccl_dump
from proteus.errors import TopologyError


@pytest.fixture(scope="module")
def text(root: Path) -> str:
    return (root / "tests/data/topology/nccl_dump.log").read_text()


def test_the_first_rank_of_interleaved_ones(root: Path) -> None:
    cluster = Cluster.load_file(root / "tests/data/topology/nccl_dump.log", gpu="v100", nodes=2)
    facts = cluster.report()
    assert facts["n_gpus"] == 3 and facts["pairs"] == {"0-1": "NV2", "0-2": "NV1", "1-2": "NVB"}
    assert facts["nics"] == ["NET/0"] and facts["nearest_nic"] == {str(i): ["NET/0"] for i in range(3)}
    assert facts["numa"] == {"0": 0, "1": 0, "2": 1}
    assert facts["warnings"][0].startswith("line 16: the lanes of GPU/A000 show 0.2 GB/s")
    assert [cluster.link_name(i) for i in cluster.routes([1], [2])[0] if i >= 0] == [
        "host0/gpu1->gpu0",
        "host0/gpu0->gpu2",
    ]
    out = [cluster.link_name(i) for i in cluster.routes([0], [3])[0] if i >= 0]
    assert out == ["host0/gpu0->pcie0", "host0/NET-0->net", "host1/net->NET-0", "host1/pcie0->gpu0"]


def test_without_prefixes_and_table(text: str) -> None:
    bare = "\n".join(line.split("NCCL INFO ")[1] for line in text.split("\n") if line.startswith("hostA:100"))
    survey = read_nccl_dump(bare.split("====\n")[0] if "====\n" in bare else bare, "x")
    assert survey.pairs[0] == (0, 1, "NV2") and survey.pairs[2][2] in ("NVB", "SYS")


def test_times_before_every_line(text: str) -> None:
    stamped = "\n".join(f"[2024-05-01 10:00:{i:02d}] {line}" for i, line in enumerate(text.split("\n")))
    assert read_nccl_dump(stamped, "x").pairs == read_nccl_dump(text, "x").pairs


def test_devices_with_their_gpu_inside() -> None:
    text = """=== System : maxBw 164.8 totalBw 164.8 ===
CPU/0-1 (1/1/3)
+ PCI[48.0] - PCI/0-c000 (1000c0301000100b)
              + PCI[48.0] - NIC/0-e000
              + PCI[48.0] - DEV/0-f000 (10de232410de17a6)
                            + LOC[5000.0] - GPU/0-f000
                            + NVL[164.8] - NVS/0-0
              + PCI[48.0] - DEV/0-1f000 (10de232410de17a6)
                            + LOC[5000.0] - GPU/0-1f000
                            + NVL[164.8] - NVS/0-0
+ PCI[5000.0] - NIC/0-0
+ SYS[22.0] - CPU/0-0
"""
    survey = read_nccl_dump(text, "x")
    assert survey.pairs == ((0, 1, "NV8"),) and survey.switched == (8, 8)
    # The card at a place of the tree counts; the virtual one does not.
    assert [nic.name for nic in survey.nics] == ["NIC/0-e000"] and survey.gpus[0].numa == 1


def test_a_host_without_numa_nodes() -> None:
    text = "=== System : maxBw 12.0 ===\nCPU/FFFFFFFFFFFFFFFF (1/1/1)\n+ PCI[12.0] - GPU/80 (0)\n"
    survey = read_nccl_dump(text, "x")
    assert survey.gpus[0].numa is None and survey.gpus[0].rate_Bps == 12e9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NCCL INFO nothing\n", "line 1: no line '=== System'"),
        ("=== System : ===\n+ PCI[12.0] - GPU/80 (0)\n", "line 2: GPU/80 hangs from nothing"),
        ("=== System : ===\n", "line 1: no CPU line"),
        ("=== System : ===\nCPU/0 (1/1/1)\n", "line 1: no GPU in the file"),
    ],
)
def test_refusals_have_line_and_reason(text: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        read_nccl_dump(text, "x")
