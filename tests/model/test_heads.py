"""What stands after the layers."""

from __future__ import annotations

import pytest

from proteus.errors import ModelError
from proteus.model import zoo
from proteus.model.graph import OpKind


def test_tied_output_projection() -> None:
    assert zoo.load("gpt2").blocks[-1].tensors["head.weight"].tied_to == "embedding.word.weight"
    assert zoo.load("llama3-8b").blocks[-1].tensors["head.weight"].tied_to is None


def test_pretraining_adds_its_two_losses() -> None:
    block = zoo.load("bert-base-pretraining").blocks[-1]
    assert [operand.tensor for operand in block.ops[-1].inputs] == ["loss.words", "loss.next"]
    inputs = {t.name for t in block.tensors.values() if t.kind == "input"}
    assert inputs == {"labels", "next_labels"}


def test_a_classifier_reads_the_class_token() -> None:
    block = zoo.load("vit-b/16").blocks[-1]
    first = next(op for op in block.ops if op.kind is OpKind.SELECT)
    assert first.attrs == {"dim": "seq", "index": 0}
    assert block.shape(first.outputs[0].tensor) == (1, 768)


def test_masked_tokens_alone_make_logits() -> None:
    model = zoo.load("bert-base-pretraining", seq=128, predictions=20)
    block = model.blocks[-1]
    taken = next(op for op in block.ops if op.kind is OpKind.TAKE)
    logits = next(op for op in block.ops if op.name == "head")
    assert taken.inputs[1].tensor == "masked_positions"
    assert block.shape(taken.outputs[0].tensor) == (1, 20, 768)
    assert logits.flop() == 2 * 20 * 768 * 30522
    every = zoo.load("bert-base-pretraining", seq=128)
    assert every.flop() - model.flop() == 2 * (128 - 20) * 768 * (768 + 30522)


@pytest.mark.parametrize("count", [0, 129])
def test_no_more_tokens_are_predicted_than_there_are(count: int) -> None:
    with pytest.raises(ModelError, match=f"predictions={count}"):
        zoo.load("bert-base-pretraining", seq=128, predictions=count)
