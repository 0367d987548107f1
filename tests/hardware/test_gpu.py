"""A GPU is a complete value: nothing about it is looked up by name."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

import proteus as pt
from proteus import hardware
from proteus.hardware import Gpu


def step_s(cluster: pt.Cluster) -> float:
    tree = pt.StrategyTree(pt.models.load("gpt2")).parallelize(dp=4, tp=2, global_batch=16)
    return pt.simulate(tree, cluster).step_time_s


def test_another_name_changes_nothing() -> None:
    cluster = pt.clusters.load("dgx-h100")
    renamed = cluster.with_gpu(replace(cluster.gpu(), name="x100"))
    assert renamed.gpu().name == "x100" and step_s(renamed) == step_s(cluster)


def test_its_own_figures_count() -> None:
    cluster = pt.clusters.load("dgx-h100")
    gpu = cluster.gpu()
    peaks = {dtype: 2 * peak for dtype, peak in gpu.peak_flops.items()}
    faster = cluster.with_gpu(replace(gpu, peak_flops=peaks, memory_Bps=2 * gpu.memory_Bps, tdp_w=2 * (gpu.tdp_w or 0)))
    assert step_s(faster) < step_s(cluster)
    tree = pt.StrategyTree(pt.models.load("gpt2")).parallelize(dp=8, global_batch=64)
    assert pt.simulate(tree, cluster).fits
    assert not pt.simulate(tree, cluster.with_gpu(replace(gpu, memory_bytes=2**30))).fits


def test_two_gpus_of_one_name_are_told_apart() -> None:
    cluster = pt.clusters.load("dgx-h100")
    gpu = cluster.gpu()
    slow = cluster.with_gpu(replace(gpu, memory_Bps=gpu.memory_Bps / 4))
    tree = pt.StrategyTree(pt.models.load("gpt2")).parallelize(dp=16, global_batch=64)
    both = pt.simulate(tree, pt.Cluster.mixed([cluster, slow]))
    assert both.step_time_s > pt.simulate(tree, pt.Cluster.mixed([cluster, cluster])).step_time_s


def test_it_hashes_and_pickles() -> None:
    gpu = hardware.load("a100")
    again = pickle.loads(pickle.dumps(gpu))
    assert again == gpu and hash(again) == hash(gpu) and step_s(pt.clusters.load("dgx-a100", gpu=again)) > 0
    assert replace(gpu, peak_flops={"fp32": 1e12}) != gpu
    assert replace(gpu, chip=hardware.load("h100").chip) != gpu


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"memory_bytes": -1}, "memory_bytes=-1; it must be from"),
        ({"memory_bytes": 1.5e9}, "memory_bytes=1500000000.0 is not a whole number"),
        ({"memory_Bps": float("nan")}, "memory_Bps=nan; it must be from"),
        ({"memory_Bps": "fast"}, "memory_Bps='fast' is not a number"),
        ({"memory_Bps": True}, "memory_Bps=True is not a number"),
        ({"peak_flops": {}}, "peak_flops is empty"),
        ({"peak_flops": {"fp61": 1e12}}, "peak_flops: unknown dtype 'fp61'; nearest: fp16"),
        ({"peak_flops": {"fp16": float("inf")}}, "peak_flops=inf; it must be from"),
        ({"pcie_gen": 7}, "pcie_gen=7; known are 1, 2, 3, 4, 5, 6"),
        ({"nvlink_links": 0}, "give both or neither"),
        ({"wiring": "star"}, "unknown wiring 'star'"),
        ({"name": " "}, "GPU name ' '"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(pt.InputError, match=message):
        replace(hardware.load("a100"), **changes)


def test_it_prints_short() -> None:
    assert repr(hardware.load("h200")) == "Gpu(h200: gh100, 140 GiB at 4800 GB/s, bf16 989 TFLOPS)"
    assert repr(hardware.load("mi50").chip) == "Chip(vega: vega20; measured: nothing)"


def test_gpu_means_a_name_a_file_or_a_value(tmp_path: object) -> None:
    gpu = hardware.load("t4")
    assert hardware.resolve("Tesla T4") is gpu and hardware.resolve(gpu) is gpu
    with pytest.raises(pt.InputError, match="gpu=4; give a name"):
        hardware.resolve(4)  # type: ignore[arg-type]
    assert isinstance(gpu, Gpu)
