"""Files of any kind: which kind, the collected ones against their answers, and damage of all sorts."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import pytest

from proteus.cluster import Cluster
from proteus.cluster.readers import sniff
from proteus.errors import ProteusError, TopologyError

ROOT = Path(__file__).resolve().parents[3]
CASES = ROOT.parent / "shared" / "cases"
OWN = sorted((ROOT / "tests/data/topology").iterdir())


def index() -> list[dict[str, str]]:
    file = CASES / "index.csv"
    return list(csv.DictReader(file.read_text("utf-8").splitlines())) if file.is_file() else []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("system_nvswitch.xml", "nccl-xml"),
        ("graphs.xml", "nccl-xml"),
        ("rocm_3gpu.txt", "rocm-smi"),
        ("smi_2gpu_old.txt", "smi-topo"),
        ("nccl_dump.log", "nccl-dump"),
    ],
)
def test_the_kind_is_found_by_looking(name: str, kind: str) -> None:
    assert sniff((ROOT / "tests/data/topology" / name).read_text()) == kind


@pytest.mark.parametrize("text", ["", "hello\n", "GPU0 is busy\n", '{"gpus": 8}', "0 1 2\n"])
def test_what_is_no_topology(text: str) -> None:
    with pytest.raises(TopologyError, match="line 1: no topology found; known are"):
        sniff(text)


def test_another_gpu_in_a_file_with_a_missing_nic() -> None:
    cluster = Cluster.load_file(ROOT / "tests/data/topology/smi_4gpu_nvswitch.txt", gpu="h100", nodes=3)
    changed = cluster.without_nic(1, "NIC0").with_gpu("b200")
    assert changed.gpu(11).name == "b200" and changed.link_capacity_Bps[0] == 900e9
    assert [changed.host_at(h).nics for h in range(3)] == [("NIC0", "NIC1"), ("NIC1",), ("NIC0", "NIC1")]


def as_told(numa: dict[str, object]) -> dict[str, str]:
    return {gpu: str(node) for gpu, node in numa.items()}


def expected_numa(row: dict[str, str]) -> dict[str, str]:
    """The NUMA column of the index: ``GPU0-3:0;GPU4-7:1`` or ``dev0:0;dev1:1`` or ``0:0;1:0``."""
    node_of_gpu = {}
    for part in filter(None, row["numa"].split(";")):
        gpus, node = part.split(":")
        first, _, last = gpus.removeprefix("GPU").removeprefix("dev").partition("-")
        node_of_gpu |= {str(gpu): node for gpu in range(int(first), int(last or first) + 1)}
    return node_of_gpu


def expected_nearest(row: dict[str, str]) -> list[tuple[str, list[str]]]:
    """``GPU0->NIC0/NIC1:PIX | ...`` as (GPU, NICs); GPUs named by bus are taken in order."""
    nearest = []
    for place, part in enumerate(filter(None, row["nearest_nic"].split(" | "))):
        gpu, target = part.split("->")
        number = gpu.removeprefix("GPU").removeprefix("dev")
        if row["kind"].startswith("NCCL_DEBUG"):
            nics = [target.rsplit(":", 1)[0]]
        else:
            body = target.split(":same")[0] if ":same" in target else target.rsplit(":", 1)[0]
            nics = [] if target == "none near" else body.split("/")
        nearest.append((number if number.isdigit() else str(place), nics))
    return nearest


@pytest.mark.parametrize("row", index(), ids=lambda row: row["file"])
def test_collected_files_have_the_answers_of_the_index(row: dict[str, str]) -> None:
    path = CASES / "topology" / row["file"]
    if "graph" in row["kind"].lower() and "channel graph" in row["notes"]:
        with pytest.raises(TopologyError, match=r"line \d+: a channel graph"):
            Cluster.load_file(path)
        return
    facts = Cluster.load_file(path).report()
    assert facts["n_gpus"] == int(row["n_gpus"])
    if row["all_pairs"]:
        assert facts["pairs"] == json.loads(row["all_pairs"])
    for pair in row["gpu_pairs"].removesuffix(" ...").split(";"):
        ends, _, word = pair.partition(":")
        if ends.startswith("all pairs"):
            assert set(facts["pairs"].values()) == {word.strip()}
        elif word:
            a, b = sorted(map(int, ends.split("-")))
            # A link of a GPU with itself, which some files have, is no pair.
            assert facts["pairs"].get(f"{a}-{b}") == (word if a != b else None)
    assert len(facts["nics"]) == int(row["n_nics"] or 0)
    if row["nic_names"]:
        assert facts["nics"] == row["nic_names"].split()
    for gpu, nics in expected_nearest(row):
        assert facts["nearest_nic"][gpu] == nics
    if "," not in row["numa"]:
        numa = as_told(facts["numa"])
        assert numa == expected_numa(row)
    derived = row["damage"].startswith("DERIVED") or "blanks collapsed" in row["notes"]
    if row["complete"] == "no" and not derived:
        assert facts["warnings"], "a damaged file is repaired with a warning"


def test_the_index_is_read(shared: Path) -> None:
    assert len(index()) > 30 and shared == CASES.parent


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_any_damage_gives_a_cluster_or_one_clear_line(path: Path, tmp_path: Path) -> None:
    draw = random.Random(path.name)
    text = path.read_text()
    file = tmp_path / path.name
    for _ in range(60):
        broken = text
        for _ in range(draw.randint(1, 4)):
            i, j = sorted(draw.randrange(len(broken) + 1) for _ in range(2))
            j = min(j, i + draw.choice([1, 1, 1, 40]))
            broken = draw.choice([broken[:i] + broken[j:], broken[:j] + broken[i:], broken[:i] or " "])
        file.write_text(broken)
        try:
            cluster = Cluster.load_file(file, gpu=draw.choice([None, "a100", "v100", "mi300x", "gb200"]), nodes=2)
        except ProteusError as error:
            assert str(error).startswith(str(file)) and "\n" not in str(error)
            continue
        devices = list(range(cluster.num_devices))
        routes = cluster.routes(devices, devices[::-1])
        assert routes.max(initial=-1) < cluster.num_links
        assert json.dumps(cluster.report())
        assert cluster.to_networkx().number_of_nodes() > cluster.num_devices
