"""Names and files become models, clusters and trees."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from proteus.cli.inputs import load_cluster, load_model, load_tree, names_a_file
from proteus.cli.parser import build_parser
from proteus.errors import InputError, TopologyError


def parse(*arguments: str) -> argparse.Namespace:
    return build_parser().parse_args(arguments)


def test_hosts_by_colon_or_by_flag() -> None:
    assert load_cluster(parse("cluster", "dgx-a100:2")).num_devices == 16
    assert load_cluster(parse("cluster", "dgx-a100", "--nodes", "2")).num_devices == 16


def test_another_gpu_in_the_hosts() -> None:
    assert load_cluster(parse("cluster", "dgx-a100", "--gpu", "a100-40gb")).gpu().name == "a100-40gb"
    assert load_cluster(parse("cluster", "dgx-h100:2", "--gpu", "h800")).link_capacity_Bps[0] == 200e9
    with pytest.raises(TopologyError, match="joined by NVSwitch; l40s has neither"):
        load_cluster(parse("cluster", "dgx-h100", "--gpu", "l40s"))


def test_a_gpu_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("gpu: mine\nlike: a100\nmemory_MiB: 65536\n", encoding="utf-8")
    gpu = load_cluster(parse("cluster", "dgx-a100:2", "--gpu", str(path))).gpu(15)
    assert (gpu.name, gpu.memory_bytes) == ("mine", 2**36)
    path.write_text("gpu: mine\nlike: a100\nmemory: 65536\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"mine\.yaml: the GPU: unknown key 'memory'; nearest: memory_"):
        load_cluster(parse("cluster", "dgx-a100:2", "--gpu", str(path)))


def test_several_names_are_one_mixed_cluster() -> None:
    cluster = load_cluster(parse("cluster", "dgx-a100:2", "dgx-h100:1"))
    assert cluster.num_devices == 24
    assert cluster.gpu(0).generation == "ampere" and cluster.gpu(23).generation == "hopper"


def test_nodes_of_a_mixed_cluster_are_ambiguous() -> None:
    with pytest.raises(InputError, match="2 kinds of host"):
        load_cluster(parse("cluster", "dgx-a100", "dgx-h100", "--nodes", "2"))


def test_faults() -> None:
    cluster = load_cluster(parse("cluster", "dgx-a100:2", "--slow-device", "3=1.5", "--without-nic", "1=0"))
    assert cluster.device_slowdown[3] == 1.5
    assert cluster.device_slowdown.sum() == 16.5


def test_zero_hosts_are_refused() -> None:
    with pytest.raises(TopologyError, match="at least 1"):
        load_cluster(parse("cluster", "dgx-a100:0"))


@pytest.mark.parametrize(
    ("text", "is_file"), [("gpt2", False), ("dgx-a100:4", False), ("a/gpt2", True), ("x.json", True)]
)
def test_files_are_told_from_names(text: str, is_file: bool) -> None:
    assert names_a_file(text) is is_file


def test_sequence_length_reaches_the_model() -> None:
    model = load_model(parse("simulate", "--model", "gpt2", "--seq", "512", "--cluster", "dgx-a100"))
    assert model.seq == 512


def test_a_saved_tree_is_read_back(tmp_path: Path) -> None:
    flags = ("simulate", "--model", "gpt2", "--cluster", "dgx-a100")
    tree = load_tree(parse(*flags, "--dp", "4", "--tp", "2"))
    path = tmp_path / "tree.yaml"
    path.write_text(tree.to_yaml(), encoding="utf-8")
    assert load_tree(parse(*flags, "--tree", str(path))) == tree


def test_a_tree_says_everything(tmp_path: Path) -> None:
    path = tmp_path / "tree.yaml"
    path.write_text("")
    with pytest.raises(InputError, match=r"drop --micro-batch"):
        load_tree(parse("simulate", "--cluster", "dgx-a100", "--tree", str(path), "--micro-batch", "2"))


def test_a_tree_is_text(tmp_path: Path) -> None:
    path = tmp_path / "tree.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        load_tree(parse("simulate", "--cluster", "dgx-a100", "--tree", str(path)))


def test_a_model_by_its_sizes() -> None:
    words = "layers=4,hidden=512,heads=8,vocab=1000,seq=128,experts.num=4,experts.topk=2,experts.ffn=256"
    base = ("simulate", "--cluster", "8 x a100-80gb")
    model = load_model(parse(*base, "--model", "llama", "--set", words))
    assert (model.facts["layers"], model.facts["experts"], model.seq) == (4, 4, 128)
    assert load_model(parse(*base, "--model", "gpt2", "--set", "layers=2")).num_blocks == 4
    with pytest.raises(InputError, match="--seq 64 and seq=128 in --set; give one of them"):
        load_model(parse(*base, "--model", "llama", "--set", words, "--seq", "64"))
    with pytest.raises(InputError, match="--set is for built-in models"):
        load_model(parse(*base, "--model", "mine/config.json", "--set", "layers=2"))


def test_hosts_in_words() -> None:
    cluster = load_cluster(parse("simulate", "--model", "gpt2", "--cluster", "2 x 4 x l40s, network_Gbps=12.5"))
    assert (cluster.num_hosts, cluster.devices_per_host) == (2, 4)
