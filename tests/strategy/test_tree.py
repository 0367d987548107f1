from __future__ import annotations

import pytest

import proteus as pt
from proteus.errors import StrategyError
from proteus.mesh import Mesh
from proteus.strategy import Memory, NodeConfig, Stage, StrategyTree


@pytest.fixture
def tree() -> StrategyTree:
    return StrategyTree(pt.models.load("tiny-llama")).parallelize(dp=2, tp=2, pp=2, global_batch=8)


def test_a_change_gives_a_new_tree_and_undo_goes_back(tree: StrategyTree) -> None:
    changed = tree.set("layers.1.mlp.fc2", partition={"ffn": ()})
    assert changed != tree
    assert tree.diff(tree) == []
    assert changed.diff(tree) == ["layers.1.mlp.fc2: - → {ffn: -}"]
    assert changed.undo() is tree
    assert changed.unset("layers.1.mlp.fc2") == tree


def test_runs_group_equal_copies_and_split_where_they_differ(tree: StrategyTree) -> None:
    assert [(run.path, run.chunk) for run in tree.runs()] == [
        ("embedding", 0),
        ("layers.0-1", 0),
        ("layers.2-3", 1),
        ("head", 1),
    ]
    changed = tree.set("layers.2", recompute="full")
    assert [run.path for run in changed.runs()] == ["embedding", "layers.0-1", "layers.2", "layers.3", "head"]
    # the same config on all copies is no reason to split
    assert [run.path for run in tree.set("layers.*", recompute="full").runs()] == [run.path for run in tree.runs()]


def test_the_nearest_node_that_speaks_wins(tree: StrategyTree) -> None:
    changed = tree.set("layers.*.mlp", partition={"ffn": ()}).set("layers.*.mlp.fc2", partition={"ffn": ("tp",)})
    run = changed.runs()[1]
    ops = {op.name: run.config(op) for op in run.block.ops}
    assert (ops["mlp.fc2"].partition or {})["ffn"] == ("tp",)
    assert (ops["mlp.gate_up"].partition or {})["ffn"] == ()
    assert (ops["attention.qkv"].partition or {})["kv_heads"] == ("tp",)


def test_selection_lists_and_sets(tree: StrategyTree) -> None:
    selection = tree["layers.*.attention.qkv"]
    assert selection.paths == ["layers.0-1.attention.qkv", "layers.2-3.attention.qkv"]
    assert tree["layers.3"].paths[0].startswith("layers.2-3.")
    changed = selection.set(memory={"parameter": Memory(axes=("dp",))})
    assert "parameter=S(dp)" in repr(changed["layers.*.attention.qkv"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"selector": "layers.*.mlp.fc9", "recompute": "full"}, "unknown tree node"),
        ({"selector": "layers.9", "recompute": "full"}, "unknown tree node"),
        ({"selector": "layers.*.mlp.fc2", "partition": {"ffn": "zz"}}, "mesh axis 'zz' does not exist; axes: dp, tp"),
        ({"selector": "layers.*.mlp.fc2", "partition": {"heads": "tp"}}, "no op here has a dim 'heads'"),
        (
            {"selector": "layers.*.mlp.fc2", "partition": {"ffn": "tp", "hidden": "tp"}},
            "axis 'tp' cuts ffn and hidden; an axis cuts one dim of an op",
        ),
        ({"selector": "layers.*.mlp.norm", "partition": {"hidden": "tp"}}, "needs the whole of hidden"),
        ({"selector": "", "memory": {"gradient": Memory(axes=("xp",))}}, "gradient: mesh axis 'xp' does not exist"),
        ({"selector": "", "recompute": "some"}, "choose from none, selective, full"),
    ],
)
def test_impossible_changes_are_refused(tree: StrategyTree, change: dict[str, object], message: str) -> None:
    with pytest.raises(StrategyError, match=message):
        tree.set(**change)  # type: ignore[arg-type]


