"""What a node is told changes the compiled graph, or is refused with the reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import proteus as pt
from proteus.errors import StrategyError
from proteus.strategy import Memory, StrategyTree
from proteus.strategy.config import RECOMPUTES, TENSOR_ROLES, NodeConfig
from proteus.strategy.effect import heeds, told_of

CLUSTER = pt.clusters.load("dgx-a100")
TREES = {
    "llama": StrategyTree(pt.models.load("tiny-llama")).parallelize(dp=2, tp=2, global_batch=4),
    "pipeline": StrategyTree(pt.models.load("tiny-llama")).parallelize(dp=2, tp=2, pp=2, zero=1, global_batch=8),
    "context": StrategyTree(pt.models.load("tiny-llama")).parallelize(
        dp=2, cp=2, zero=3, recompute="selective", global_batch=4
    ),
    "experts": StrategyTree(pt.models.load("tiny-moe")).parallelize(dp=2, ep=2, tp=2, global_batch=4),
    "images": StrategyTree(pt.models.load("tiny-cnn")).parallelize(dp=4, global_batch=8),
}


def compiled(tree: StrategyTree) -> tuple[Any, ...]:
    """All that a config can change: every task and its times, and the bytes of every device."""
    result = pt.simulate(tree, CLUSTER)
    memory = [
        (steps.time_s.tobytes(), steps.bytes.tobytes(), steps.owners_at_peak())
        for steps in result.memory_over_time.values()
    ]
    rows = [(row.kind, row.axes, row.size_bytes, row.stream) for row in result.graph.comm_rows]
    return result.timeline.start_s.tobytes(), result.timeline.end_s.tobytes(), memory, rows


def told(tree: StrategyTree, said: dict[str, Any]) -> list[Any]:
    """What every op of every layer that heeds the words of `said` is told in them."""
    kind, value = next(iter(said.items()))
    word = f"{kind}.{next(iter(value))}" if isinstance(value, dict) else kind
    view, config = told_of(word), NodeConfig(**said)
    return [
        view(run.block, op, run.configs[op.name])
        for run in tree.runs()
        for _ in run.copies
        for op in run.block.ops
        if heeds(word, run.block, op, config)
    ]


def selectors(tree: StrategyTree) -> list[str]:
    paths = {""}
    for block in tree.model.blocks:
        head = f"{block.name}.*" if block.indexed else block.name
        paths |= {block.name, *([f"{block.name}.{block.first}"] if block.indexed else [])}
        for op in block.ops:
            parts = op.name.split(".")
            paths |= {".".join([head, *parts[: n + 1]]) for n in range(len(parts))}
    return sorted(paths)


@st.composite
def words(draw: st.DrawFn, tree: StrategyTree) -> dict[str, Any]:
    axes = [name for name, size in tree.stages[0].mesh.axes if size > 1]
    dims = sorted({dim for block in tree.model.blocks for op in block.ops for dim in op.dims})
    some = st.lists(st.sampled_from(axes), unique=True, max_size=2).map(tuple)
    kind = draw(st.sampled_from(["partition", "memory", "recompute", "exchange", "frozen"]))
    if kind == "partition":
        return {kind: {draw(st.sampled_from(dims)): draw(some)}}
    if kind == "memory":
        return {kind: {draw(st.sampled_from(TENSOR_ROLES)): Memory(axes=draw(some), offload=draw(st.booleans()))}}
    values = {"recompute": RECOMPUTES, "exchange": ("all_gather", "ring"), "frozen": (True, False)}
    return {kind: draw(st.sampled_from(values[kind]))}


@pytest.mark.parametrize("name", sorted(TREES))
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_a_node_is_told_changes_the_graph_or_is_refused(name: str, data: st.DataObject) -> None:
    tree = TREES[name]
    selector, fields = data.draw(st.sampled_from(selectors(tree))), data.draw(words(tree))
    try:
        new = tree.set(selector, **fields)
        after = compiled(new)
    except StrategyError as error:
        assert str(error)
        return
    assume(told(tree, fields) != told(new, fields))  # told what it does already: that is no change
    assert after != compiled(tree), f"{selector}: {fields} changes nothing"


@pytest.mark.parametrize(
    ("tree", "selector", "said", "message"),
    [
        ("llama", "layers", {"memory": {"activation": Memory(axes=("tp",))}}, "saved activations cannot be sharded"),
        ("llama", "layers", {"memory": {"activations": Memory()}}, "unknown tensor role 'activations'; nearest: act"),
        ("llama", "layers.0-1.mlp.fc2", {"partition": {"hidden": "tp"}}, "axis 'tp' cuts ffn of mlp.fc2 already"),
        ("llama", "layers.*.mlp.norm", {"recompute": "selective"}, "core of attention, and there is none"),
        ("llama", "layers", {"exchange": "ring"}, "no attention here has its sequence cut"),
        ("images", "", {"recompute": "selective"}, "core of attention, and there is none"),
    ],
)
def test_what_changes_nothing_is_refused(tree: str, selector: str, said: dict[str, Any], message: str) -> None:
    with pytest.raises(StrategyError, match=message):
        TREES[tree].set(selector, **said)


def test_a_row_split_takes_the_place_of_a_column_split_in_one_call() -> None:
    tree = TREES["llama"].set("layers.*.mlp.fc2", partition={"ffn": (), "hidden": "tp"})
    assert compiled(tree) != compiled(TREES["llama"])


def test_an_edit_that_another_plan_leaves_without_effect_stays_and_is_told() -> None:
    tree = TREES["context"].set("layers.1", exchange="ring")
    alone = tree.change(cp=1)
    assert alone.edits == tree.edits
    assert any("exchange changes nothing" in note for note in alone.notes)
    assert alone.change(cp=2) == tree and alone.change(cp=2).notes == tree.notes
    assert StrategyTree.from_yaml(alone.to_yaml()) == alone
