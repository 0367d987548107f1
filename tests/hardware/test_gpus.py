"""The catalogue of GPUs."""

from __future__ import annotations

import csv
import pickle
from pathlib import Path

import pytest

from proteus.errors import TopologyError
from proteus.hardware import gpus

#: how the collected tables write the GPUs that the catalogue must know
WRITTEN = {
    "A100-80GB-SXM": "a100-80gb",
    "A100-40GB-SXM": "a100-40gb",
    "NVIDIA A100-SXM4-40GB": "a100-40gb",
    "A100 80GB PCIe": "a100-pcie-80gb",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "h100": "h100-sxm",
    "Tesla V100-SXM2-32GB": "v100-sxm2-32gb",
    "V100-32GB (DGX-2)": "v100-sxm3-32gb",
    "NVIDIA TITAN Xp": "titan-xp",
    "GeForce GTX 1080 Ti": "gtx-1080-ti",
    "GB200 (NVL72)": "gb200",
    "AMD Instinct MI300X": "mi300x",
    "NVIDIA GeForce RTX 5090": "rtx-5090",
    "RTX 5090": "rtx-5090",
}


@pytest.mark.parametrize(("written", "name"), WRITTEN.items())
def test_names_as_people_write_them(written: str, name: str) -> None:
    assert gpus.load(written).name == name


def test_every_sheet_is_whole() -> None:
    for name in gpus.names():
        gpu = gpus.load(name)
        assert gpu.name == name and gpu.source
        assert 2**32 < gpu.memory_bytes < 2**40
        assert 1e11 < gpu.memory_Bps < 1e13
        assert gpu.peak_flops["fp32"] > 1e12
        assert gpu.pcie_gen in range(3, 7)
        assert all(peak >= gpu.peak_flops["fp32"] for dtype, peak in gpu.peak_flops.items() if dtype != "fp32")
        assert (gpu.nvlink_links > 0) == (gpu.nvlink_Bps > 0)
        assert not gpu.has_nvswitch or gpu.nvlink_links


def test_ports_have_the_rate_of_their_generation() -> None:
    assert gpus.load("v100").nvlink_port_Bps == gpus.load("a100").nvlink_port_Bps == gpus.load("h100").nvlink_port_Bps
    assert gpus.load("v100").nvlink_port_Bps == 25e9
    assert gpus.load("b200").nvlink_port_Bps == 50e9
    assert gpus.load("t4").nvlink_port_Bps == 0


def test_unknown_name_lists_the_nearest() -> None:
    with pytest.raises(TopologyError, match=r"unknown GPU 'a100-90gb'; nearest: .*a100-80gb"):
        gpus.load("a100-90gb")


def test_by_device_and_architecture() -> None:
    boards = [gpus.by_pci_device("0x20B5"), gpus.by_pci_device("740c"), gpus.by_arch("gfx942"), gpus.by_arch("908")]
    assert [gpu and gpu.name for gpu in boards] == ["a100-pcie-80gb", "mi250-gcd", "mi300x", "mi100"]
    assert gpus.by_pci_device("") is None and gpus.by_arch("") is None and gpus.by_pci_device("0xffff") is None


def test_a_sheet_hashes_and_pickles() -> None:
    gpu = gpus.load("a100")
    assert pickle.loads(pickle.dumps(gpu)) == gpu and hash(gpu) == hash(pickle.loads(pickle.dumps(gpu)))


def test_figures_equal_the_collected_sheets(shared: Path) -> None:
    """Where a collected sheet states one number, the catalogue has that number."""
    compared = 0
    for row in csv.DictReader((shared / "data/hardware/gpu_specs.csv").read_text().splitlines()):
        gpu = gpus.find(row["gpu"])
        if gpu is None:
            continue
        for column, dtype in [("fp32", "fp32"), ("bf16", "bf16"), ("fp8", "fp8")]:
            sheet_text = row.get(f"peak_{column}_TFLOPS_dense") or row.get(f"peak_{column}_TFLOPS") or ""
            if sheet_text:
                assert gpu.peak_flops[dtype] == pytest.approx(float(sheet_text) * 1e12), (row["gpu"], dtype)
                compared += 1
        if "-" not in row["mem_GBps"] and "/" not in row["mem_GBps"]:
            assert gpu.memory_Bps == pytest.approx(float(row["mem_GBps"]) * 1e9), row["gpu"]
            compared += 1
    assert compared > 60
