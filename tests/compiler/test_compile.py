"""The framework on the GPUs of a cluster."""

from __future__ import annotations

import pytest

import proteus as pt
from proteus.compiler.compile import compile_tree
from proteus.errors import InputError

SMALL = pt.StrategyTree(pt.models.load("gpt2", layers=4))


def test_flash_attention_that_cannot_run_is_replaced_and_said() -> None:
    tree = pt.StrategyTree(pt.models.load("gpt-1.5b")).parallelize(dp=8, global_batch=8, precision="fp16")
    result = pt.simulate(tree, pt.clusters.load("hc2"))
    assert any("fused_softmax instead of flash2" in line for line in result.assumptions)
    flash = pt.simulate(tree, pt.clusters.load("dgx-a100"))
    assert not any("instead of" in line for line in flash.assumptions)
    assert result.peak_memory_bytes > flash.peak_memory_bytes


def test_a_kernel_that_is_asked_for_is_refused_where_it_cannot_run() -> None:
    tree = SMALL.parallelize(dp=2, framework="megatron-core, attention=flash2")
    with pytest.raises(InputError, match="runs fused_softmax there"):
        pt.simulate(tree, pt.clusters.load("hc2"))


def test_every_kind_of_gpu_runs_its_own_kernels() -> None:
    mixed = pt.Cluster.mixed([pt.clusters.load("dgx1-v100"), pt.clusters.load("dgx-h100")])
    graph = compile_tree(SMALL.parallelize(dp=8, pp=2, global_batch=64), mixed)
    assert sorted(framework.attention for framework in graph.frameworks.values()) == ["cudnn", "fused_softmax"]
    assert graph.framework.attention == "fused_softmax"  # memory is planned for the GPU that keeps the scores
    assert any(note.startswith("memory: attention scores") for note in graph.notes)