def test_stages_must_cover_the_chain_in_order(tree: StrategyTree) -> None:
    mesh = Mesh((("dp", 1),))
    with pytest.raises(StrategyError, match="expected to begin at 2"):
        tree.with_mesh(
            mesh,
            (
                Stage(blocks=(0, 2), rank=0, mesh=mesh, first_device=0),
                Stage(blocks=(3, 6), rank=1, mesh=mesh, first_device=1),
            ),
        )
    with pytest.raises(StrategyError, match="end at block 2, the model has 6"):
        tree.with_mesh(mesh, (Stage(blocks=(0, 2), rank=0, mesh=mesh, first_device=0),))


def test_rows_mirror_the_module_hierarchy(tree: StrategyTree) -> None:
    rows = tree.rows()
    assert rows[0].kind == "model"
    assert rows[0].parent == -1
    by_path = {row.path: row for row in rows if row.path}
    qkv = by_path["layers.0-1.attention.qkv"]
    assert rows[qkv.parent].path == "layers.0-1.attention"
    assert rows[rows[qkv.parent].parent].count == 2
    assert qkv.partition == "batch:dp kv_heads:tp"
    assert [row.id for row in rows] == list(range(len(rows)))
    ids = tree.node_ids()
    assert rows[ids[("head", "loss.pick")]].path == "head.loss.pick"


def test_other_edits_take_the_place_of_those_that_were_made() -> None:
    plain = StrategyTree(pt.models.load("tiny-llama")).parallelize(dp=2, tp=2, global_batch=4)
    tree = plain.set("layers.0", recompute="full").set("layers.1", recompute="full")
    assert tree.with_edits(()) == plain and tree.with_edits(()).undo() is tree
    assert tree.with_edits(tree.edits[:1]) == plain.set("layers.0", recompute="full")
    with pytest.raises(StrategyError, match=r"an edit does not fit: layers\.9"):
        tree.with_edits([("layers.9", NodeConfig(recompute="full"))])
    with pytest.raises(StrategyError, match="built by hand"):
        StrategyTree(plain.model).with_edits(())


def test_a_tree_remembers_the_devices_for_a_later_fill() -> None:
    tree = StrategyTree(pt.models.load("tiny-llama")).parallelize(dp=2, tp=2, global_batch=16).on_devices(16)
    assert tree.decided.value("dp") == 2 and tree.change(dp="fill").decided.value("dp") == 8
    alone = tree.change(tp=1).without_history()
    assert alone.undo() is alone and alone == tree.change(tp=1) and alone.plan == tree.change(tp=1).plan


def test_fill_without_devices_carries_experts_and_shards() -> None:
    tree = StrategyTree(pt.models.load("tiny-moe"))
    assert tree.parallelize(dp="fill", ep=4).decided.value("dp") == 4
    assert tree.parallelize(dp="fill", ep=2, zero=1, shard=2).decided.value("dp") == 4
    assert tree.parallelize(dp="fill", ep=2, tp=2, etp=1).decided.value("dp") == 1
    with pytest.raises(StrategyError, match="ep=3 does not fit"):
        tree.parallelize(dp="fill", ep=3)


def test_a_node_made_silent_and_told_again_stays_so() -> None:
    plain = pt.StrategyTree(pt.models.load("tiny-llama")).parallelize(dp=2, tp=2, recompute="full")
    edited = plain.unset("layers").set("layers", partition={"ffn": ()})
    again = edited.change(dp=4).change(dp=2)
    assert dict(edited.configs)["layers"].recompute is None
    assert again == edited and again.edits == edited.edits
    assert StrategyTree.from_yaml(edited.to_yaml()) == edited


def test_1f1b_with_virtual_stages_is_told_to_be_interleaved() -> None:
    tree = pt.StrategyTree(pt.models.load("tiny-llama")).parallelize(pp=2, schedule="1f1b", virtual_stages=2)
    assert tree.notes == ("schedule=1f1b with virtual_stages=2 is the interleaved schedule",)
