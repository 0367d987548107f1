"""A change changes what it names and nothing else; what gives way is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import proteus as pt
from proteus.mesh import Mesh
from proteus.strategy import NodeConfig, StrategyTree
from proteus.strategy.config import Stage
from proteus.strategy.plan import specs
from proteus_widgets import Session
from proteus_widgets.changes import changed, edited, moved

LLAMA, TINY, MOE = (pt.models.load(name) for name in ("llama3-8b", "tiny-llama", "tiny-moe"))
BOX = pt.clusters.load("dgx-a100")
#: a value of every field that is not its default, and what else must be said for it
SAID: dict[str, dict[str, Any]] = {
    "dp": {"dp": "fill"},
    "tp": {"tp": 2},
    "pp": {"pp": 2},
    "cp": {"cp": 2},
    "ep": {"ep": 2, "dp": 2},
    "etp": {"etp": 1, "tp": 2},
    "shard": {"shard": 2, "zero": 3, "dp": 4},
    "num_devices": {"num_devices": 4, "dp": "fill"},
    "seq": {"seq": 8},
    "micro_batch": {"micro_batch": 2},
    "global_batch": {"global_batch": 64},
    "schedule": {"schedule": "gpipe"},
    "virtual_stages": {"virtual_stages": 2},
    "max_in_flight": {"max_in_flight": 2},
    "layers_per_stage": {"layers_per_stage": (3, 1), "pp": 2},
    "pipeline_cut": {"pipeline_cut": "layers", "pp": 2},
    "zero": {"zero": 2},
    "sequence_parallel": {"sequence_parallel": True, "tp": 2},
    "recompute": {"recompute": "full"},
    "recompute_layers": {"recompute_layers": 1, "recompute": "full"},
    "recompute_modules": {"recompute_modules": ("norm",)},
    "offload": {"offload": ("optimizer",)},
    "context": {"context": "ring", "cp": 2},
    "bucket_bytes": {"bucket_bytes": 25e6},
    "overlap_gradients": {"overlap_gradients": False},
    "overlap_parameters": {"overlap_parameters": True},
    "overlap_tensor": {"overlap_tensor": "all", "tp": 2},
    "overlap_experts": {"overlap_experts": True},
    "overlap_steps": {"overlap_steps": True},
    "precision": {"precision": "fp16"},
    "optimizer": {"optimizer": "sgd"},
    "framework": {"framework": "torchtitan"},
    "attention": {"attention": "unfused"},
    "compile": {"compile": True},
    "cuda_graphs": {"cuda_graphs": True},
    "pad_vocab": {"pad_vocab": 128},
    "lora": {"lora": 4},
    "lora_targets": {"lora_targets": ("mlp",), "lora": 4},
    "lora_dropout": {"lora_dropout": 0.1, "lora": 4},
    "lora_base": {"lora_base": "nf4", "lora": 4},
    "freeze": {"freeze": ("embedding",)},
}


def by_hand(model: pt.Model = TINY, ranks: int = 2) -> StrategyTree:
    mesh = Mesh((("dp", ranks),))
    stage = Stage(blocks=(0, model.num_blocks), rank=0, mesh=mesh, first_device=0)
    tree = StrategyTree(model).with_mesh(mesh, (stage,)).set("", partition={"batch": ("dp",)})
    return tree.with_training(global_batch=8)


def test_every_field_is_tried_below() -> None:
    assert sorted(SAID) == sorted(specs())


@pytest.mark.parametrize("name", SAID)
def test_what_was_said_stays(name: str, tmp_path: Path) -> None:
    model = MOE if name in ("ep", "etp", "overlap_experts") else TINY
    said = SAID[name]
    session = Session(StrategyTree(model).parallelize(**{"global_batch": 32, **said}), BOX)
    begun, tree, value = session.plan, session.tree, session.decided.value(name)
    other = ("precision", "bf16") if name == "optimizer" else ("optimizer", "sgd-plain")

    def kept() -> bool:
        assert session.plan is not None and session.error == ""
        return getattr(session.plan, name) == said[name] and session.decided.value(name) == value

    assert session.change(**{other[0]: other[1]}) and kept(), session.error
    assert session.plan == begun.changed(**{other[0]: other[1]})  # type: ignore[union-attr]
    assert session.edit("layers.0-0.attention", "recompute", "full") and kept(), session.error
    assert session.undo() and session.undo() and kept() and session.tree == tree and session.plan == begun
    assert session.redo() and session.redo() and kept()
    session.save(tmp_path / "x.yaml")
    again = Session.load(tmp_path / "x.yaml")
    assert (again.plan, again.tree, again.moment.edits) == (session.plan, session.tree, session.moment.edits)
    assert again.decided.value(name) == value


def test_a_change_of_zero_drops_nothing() -> None:
    said = {
        "dp": 8, "tp": 2, "global_batch": 64, "framework": "torchtitan", "overlap_gradients": False,
        "bucket_bytes": 25e6, "max_in_flight": 3, "attention": "unfused", "layers_per_stage": (32,),
    }  # fmt: skip
    session = Session(StrategyTree(LLAMA).parallelize(**said), pt.clusters.load("dgx-a100", nodes=2))
    assert session.change(zero=1)
    assert session.plan is not None and session.plan.said == {**session.plan.changed(**said).said, "zero": 1}
    assert session.tree.training.framework.text.startswith("torchtitan")


VALUES: dict[str, list[Any]] = {
    "dp": [1, 2, 4, 8, "fill"],
    "tp": [1, 2, 3],
    "pp": [1, 2, 4],
    "global_batch": [7, 8, 16, None],
    "micro_batch": [1, 2],
    "schedule": ["1f1b", "gpipe", "interleaved", None],
    "virtual_stages": [1, 2, None],
    "zero": [0, 1, 3],
    "framework": ["torchtitan", None],
    "recompute": ["full", None],
}
STEPS = st.lists(
    st.sampled_from([(name, value) for name, values in VALUES.items() for value in values]), min_size=1, max_size=6
)


@settings(deadline=None, max_examples=40)
@given(STEPS)
def test_the_strategy_does_not_depend_on_the_path(steps: list[tuple[str, Any]]) -> None:
    session = Session(StrategyTree(TINY).parallelize(dp="fill", global_batch=16), BOX)
    said = {"dp": "fill", "global_batch": 16}
    for name, value in steps:
        if session.change(**{name: value}):
            said[name] = value
        else:
            assert session.error
    straight = StrategyTree(TINY).parallelize(**said).on_devices(BOX.num_devices)
    assert session.tree == straight and session.plan == straight.plan
    assert dict(session.decided) == dict(straight.decided)


def test_a_batch_that_does_not_divide_is_refused_with_the_nearest() -> None:
    cluster = pt.clusters.load("dgx-a100", nodes=4)
    session = Session(StrategyTree(LLAMA).parallelize(dp=4, tp=4, pp=2, global_batch=64), cluster)
    assert not session.change(global_batch=7)
    assert "nearest: 4 or 8" in session.error and session.decided.value("dp") == 4
    assert session.change(global_batch=128)
    other = Session(StrategyTree(LLAMA).parallelize(dp=4, tp=4, pp=2, global_batch=64), cluster)
    assert other.change(global_batch=128)
    assert session.tree == other.tree and session.result.idle_devices == 0


def test_fill_follows_in_silence_and_a_number_stays() -> None:
    two, four = (pt.clusters.load("dgx-a100", nodes=n) for n in (2, 4))
    session = Session(StrategyTree(LLAMA).parallelize(dp="fill", tp=8, global_batch=64), two)
    assert session.decided.value("dp") == 2
    assert session.change(cluster=four)
    assert session.decided.value("dp") == 4 and session.outcome is not None and session.outcome.moment.notes == ()
    assert session.change(tp=4) and session.decided.value("dp") == 8
    assert session.change(dp=2) and session.change(tp=8) and session.decided.value("dp") == 2
    assert session.result.idle_devices == 16
    assert session.change(dp="fill") and session.decided.value("dp") == 4


def test_fill_carries_experts_before_its_devices_are_known() -> None:
    tree = StrategyTree(MOE).parallelize(dp="fill", ep=4, global_batch=16)
    assert tree.decided.value("dp") == 4
    session = Session(tree, BOX)
    assert session.decided.value("dp") == 8
    assert session.change(dp=4) and session.change(dp="fill") and session.decided.value("dp") == 8


def test_degrees_that_another_cluster_cannot_carry_give_way_and_are_told() -> None:
    tree = StrategyTree(LLAMA).parallelize(
        dp=4, tp=4, pp=2, global_batch=64, zero=1, framework="torchtitan", bucket_bytes=25e6, layers_per_stage=(15, 17)
    )
    new, notes = moved(tree, {}, None, BOX)
    assert new.plan == tree.plan.changed(dp=1)  # type: ignore[union-attr]
    assert notes == ("data 4 → 1: needs 32 GPUs, the cluster has 8",)
    new, notes = moved(tree, {}, None, BOX.with_nodes(4))
    assert (new, notes) == (tree, ())


def test_another_model_keeps_what_it_can_carry() -> None:
    tree = StrategyTree(LLAMA).parallelize(dp=2, tp=2, pp=2, global_batch=64, zero=2, layers_per_stage=(15, 17))
    tree = tree.set("layers.0-5", recompute="full").set("layers.20-31.mlp", recompute="full")
    new, notes = moved(tree, {"zero": 1}, pt.models.load("gpt-1.5b"), BOX)  # 25 heads, 48 layers
    assert new.plan is not None and new.plan.said == {"dp": 2, "tp": 1, "pp": 2, "global_batch": 64, "zero": 1}
    assert [note.partition(": ")[0] for note in notes] == ["tensor 2 → 1", "layers per stage 15,17 → not set"]
    assert len(new.edits) == 2
    new, notes = moved(tree, {}, pt.models.load("gpt2"), BOX)  # 12 layers
    assert [path for path, _ in new.edits] == ["layers.0-5"] and "layers.20-31.mlp dropped" in notes[-1]


@pytest.mark.parametrize("name", ["tiny-llama", "gpt-1.5b", "resnet50", "gpt2", "tiny-moe", "dlrm"])
@pytest.mark.parametrize("nodes", [1, 3])
def test_every_model_finds_a_strategy_that_fits(name: str, nodes: int) -> None:
    cluster = BOX.with_nodes(nodes)
    tree = StrategyTree(pt.models.load("mixtral-8x7b")).parallelize(
        dp="fill", tp=4, pp=4, ep=8, cp=2, zero=2, sequence_parallel=True, virtual_stages=4, shard=2, global_batch=64
    )
    new, notes = moved(tree, {}, pt.models.load(name), cluster)
    assert new.num_devices <= cluster.num_devices and notes
    assert new.training.global_batch == 64 and new.decided.value("zero") == 2


def test_an_edit_that_would_not_fit_refuses_the_change() -> None:
    tree = StrategyTree(TINY).parallelize(dp=2, cp=2, global_batch=4)
    tree = tree.set("layers.0-0.mlp", partition={"seq": ()}).set("layers.0-0.attention", partition={"batch": "cp"})
    with pytest.raises(pt.StrategyError, match=r"an edit does not fit: layers.0-0.attention: batch: mesh axis 'cp'"):
        changed(tree, {"cp": 1})


def test_edits_are_taken_back() -> None:
    tree = StrategyTree(TINY).parallelize(dp=2, recompute="full", global_batch=4)
    path = "layers.0-0"
    new = edited(tree, path, "recompute", "none")
    assert new.edits == ((path, NodeConfig(recompute="none")),)
    assert edited(new, path, "recompute", "") == tree and edited(new, path, "recompute", "").edits == ()
    hand = by_hand()
    new = edited(edited(hand, path, "recompute", "full"), path, "frozen", "frozen")
    assert dict(new.configs)[path] == NodeConfig(recompute="full", frozen=True)
    assert edited(edited(new, path, "frozen", ""), path, "recompute", "") == hand


def test_an_edit_that_changes_nothing_is_refused_and_one_that_does_no_longer_stays() -> None:
    session = Session(StrategyTree(LLAMA).parallelize(tp=8, global_batch=8), BOX)
    assert not session.edit("layers.0-15.mlp.fc2", "partition.hidden", "tp")
    assert "layers.0-15.mlp.fc2" in session.error and "would change nothing" in session.error
    path = "layers.0-15.mlp.gate_up"
    assert session.edit(path, "partition.ffn", "-") and session.change(tp=1), session.error
    assert session.edit(path, "recompute", "full"), session.error
    assert dict(session.moment.edits)[path] == NodeConfig(partition={"ffn": ()}, recompute="full")


def test_a_tree_built_by_hand_keeps_its_degrees(tmp_path: Path) -> None:
    session = Session(by_hand(), BOX)
    assert session.plan is None and session.decided.value("dp") == 2
    for changes in ({"dp": 4}, {"tp": 2}, {"zero": 1}, {"precision": None}, {"virtual_stages": "max"}):
        assert not session.change(**changes)
        assert next(iter(changes)) in session.error
    assert not session.change(model=LLAMA) and "built by hand" in session.error
    assert not session.change(precision="bf17") and "nearest: bf16" in session.error
    assert session.change(precision="fp16", framework="torchtitan", max_in_flight=3)
    assert session.tree.training.precision == "fp16" and session.tree.schedule.max_in_flight == 3
    assert session.tree.training.framework.text.startswith("torchtitan")
    assert session.edit("layers.0-0.attention", "recompute", "full")
    assert session.change(max_in_flight=None) and session.tree.mesh == Mesh((("dp", 2),))
    session.save(tmp_path / "hand.yaml")
    assert Session.load(tmp_path / "hand.yaml").tree == session.tree
    assert session.change(cluster=BOX.with_nodes(2))


@pytest.mark.parametrize("name", sorted(specs()))
@pytest.mark.parametrize("value", [None, 2, -1, 2.5, True, "max", "nonsense", (), [1, 2], float("nan"), object()])
def test_no_value_is_a_bare_error(name: str, value: object) -> None:
    for session in SESSIONS:
        session.change(**{name: value})
        while session.undo():
            pass


SESSIONS = [Session(StrategyTree(TINY).parallelize(dp=2, global_batch=8), BOX), Session(by_hand(), BOX)]
