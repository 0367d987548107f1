from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import proteus as pt
from proteus.errors import ProteusError
from proteus.strategy import Memory, StrategyTree


@st.composite
def trees(draw: st.DrawFn) -> StrategyTree:
    tree = StrategyTree(pt.models.load("tiny-llama")).parallelize(
        dp=draw(st.sampled_from([1, 2])),
        tp=draw(st.sampled_from([1, 2])),
        pp=draw(st.sampled_from([1, 2])),
        global_batch=8,
        zero=draw(st.integers(0, 3)),
        sequence_parallel=draw(st.booleans()),
        recompute=draw(st.sampled_from(["none", "selective", "full"])),
    )
    if draw(st.booleans()):
        tree = tree.set("layers.1.mlp", partition={"ffn": ()}, memory={"optimizer": Memory(("dp",), offload=True)})
    return tree.with_training(overlap_gradients=draw(st.booleans()))


@given(trees())
def test_what_is_written_reads_back_equal(tree: StrategyTree) -> None:
    again = StrategyTree.from_yaml(tree.to_yaml())
    assert again == tree
    assert again.diff(tree) == []


def test_writing_is_stable() -> None:
    text = StrategyTree(pt.models.load("tiny-llama")).parallelize(dp=2).to_yaml()
    assert StrategyTree.from_yaml(text).to_yaml() == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1,2\nb", "f.yaml, line 2: not YAML"),
        ("- 1", "f.yaml: the document: expected a mapping, found list"),
        ("model: tiny-lama", "f.yaml, line 1: model: unknown model 'tiny-lama'; nearest: tiny-llama"),
        ("model: gpt2\nmesch: {dp: 2}", "f.yaml, line 2: mesch: unknown field 'mesch'; nearest: mesh"),
        ("model: gpt2\nmesh: {dp: x}", "f.yaml, line 2: mesh.dp: expected a whole number of at least 1, found 'x'"),
        (
            "model: gpt2\ntraining:\n  micro_batch: yes",
            "line 3: training.micro_batch: micro_batch=True; it must be a whole number",
        ),
        ("model: gpt2\nschedule: {nam: 1f1b}", "line 2: schedule.nam: unknown field 'nam'; nearest: name"),
        ("model: gpt2\nnodes:\n  layers.*.foo: {recompute: full}", "f.yaml, line 3: layers.*.foo: unknown tree node"),
        ("model: gpt2\nnodes:\n  model: {memory: {parm: {}}}", "line 3: nodes.model.memory.parm: unknown field 'parm'"),
        ("model: gpt2\nnodes:\n  model: {partition: {batch: dq}}", "line 3: model: batch: mesh axis 'dq' does not"),
        ("model: gpt2\nstages: [{blocks: [0]}]", r"stages.0.blocks: expected \[first, stop\], found \[0\]"),
        ("model: gpt2\nstages: [{blocks: [0, 3]}]", "the stages end at block 3, the model has 14"),
        (
            "model: !!python/object/apply:os.system ['true']",
            "f.yaml, line 1: tag tag:yaml.org,2002:python/object/apply:os.system; write plain",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ProteusError, match=message.replace("*", r"\*") if "*" in message else message):
        StrategyTree.from_yaml(text, source="f.yaml")
