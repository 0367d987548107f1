"""The whole path, from names and files to a result: whatever goes in, an answer that adds up or one clear refusal."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import proteus as pt
from proteus.cli import main
from proteus.errors import ProteusError
from proteus.mesh import Mesh
from proteus.strategy.config import Stage
from proteus.strategy.schedule import SCHEDULES

MODELS = ("tiny-llama", "tiny-moe", "tiny-cnn", "tiny-dlrm", "gpt2", "bert-base", "resnet50")
CLUSTERS = ("dgx-a100", "dgx1-v100", "hc1", "pcie-8x-a40", "mi300x", "dgx-h100:2")
ANY_OF = {
    "dp": [1, 2, 4, 3],
    "tp": [1, 2, 4],
    "pp": [1, 2, 4],
    "cp": [1, 1, 2],
    "ep": [1, 1, 2],
    "zero": [0, 1, 2, 3],
    "sequence_parallel": [False, True],
    "recompute": ["none", "selective", "full"],
    "schedule": sorted(SCHEDULES),
    "micro_batch": [1, 2],
    "precision": ["bf16", "fp16", "fp32"],
    "optimizer": ["adam", "sgd"],
    "framework": ["megatron-core", "ddp", "deepspeed"],
    "offload": [(), (), ("optimizer",), ("parameter", "activation")],
    "overlap_gradients": [True, False],
    "overlap_steps": [False, True],
}


@st.composite
def settings_of_a_run(draw: st.DrawFn) -> dict[str, Any]:
    found = {name: draw(st.sampled_from(values)) for name, values in ANY_OF.items()}
    if found["schedule"] == "interleaved":
        found["virtual_stages"] = 2
    micro_batches = 2 * found["pp"] * draw(st.sampled_from([1, 2]))
    return {**found, "global_batch": found["micro_batch"] * found["dp"] * micro_batches}


def strategy(name: str, **settings: Any) -> pt.StrategyTree:
    return pt.StrategyTree(pt.models.load(name)).parallelize(**settings)


@settings(max_examples=60)
@given(st.sampled_from(MODELS), st.sampled_from(CLUSTERS), settings_of_a_run())
def test_any_strategy_adds_up_or_is_refused(name: str, where: str, chosen: dict[str, Any]) -> None:
    cluster = pt.clusters.load(where)
    try:
        tree = strategy(name, **chosen)
        result = pt.simulate(tree, cluster)
    except ProteusError as refusal:
        assert str(refusal)
        return
    step_s = result.step_time_s
    assert 0 < step_s < math.inf
    assert 0 < result.mfu < 1
    for device in result.devices:
        whole = device.busy_s + device.exposed_comm_s + device.idle_s
        assert whole == pytest.approx(step_s, rel=1e-9)
    assert math.fsum(rung.seconds for rung in result.explain().steps) == step_s
    if "parameter" not in chosen["offload"]:
        assert result.peak_memory_bytes >= tree.model.num_params / tree.num_devices
    assert pt.StrategyTree.from_yaml(tree.to_yaml()) == tree
    every_rank = pt.simulate(tree, cluster, fold=False)
    assert every_rank.step_time_s == pytest.approx(step_s, rel=1e-12)
    assert every_rank.peak_memory_bytes == result.peak_memory_bytes


@pytest.mark.parametrize(
    "chosen",
    [
        {"dp": 8, "zero": 1},
        {"dp": 2, "tp": 2, "pp": 2, "sequence_parallel": True},
        {"dp": 4, "pp": 2, "zero": 3},
    ],
)
def test_faster_links_never_slow_a_step_without_sharing_and_overlap(chosen: dict[str, Any]) -> None:
    tree = strategy("gpt2", global_batch=16, **chosen)
    cluster = pt.clusters.load("dgx-a100")
    times_s = [
        pt.simulate(tree, cluster.slow_link("*", fraction), sharing=False, overlap=False).step_time_s
        for fraction in (0.1, 0.5, 0.9, 1.0)
    ]
    assert times_s == sorted(times_s, reverse=True)
    assert times_s[0] > times_s[-1]


@pytest.mark.parametrize("name", ["gpt2", "tiny-moe", "resnet50"])
def test_zero_and_recompute_save_what_they_say(name: str) -> None:
    cluster = pt.clusters.load("dgx-a100")

    def memory(**chosen: Any) -> tuple[float, float]:
        result = pt.simulate(strategy(name, dp=4, global_batch=8, micro_batch=2, **chosen), cluster)
        static = result.memory_over_time[0].static_bytes
        return static, result.memory_over_time[0].peak_bytes

    static = [memory(zero=zero)[0] for zero in range(4)]
    assert static == sorted(static, reverse=True) and static[1] < static[0]
    peaks = [memory(recompute=recompute)[1] for recompute in ("none", "full")]
    assert peaks[1] <= peaks[0]


def columns_with_seed(seed: int) -> bytes:
    program = """
