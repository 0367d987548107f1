"""No input of the public API ends in a bare Python error: each is taken or refused by a ProteusError."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import proteus as pt
from proteus.errors import ProteusError

HF = Path(__file__).parent / "data" / "hf" / "gpt2.json"
MODEL = pt.models.load("tiny-llama")
CLUSTER = pt.clusters.load("dgx-a100")
TREE = pt.StrategyTree(MODEL).parallelize(dp=2, tp=2)
RESULT = pt.simulate(TREE, CLUSTER)
#: what users pass by mistake; no number that a search would take its time with
JUNK: tuple[Any, ...] = (
    None, True, -1, 0, 3.5, math.nan, math.inf, "", "x", "dgx-a100", "gpt2", b"a", [], [1], ["a"], {}, {"a": 1},
    object, (1, 2), lambda: 0, 1j,
)  # fmt: skip
CALLS: dict[str, Callable[[Any], object]] = {
    "models.load(x)": lambda x: pt.models.load(x),
    "models.load(seq)": lambda x: pt.models.load("tiny-llama", seq=x),
    "models.load(layers)": lambda x: pt.models.load("tiny-llama", layers=x),
    "models.load(hidden)": lambda x: pt.models.load("tiny-llama", hidden=x),
    "models.load(heads)": lambda x: pt.models.load("tiny-llama", heads=x),
    "models.load(cnn layers)": lambda x: pt.models.load("tiny-cnn", batch=x),
    "clusters.load(x)": lambda x: pt.clusters.load(x),
    "clusters.load(nodes)": lambda x: pt.clusters.load("dgx-a100", nodes=x),
    "clusters.load(gpu)": lambda x: pt.clusters.load("dgx-a100", gpu=x),
    "slow_device0": lambda x: CLUSTER.slow_device(x, 2.0),
    "slow_device1": lambda x: CLUSTER.slow_device(0, x),
    "slow_link0": lambda x: CLUSTER.slow_link(x, 0.5),
    "slow_link1": lambda x: CLUSTER.slow_link("*nic*", x),
    "without_nic0": lambda x: CLUSTER.without_nic(x, 0),
    "without_nic1": lambda x: CLUSTER.without_nic(0, x),
    "with_nodes": lambda x: CLUSTER.with_nodes(x),
    "with_gpu": lambda x: CLUSTER.with_gpu(x),
    "mixed": lambda x: pt.Cluster.mixed(x),
    "nccl": lambda x: pt.Cluster.from_nccl_xml(x),
    "smi": lambda x: pt.Cluster.from_smi_topo(x),
    "load_file": lambda x: pt.Cluster.load_file(x),
    "calibrate": lambda x: CLUSTER.calibrate(x),
    "calibrate1": lambda x: CLUSTER.calibrate([(TREE, x)]),
    "gpu": lambda x: CLUSTER.gpu(x),
    "tree": lambda x: pt.StrategyTree(x),
    "set0": lambda x: TREE.set(x, recompute="full"),
    "set part": lambda x: TREE.set("layers", partition=x),
    "set part1": lambda x: TREE.set("layers", partition={"ffn": x}),
    "set mem": lambda x: TREE.set("layers", memory=x),
    "set mem1": lambda x: TREE.set("layers", memory={"optimizer": x}),
    "set rec": lambda x: TREE.set("layers", recompute=x),
    "set exch": lambda x: TREE.set("layers", exchange=x),
    "set frozen": lambda x: TREE.set("layers", frozen=x),
    "unset": lambda x: TREE.unset(x),
    "getitem": lambda x: TREE[x],
    "with_training": lambda x: TREE.with_training(micro_batch=x),
    "with_schedule": lambda x: TREE.with_schedule(grid=x),
    "with_schedule n": lambda x: TREE.with_schedule(name=x),
    "with_schedule hand": lambda x: pt.StrategyTree(MODEL).with_schedule(name=x),
    "with_training hand": lambda x: pt.StrategyTree(MODEL).with_training(micro_batch=x),
    "with_mesh": lambda x: TREE.with_mesh(x, TREE.stages),
    "with_mesh1": lambda x: TREE.with_mesh(TREE.mesh, x),
    "from_yaml": lambda x: pt.StrategyTree.from_yaml(x),
    "from_yaml m": lambda x: pt.StrategyTree.from_yaml("model: tiny-llama", model=x),
    "diff": lambda x: TREE.diff(x),
    "on": lambda x: TREE.on(x),
    "simulate0": lambda x: pt.simulate(x, CLUSTER),
    "simulate1": lambda x: pt.simulate(TREE, x),
    "simulate alg": lambda x: pt.simulate(TREE, CLUSTER, algorithm=x),
    "simulate cal": lambda x: pt.simulate(TREE, CLUSTER, calibration=x),
    "simulate fold": lambda x: pt.simulate(TREE, CLUSTER, fold=x),
    "simulate prog": lambda x: pt.simulate(TREE, CLUSTER, progress=x),
    "read_trace": lambda x: pt.read_trace(x),
    "read_trace align": lambda x: pt.read_trace(HF, align=x),
    "search gb": lambda x: pt.search(MODEL, CLUSTER, global_batch=x, budget=1),
    "search m": lambda x: pt.search(x, CLUSTER, global_batch=8, budget=1),
    "search c": lambda x: pt.search(MODEL, x, global_batch=8, budget=1),
    "search top": lambda x: pt.search(MODEL, CLUSTER, global_batch=8, budget=1, top=x),
    "search budget": lambda x: pt.search(MODEL, CLUSTER, global_batch=8, budget=x),
    "search sched": lambda x: pt.search(MODEL, CLUSTER, global_batch=8, budget=1, schedules=x),
    "search prec": lambda x: pt.search(MODEL, CLUSTER, global_batch=8, budget=1, precision=x),
    "search workers": lambda x: pt.search(MODEL, CLUSTER, global_batch=8, budget=1, workers=x),
    "from_hf": lambda x: pt.from_hf(x),
    "from_hf seq": lambda x: pt.from_hf(HF, seq=x),
    "lora": lambda x: pt.with_lora(MODEL, x),
    "lora1": lambda x: pt.Lora(rank=x),
    "lora2": lambda x: pt.with_lora(MODEL, pt.Lora(rank=4, targets=x)),
    "lora3": lambda x: pt.with_lora(MODEL, pt.Lora(rank=4, dropout=x)),
    "memory": lambda x: pt.Memory(axes=x),
    "memory1": lambda x: pt.Memory(offload=x),
    "mesh": lambda x: pt.Mesh(x),
    "mesh1": lambda x: pt.Mesh((("dp", x),)),
    "shard": lambda x: pt.Shard(x),
    "partial": lambda x: pt.Partial(x),
    "link_use": lambda x: RESULT.link_use(x),
    "mem_by_node": lambda x: RESULT.memory_by_node(x),
    "compare": lambda x: RESULT.compare(x),
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_junk_is_refused_by_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for junk in JUNK:
        try:
            CALLS[name](junk)
        except (ProteusError, OSError) as refused:  # a file that is not there is what the system says
            assert str(refused)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pt.simulate(TREE), "simulate\\(\\): missing a required argument: 'cluster'"),
        (lambda: pt.simulate(TREE, CLUSTER, shraing=False), "unexpected keyword argument 'shraing'"),
        (
            lambda: pt.clusters.load("dgx-a100", nodes="2"),
            "nodes='2'; it must be a whole number of at least 1",
        ),
        (lambda: CLUSTER.slow_device(0.5, 2), "slow_device: device=0.5; it must be a whole number of at least 0"),
        (lambda: TREE.with_schedule(max_in_flight=[4, 3]), r"max_in_flight=\[4, 3\]; it must be a whole number"),
    ],
)
def test_the_message_names_call_argument_and_rule(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ProteusError, match=message):
        call()
