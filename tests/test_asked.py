"""What is simulated is what was asked: questions whose answer once was that of another question."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import proteus as pt
from proteus import frameworks
from proteus.cli import main
from proteus.units import GiB


def step_s(model: str, cluster: pt.Cluster, **plan: Any) -> float:
    return pt.simulate(pt.StrategyTree(pt.models.load(model)).parallelize(**plan), cluster).step_time_s


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["simulate", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("model", ["resnet50", "inception-v3"])
def test_ddp_hides_its_reductions_in_buckets_of_its_own(model: str) -> None:
    cluster = pt.clusters.load("hc1")
    recipe = {"dp": 8, "micro_batch": 32, "global_batch": 256, "framework": "ddp", "precision": "fp32"}
    hidden = step_s(model, cluster, **recipe, overlap_gradients=True)
    after = step_s(model, cluster, **recipe, overlap_gradients=False)
    megatron_buckets = step_s(model, cluster, **recipe, overlap_gradients=True, bucket_bytes=160e6)
    assert hidden < 0.95 * after
    assert hidden < 0.97 * megatron_buckets
    assert hidden < step_s(model, cluster, **recipe, zero=3)  # sharding parameters pays with communication


def test_a_kernel_that_a_gpu_cannot_run_is_replaced_and_named() -> None:
    tree = pt.StrategyTree(pt.models.load("gpt-1.5b")).parallelize(dp=8, micro_batch=1, global_batch=8)
    old, new = (pt.simulate(tree, pt.clusters.load(name)) for name in ("hc2", "dgx-a100"))
    assert old.plan["attention"].value == "fused_softmax" and new.plan["attention"].value == "flash2"
    assert any("fused_softmax instead of flash2" in line for line in old.assumptions)
    assert old.peak_memory_bytes > new.peak_memory_bytes + 2 * GiB
    with pytest.raises(pt.ProteusError, match="flash2"):
        pt.simulate(tree.change(attention="flash2"), pt.clusters.load("hc2"))


def test_a_config_without_a_length_trains_on_4096_tokens_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {
        "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1024, "max_position_embeddings": 131072,
        "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    found = answer(capsys, "--model", str(path), "--cluster", "dgx-a100")
    assert found["plan"]["seq"] == 4096 and any("4096" in line or "4,096" in line for line in found["assumptions"])
    said = answer(capsys, "--model", str(path), "--cluster", "dgx-a100", "--seq", "8192")
    assert said["plan"]["seq"] == 8192 and said["plan_origins"]["seq"] == "you"


def test_text_and_json_say_what_was_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--model", "gpt2", "--cluster", "dgx-h100:8", "--tp", "2", "--zero", "1", "--dp", "2"]
    found = answer(capsys, *asked)
    assert found["idle_devices"] == 60 and found["plan"]["zero"] == 1 and found["plan"]["micro_batch"] == 1
    assert any("60 of 64 devices are idle" in line for line in found["assumptions"])
    assert main(["simulate", *asked]) == 0
    text = capsys.readouterr().out
    first = text.splitlines()[0]
    for words in (
        "gpt2", "seq 1024", "global batch 2", "micro-batch 1", "dp 2 × tp 2", "ZeRO 1", "recompute none",
        "megatron-core", "4 of 64 devices",
    ):  # fmt: skip
        assert words in first and words in found["headline"]
    assert "WARNING" in text and "60 of 64 devices are idle" in text and "none was named" in text


def test_another_gpu_brings_its_links() -> None:
    h100, h800 = (pt.clusters.load("dgx-h100", nodes=2, gpu=gpu) for gpu in (None, "h800"))
    recipe = {"tp": 8, "global_batch": 2, "dp": 2}
    assert step_s("llama3-8b", h800, **recipe) > 1.05 * step_s("llama3-8b", h100, **recipe)
    assert pt.clusters.load("pcie-8x-rtx4090", gpu="rtx-5090").gpu().name == "rtx-5090"


def test_values_of_ones_own_are_simulated() -> None:
    cluster = pt.clusters.load("dgx-a100")
    gpu = cluster.gpu()
    mine = cluster.with_gpu(replace(gpu, name="x100", memory_Bps=2 * gpu.memory_Bps))
    assert step_s("gpt2", mine, dp=8) < step_s("gpt2", cluster, dp=8)
    slow = frameworks.load("ddp").but(op_s=1e-3)
    assert step_s("gpt2", cluster, dp=8, framework=slow) > step_s("gpt2", cluster, dp=8, framework="ddp")


def test_trees_are_equal_by_content_and_files_keep_what_was_changed() -> None:
    short, long = (
        pt.StrategyTree(pt.models.load("gpt2", layers=4, seq=seq)).parallelize(dp=2, tp=2) for seq in (512, 1024)
    )
    assert short != long and hash(short) != hash(long)
    again = pt.StrategyTree.from_yaml(short.to_yaml())
    assert again == short and again.model.num_params == short.model.num_params
    assert short.change(seq=1024) == long


def test_brackets_keep_no_reader_busy() -> None:
    with pytest.raises(pt.InputError, match="nested"):  # by the depth, before the parser has read on
        pt.StrategyTree.from_yaml("model: " + "[" * 20_000)
