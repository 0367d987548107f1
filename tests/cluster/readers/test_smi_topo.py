"""``nvidia-smi topo -m``: whole, old, pasted."""

from __future__ import annotations

from pathlib import Path

import pytest

from proteus.cluster import Cluster, LinkKind
from proteus.cluster.readers.smi_topo import read_smi_topo
from proteus.errors import TopologyError
from tests.cluster.readers.samples import LEGEND, Sample


@pytest.fixture(scope="module")
def files(root: Path) -> Path:
    return root / "tests/data/topology"


def test_a_whole_file(files: Path) -> None:
    facts = Cluster.from_smi_topo(files / "smi_4gpu_nvswitch.txt").report()
    assert facts["n_gpus"] == 4 and facts["gpu"] is None
    assert set(facts["pairs"].values()) == {"NV18"}
    assert facts["nics"] == ["NIC0", "NIC1"] and facts["nic_devices"] == {"NIC0": "mlx5_2", "NIC1": "mlx5_5"}
    assert facts["nearest_nic"] == {"0": ["NIC0"], "1": ["NIC0"], "2": ["NIC1"], "3": ["NIC1"]}
    assert facts["numa"] == {"0": 0, "1": 0, "2": 1, "3": 1}
    assert facts["warnings"] == []


def test_old_names_and_a_header_without_indent(files: Path) -> None:
    facts = Cluster.from_smi_topo(files / "smi_2gpu_old.txt").report()
    assert facts["pairs"] == {"0-1": "SOC"} and facts["nearest_nic"] == {"0": ["mlx4_0"], "1": ["mlx4_0"]}
    assert facts["numa"] == {} and facts["warnings"] == []


def test_the_host_has_the_distances_that_the_file_tells(files: Path) -> None:
    cluster = Cluster.from_smi_topo(files / "smi_4gpu_nvswitch.txt", gpu="h100-sxm", nodes=2)
    assert cluster.nvls and cluster.routes([0], [3])[0].tolist() == [0, 7]
    assert cluster.link_capacity_Bps[0] == 450e9
    far = [cluster.link_name(i) for i in cluster.routes([1], [6])[0] if i >= 0]
    assert far == [
        "host0/gpu1->cpu0", "host0/cpu0->pcie0", "host0/NIC0->net", "host1/net->NIC1", "host1/pcie1->gpu2"
    ]  # fmt: skip
    assert cluster.warnings == ("the file does not tell the speed of NIC0, NIC1; 400 Gb/s each is assumed",)


def test_without_a_gpu_there_is_a_report_and_no_sheet(files: Path) -> None:
    cluster = Cluster.from_smi_topo(files / "smi_2gpu_old.txt")
    assert cluster.report()["gpu"] is None
    with pytest.raises(TopologyError, match=r"it is not known which GPU device 0 is; pass gpu=\.\.\."):
        cluster.gpu()
    assert cluster.with_gpu("k80").gpu().name == "k80"


@pytest.mark.parametrize("separator", ["\t", "  ", " ", "      "])
@pytest.mark.parametrize("num_nics", [0, 1, 4])
def test_any_separator(separator: str, num_nics: int) -> None:
    sample = Sample(num_gpus=8, num_nics=num_nics, nvlink="")
    survey = read_smi_topo("\n".join(sample.lines(separator)) + LEGEND, "x")
    assert survey.warnings == ()
    assert all(word == sample.word(f"GPU{a}", f"GPU{b}") for a, b, word in survey.pairs) and len(survey.pairs) == 28
    if num_nics:
        assert [gpu.nearest for gpu in survey.gpus] == [sample.nearest(gpu) for gpu in sample.gpus]


@pytest.mark.parametrize("prefix", ["    ", "> ", "[stdout] ", "node7 | ", "2024-05-01 10:00:00 INFO "])
def test_prefixes_of_logs_and_quotes(prefix: str) -> None:
    sample = Sample(num_gpus=4, num_nics=2, nvlink="NV4")
    text = "".join(f"{prefix}{line}\n" for line in ["$ nvidia-smi topo -m", *sample.lines()])
    survey = read_smi_topo(text, "x")
    assert survey.warnings == () and {word for *_, word in survey.pairs} == {"NV4"}
    assert [gpu.nearest for gpu in survey.gpus] == [sample.nearest(gpu) for gpu in sample.gpus]


