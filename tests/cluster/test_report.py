"""The report of presets; those of files are tested with their readers."""

from __future__ import annotations

import json

from proteus.cluster import Cluster, clusters
from proteus.cluster.report import report


def test_nvswitch() -> None:
    facts = report(clusters.load("dgx-a100", nodes=2))
    assert facts["n_gpus"] == 8 and facts["gpu"] == "a100-80gb"
    assert set(facts["pairs"].values()) == {"NV12"} and len(facts["pairs"]) == 28
    assert facts["nearest_nic"]["3"] == ["nic2", "nic3"]
    assert facts["numa"] == {str(g): int(g >= 4) for g in range(8)}


def test_cube_mesh_and_pcie_words() -> None:
    pairs = report(clusters.load("dgx1-v100"))["pairs"]
    assert (pairs["0-1"], pairs["0-3"], pairs["0-7"], pairs["0-5"]) == ("NV1", "NV2", "SYS", "SYS")
    pairs = report(clusters.load("hc1"))["pairs"]
    assert (pairs["0-1"], pairs["0-2"], pairs["0-7"]) == ("PIX", "NODE", "SYS")
    assert report(clusters.load("mi300x"))["pairs"]["2-6"] == "XGMI"


def test_several_kinds_of_gpu_and_json() -> None:
    mixed = Cluster.mixed([clusters.load("dgx-a100"), clusters.load("dgx-h100")])
    assert json.loads(json.dumps(report(mixed)))["gpu"] == "a100-80gb + h100-sxm"
