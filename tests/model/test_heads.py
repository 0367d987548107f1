"""What stands after the layers."""

from __future__ import annotations

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