def test_a_table_of_a_page() -> None:
    text = (
        "| | GPU0 | GPU1 | NIC0 | CPU Affinity |\n|---|---|---|---|---|\n"
        "| GPU0 | X | NV4 | PIX | 0-7 |\n| GPU1 | NV4 | X | SYS | 0-7 |\n"
    )
    survey = read_smi_topo(text, "x")
    assert survey.pairs == ((0, 1, "NV4"),) and [gpu.nearest for gpu in survey.gpus] == [("NIC0",), ("NIC0",)]
    assert survey.warnings == ()


def test_gpu_names_around_the_matrix() -> None:
    matrix = "\n".join(Sample(num_gpus=2, num_nics=0, nvlink="NV12").lines())
    for named in (
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-0)\nGPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-1)\n",
        "|   0  NVIDIA A100-SXM4-40GB          On  | 00000000:07:00.0 Off |\n",
        "0, NVIDIA A100-SXM4-40GB, 40960 MiB\n",
    ):
        survey = read_smi_topo(named + matrix, "x")
        assert [gpu.model and gpu.model.name for gpu in survey.gpus] == ["a100-40gb"] * 2
    two = "GPU 0: Tesla V100-PCIE-16GB\nGPU 1: Tesla T4\n"
    assert [g.model and g.model.name for g in read_smi_topo(two + matrix, "x").gpus] == ["v100-pcie-16gb", "t4"]


def test_topo_mp_hides_nvlink() -> None:
    text = "$ nvidia-smi topo -mp\n" + "\n".join(Sample(num_gpus=8, num_nics=4, nvlink="").lines())
    survey = read_smi_topo(text, "x")
    assert not survey.tells_nvlink and "topo -mp shows PCIe only" in survey.warnings[0]


def test_assumed_nvswitch_behind_topo_mp(tmp_path: Path) -> None:
    file = tmp_path / "mp.txt"
    file.write_text("$ nvidia-smi topo -mp\n" + "\n".join(Sample(num_gpus=8, num_nics=4, nvlink="").lines()))
    cluster = Cluster.load_file(file, gpu="h100-sxm")
    assert cluster.host.has_nvswitch and any("taken to be joined by NVSwitch" in note for note in cluster.warnings)


def test_more_links_than_ports_end_in_a_switch(tmp_path: Path) -> None:
    file = tmp_path / "m.txt"
    file.write_text("\n".join(Sample(num_gpus=4, num_nics=0, nvlink="NV4").lines()))
    assert not Cluster.load_file(file, gpu="a100-80gb").host.has_nvswitch  # 3 x 4 of 12 ports
    assert Cluster.load_file(file, gpu="v100").host.has_nvswitch  # 3 x 4 of 6 ports
    direct = Cluster.load_file(file, gpu="a100-80gb")
    link = direct.routes([0], [3])[0][0]
    assert direct.link_kind[link] == LinkKind.NVLINK and direct.link_capacity_Bps[link] == 100e9


def test_numa_lists_and_numa_ids() -> None:
    text = (
        "        GPU0    GPU1    CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
        "GPU0     X      NV6     0-71    0,2-17          1\n"
        "GPU1    NV6      X      0-71    0, 2-17         18\n"
    )
    assert [gpu.numa for gpu in read_smi_topo(text, "x").gpus] == ["0,2-17", "0,2-17"]


def test_numbers_need_not_begin_at_zero() -> None:
    text = "\tGPU4\tGPU6\tCPU Affinity\nGPU4\t X \tPIX\t0-7\nGPU6\tPIX\t X \t0-7\n"
    survey = read_smi_topo(text, "x")
    assert [gpu.label for gpu in survey.gpus] == ["4", "6"] and survey.pairs == ((0, 1, "PIX"),)


@pytest.mark.parametrize(
    "name",
    ["mlx5_bond_0", "bnxt_re0", "irdma0", "rocep49s0", "roceP2p1s0f1", "hsn0", "cxi1", "hfi1_0", "efa_0", "ibp12s0"],
)
def test_names_of_nics(name: str) -> None:
    text = f"\tGPU0\t{name}\tCPU Affinity\nGPU0\t X \tPIX\t0-7\n{name}\tPIX\t X \t\n"
    survey = read_smi_topo(text, "x")
    assert [nic.name for nic in survey.nics] == [name] and survey.gpus[0].nearest == (name,)