import sys, hashlib, proteus as pt
for name, chosen in (("tiny-moe", dict(dp=4, ep=2, pp=2, zero=2)), ("gpt2", dict(dp=2, tp=2, pp=2, zero=1))):
    tree = pt.StrategyTree(pt.models.load(name)).parallelize(global_batch=16, recompute="selective", **chosen)
    result = pt.simulate(tree, pt.clusters.load("dgx-a100").slow_device(3, 1.3))
    spans = result.spans
    for column in (spans.start_s, spans.duration_s, spans.kind, spans.node, spans.name_id, spans.lane_ptr):
        sys.stdout.write(hashlib.sha256(column.tobytes()).hexdigest())
    sys.stdout.write(repr((spans.lanes, spans.names, tree.to_yaml(), str(result.explain()), result.assumptions)))
"""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True).stdout


def test_equal_bytes_whatever_the_hash_seed() -> None:
    first, second = columns_with_seed(1), columns_with_seed(2)
    assert first == second and len(first) > 1000


# -- stages of their own shape ---------------------------------------------------

SHAPES = [
    ((("dp", 2), ("tp", 2)), (("dp", 2), ("tp", 1))),
    ((("dp", 2), ("tp", 2)), (("dp", 4), ("tp", 1))),
    ((("dp", 1), ("tp", 2)), (("dp", 2), ("tp", 2))),
    ((("dp", 4), ("tp", 1)), (("dp", 1), ("tp", 2))),
]


def two_stages(one: Mesh, two: Mesh, first_blocks: int) -> pt.StrategyTree:
    model = pt.models.load("tiny-llama")
    stages = (
        Stage(blocks=(0, first_blocks), rank=0, mesh=one, first_device=0),
        Stage(blocks=(first_blocks, model.num_blocks), rank=1, mesh=two, first_device=one.size),
    )
    tree = pt.StrategyTree(model).with_mesh(Mesh((("pp", 2), *one.axes)), stages)
    tree = tree.with_training(micro_batch=2, global_batch=16)
    return tree.set("", partition={"batch": ("dp",), "kv_heads": ("tp",), "ffn": ("tp",), "vocab": ("tp",)})


@pytest.mark.parametrize(("one", "two"), SHAPES)
@pytest.mark.parametrize("first_blocks", [1, 3])
def test_stages_of_different_degree_simulate_and_read_back(one: Any, two: Any, first_blocks: int) -> None:
    tree = two_stages(Mesh(one), Mesh(two), first_blocks)
    assert pt.StrategyTree.from_yaml(tree.to_yaml()) == tree
    cluster = pt.clusters.load("dgx-a100")
    result, every_rank = pt.simulate(tree, cluster), pt.simulate(tree, cluster, fold=False)
    assert result.step_time_s == every_rank.step_time_s > 0
    assert {lane.device for lane in every_rank.spans.lanes} == set(range(tree.num_devices))


def test_stages_of_different_degree_train_like_the_undivided_model(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "tree.yaml"
    path.write_text(two_stages(Mesh(SHAPES[1][0]), Mesh(SHAPES[1][1]), 2).to_yaml())
    assert main(["verify", "--tree", str(path), "--json"]) == 0


# -- trees that cannot be ----------------------------------------------------------


def tree_text() -> str:
    return strategy("tiny-gpt", dp=2, tp=2, pp=2, global_batch=8).to_yaml(written_out=True)


def grid(*rows: str) -> tuple[str, str]:
    return "virtual_stages: 1}", "virtual_stages: 1, grid: " + json.dumps("\n".join(rows)) + "}"


#: what is wrong → (what to replace in a good tree, by what, words of the message)
WRONG_TREES: dict[str, tuple[str, str, str]] = {
    "aliases of aliases": ("model: tiny-gpt", "model: &a [x]\nseq: [*a, *a]", "line 2: alias *a"),
    "a field twice": ("mesh: {pp: 2, dp: 2,", "mesh: {pp: 2, dp: 2, dp: 4,", "mesh.dp is given twice"),
    "unknown node": ("  model:\n", "  layers.0.nope: {recompute: full}\n  model:\n", "unknown tree node"),
    "wrong degree": ("mesh: {pp: 2, dp: 2,", "mesh: {pp: 2, dp: 0,", "whole number of at least 1, found 0"),
    "other pipeline degree": ("mesh: {pp: 2,", "mesh: {pp: 4,", "the stages are on 2 pipeline ranks"),
    "devices twice": ("first_device: 4", "first_device: 2", "let stage 1 begin at device 4"),
    "devices left out": ("first_device: 0", "first_device: 8", "leaves devices 0 to 3 without a stage"),
    "devices beyond the cluster": ("mesh: {pp: 2, dp: 2,", "mesh: {pp: 2, dp: 64,", "has 16; lower a degree"),
    "chunks of another schedule": ("name: 1f1b", "name: zb-v", "has 4 chunks, the strategy 2 stages"),
    "an axis twice": ("batch: [dp]", "batch: [dp, dp]", "an axis cuts one dim"),
    "no number": ("bucket_bytes: 160000000.0", "bucket_bytes: .nan", "it must be a finite number above 0"),
    "deadlock": (*grid("0F0 0B0 0F1 0B1 0F2 0F3 0B2 0B3", "1F1 1F0 1B0 1B1 1F2 1B2 1F3 1B3"), "deadlock: rank 0"),
    "rows in another order": (
        *grid("1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3", "0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3"),
        "must be 1, 0",
    ),
}


@pytest.mark.parametrize("name", WRONG_TREES)
def test_a_wrong_tree_is_one_line_and_exit_2(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new, words = WRONG_TREES[name]
    text = tree_text()
    assert old in text
    path = tmp_path / "tree.yaml"
    path.write_text(text.replace(old, new, 1))
    assert main(["simulate", "--tree", str(path), "--cluster", "dgx-a100:2", "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert words in err


def test_stages_against_the_order_of_the_schedule_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        tree_text()
        .replace("  rank: 0", "  rank: x")
        .replace("  rank: 1", "  rank: 0")
        .replace("  rank: x", "  rank: 1")
    )
    path = tmp_path / "tree.yaml"
    path.write_text(text)
    assert main(["simulate", "--tree", str(path), "--cluster", "dgx-a100"]) == 2
    err = capsys.readouterr().err
    assert "stage 0 is on pipeline rank 1, schedule 1f1b runs it on rank 0" in err and err.count("\n") == 1


# -- numbers no machine has ----------------------------------------------------------

GPT2 = ("simulate", "--model", "gpt2", "--cluster", "dgx-a100")
HUGE = "99999999999999999999"
FLAGS = ("--dp", "--tp", "--pp", "--cp", "--ep", "--global-batch", "--virtual-stages", "--zero", "--seq", "--nodes")


@pytest.mark.parametrize(("flag", "value"), [*itertools.product(FLAGS, (HUGE, "-1", "nan", "")), ("--trace", "")])
def test_an_impossible_number_is_refused(flag: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GPT2, f"{flag}={value}", "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1


def test_a_model_larger_than_any_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_positions": 64, "vocab_size": 100}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config | {"n_layer": 10**30}))
    assert main(["simulate", "--model", str(path), "--cluster", "dgx-a100"]) == 2
    assert "layers" in capsys.readouterr().err


@pytest.mark.parametrize(
    "fault", ["--slow-device=0=1e-300", "--slow-device=0=1e30", "--slow-link=host0/gpu0->*=1e-300"]
)
def test_a_fault_out_of_all_proportion_is_refused(fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GPT2, fault]) == 2
    assert "it must be from" in capsys.readouterr().err


def test_a_long_line_is_no_topology(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "topo.txt"
    path.write_text("GPU0 " * 100_000)
    assert main(["cluster", str(path)]) == 2
    assert "no topology found" in capsys.readouterr().err


def test_hosts_on_plain_ethernet_simulate() -> None:
    cluster = pt.clusters.load("hc1", nodes=2, fabric=pt.cluster.Fabric(family="ethernet"))
    assert np.isfinite(pt.simulate(strategy("gpt2", dp=16, global_batch=16), cluster).step_time_s)
