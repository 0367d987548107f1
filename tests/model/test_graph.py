"""The vocabulary: FLOP by hand, and one error for each way a graph can contradict itself."""

from __future__ import annotations

import pickle
import timeit
from collections.abc import Callable
from dataclasses import replace

import pytest

from proteus.errors import ModelError
from proteus.model import zoo
from proteus.model.builder import BlockBuilder
from proteus.model.graph import Block, Dim, Lora, Model, Op, Operand, OpKind, Role, Saved, Tensor
from proteus.model.lora import with_lora

DIMS = {"batch": 1, "seq": 8, "hidden": 16, "ffn": 64}


def linear_block(**placement: object) -> Block:
    """x[batch, seq, hidden] to y[batch, seq, hidden] through ffn."""
    b = BlockBuilder("mlp", DIMS, **placement)  # type: ignore[arg-type]
    x = b.take("x", "batch seq hidden")
    up = b.parameter("up.weight", "ffn hidden")
    y = b.op("up", OpKind.LINEAR, "batch seq ffn | hidden", [x, up], "batch seq ffn", saves=[x])
    down = b.parameter("down.weight", "hidden ffn")
    return b.build([b.op("down", OpKind.LINEAR, "batch seq hidden | ffn", [y, down], "batch seq hidden", saves=[y])])


def changed(block: Block, index: int, **fields: object) -> Block:
    ops = list(block.ops)
    ops[index] = replace(ops[index], **fields)  # type: ignore[arg-type]
    return replace(block, ops=tuple(ops))


def test_flop_of_a_linear() -> None:
    block = linear_block()
    assert [op.flop() for op in block.ops] == [2 * 8 * 16 * 64] * 2
    assert block.ops[0].flop({"batch": 3, "seq": 4, "hidden": 16, "ffn": 32}) == 2 * 3 * 4 * 16 * 32


def test_flop_counts_each_weight_with_its_own_output() -> None:
    layer = zoo.load("llama3-8b", seq=10).blocks[1]
    qkv = next(op for op in layer.ops if op.name == "attention.qkv")
    # 32 query heads, 8 key and 8 value heads of 128
    assert qkv.flop() == 2 * 10 * 4096 * (32 + 8 + 8) * 128
    # cutting q_per_kv in two halves the queries alone
    assert qkv.flop(qkv.sizes() | {"q_per_kv": 2}) == 2 * 10 * 4096 * (16 + 8 + 8) * 128


def test_flop_of_attention() -> None:
    core = next(op for op in zoo.load("llama3-8b", seq=10).blocks[1].ops if op.kind is OpKind.ATTENTION)
    assert core.flop() == 2 * 2 * 32 * 128 * 10 * 10
    # half of the rows against all of the keys
    assert core.flop(core.sizes() | {"seq": 5}) == core.flop() / 2
    latent = next(op for op in zoo.load("deepseek-v3", seq=10).blocks[2].ops if op.kind is OpKind.ATTENTION)
    assert latent.flop() == 2 * 128 * 10 * 10 * (128 + 64 + 128)


def test_flop_of_a_convolution() -> None:
    conv = zoo.load("resnet50").blocks[0].ops[0]
    assert conv.flop() == 2 * 112 * 112 * 64 * 3 * 7 * 7


def test_paths_count_from_first() -> None:
    block = linear_block(count=2, first=1)
    assert [block.path(i) for i in range(2)] == ["mlp.1", "mlp.2"]
    assert linear_block(indexed=False).path() == "mlp"
    paths = zoo.load("resnet50").parameter_paths()
    assert paths["layer1.0.conv1.conv.weight"] == 64 * 64 and paths["layer1.2.conv3.conv.weight"] == 64 * 256


def test_parameter_paths_sum_to_the_parameters() -> None:
    for name in ("tiny-gpt", "tiny-moe", "tiny-cnn", "tiny-dlrm", "deepseek-v3"):
        model = zoo.load(name)
        assert sum(model.parameter_paths().values()) == model.num_params


BROKEN: dict[str, tuple[Callable[[Block], Block], str]] = {
    "misnamed tensor": (lambda b: replace(b, tensors=b.tensors | {"z": b.tensors["x"]}), "tensor x is listed as 'z'"),
    "dim without size": (
        lambda b: replace(b, tensors=b.tensors | {"z": Tensor(name="z", dims=("depth",))}),
        "tensor z uses dim 'depth', which has no size",
    ),
    "repeated op": (lambda b: changed(b, 1, name="up"), "two ops are named 'up'"),
    "read before written": (lambda b: replace(b, ops=b.ops[::-1]), "reads 'up.out' before it is written"),
    "written twice": (lambda b: changed(b, 1, outputs=b.ops[0].outputs), "writes 'up.out', which is written already"),
    "rank": (
        lambda b: changed(b, 0, inputs=(Operand("x", ("batch", "seq")), b.ops[0].inputs[1])),
        "x has dims .* indexed by",
    ),
    "diagonal": (
        lambda b: changed(b, 0, inputs=(Operand("x", ("seq", "seq", "hidden")), b.ops[0].inputs[1])),
        "indexed twice by one dim",
    ),
    "size": (
        lambda b: changed(b, 0, dims={**b.ops[0].dims, "ffn": Dim(32, Role.PARALLEL)}),
        "dim 'ffn' of up.weight does not fit ffn=64",
    ),
    "reduction in an output": (
        lambda b: changed(b, 0, dims={**b.ops[0].dims, "ffn": Dim(64, Role.REDUCTION)}),
        "dim 'ffn' is a reduction, yet an output has it",
    ),
    "parallel in no output": (
        lambda b: changed(b, 0, dims={**b.ops[0].dims, "hidden": Dim(16, Role.PARALLEL)}),
        "dim 'hidden' is parallel, yet no output has it",
    ),
    "foreign save": (lambda b: changed(b, 1, saves=(Saved("x"),)), "saves 'x', which it neither reads nor writes"),
    "lost output": (lambda b: replace(b, outputs=("y",)), "output 'y' is never written"),
    "derived": (lambda b: replace(b, derived={"slots": ("seq",)}), "derived dim 'slots' .* 'slots' has no size"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_contradiction_is_named(name: str) -> None:
    break_it, message = BROKEN[name]
    with pytest.raises(ModelError, match=message):
        break_it(linear_block()).validate()


def test_a_save_of_a_dim_that_the_op_lacks() -> None:
    block = linear_block()
    mask = Tensor(name="mask", dims=("depth",), kind="saved")
    broken = replace(block, dims={**block.dims, "depth": 3}, tensors={**block.tensors, "mask": mask})
    with pytest.raises(ModelError, match="saves mask, whose dim 'depth' the op does not have"):
        changed(broken, 0, saves=(Saved("mask"),)).validate()


def test_a_chain_must_fit() -> None:
    ffn = BlockBuilder("wide", DIMS, indexed=False)
    ffn_block = ffn.build([ffn.take("x", "batch seq ffn")])
    with pytest.raises(ModelError, match=r"mlp hands over .* wide takes .* shapes differ"):
        Model(name="m", blocks=(linear_block(), ffn_block)).validate()
    with pytest.raises(ModelError, match=r"two blocks have the path 'mlp\.0'"):
        Model(name="m", blocks=(linear_block(), linear_block())).validate()


def test_copies_must_fit_each_other() -> None:
    b = BlockBuilder("up", DIMS, count=2)
    x, weight = b.take("x", "batch seq hidden"), b.parameter("weight", "ffn hidden")
    block = b.build([b.op("up", OpKind.LINEAR, "batch seq ffn | hidden", [x, weight], "batch seq ffn")])
    with pytest.raises(ModelError, match=r"up×2: its outputs .* do not fit its inputs"):
        Model(name="m", blocks=(block,)).validate()


def test_a_tie_must_lead_somewhere() -> None:
    b = BlockBuilder("head", DIMS, indexed=False)
    b.parameter("weight", "ffn hidden", tied_to="embedding.word.weight")
    with pytest.raises(ModelError, match=r"weight is tied to 'embedding\.word\.weight', absent or not as large"):
        Model(name="m", blocks=(b.build(),)).validate()


def test_a_tied_parameter_counts_once() -> None:
    tied, untied = zoo.load("gpt2"), zoo.load("gpt2", tied=False)
    assert untied.num_params - tied.num_params == 50257 * 768
    assert untied.flop() == tied.flop()


def test_repr_reads_as_a_chain() -> None:
    assert repr(zoo.load("gpt2")) == "Model(gpt2: 124.4 M parameters; embedding → layers×12 → head)"


def test_ops_without_products_have_no_flop() -> None:
    op = Op(name="add", kind=OpKind.ADD, dims={}, inputs=(), outputs=())
    assert op.flop() == 0


# -- models are values -------------------------------------------------------------


def test_models_are_equal_by_content() -> None:
    short, long = zoo.load("gpt2", seq=512), zoo.load("gpt2", seq=1024)
    assert short != long and hash(short) != hash(long) and short.digest != long.digest
    assert zoo.load("gpt2", layers=4) != zoo.load("gpt2")
    apart = replace(long)
    assert apart is not long and apart == long and hash(apart) == hash(long)
    assert {short: 1, long: 2}[apart] == 2
    assert long != "gpt2"


def test_each_part_of_the_content_counts_and_nothing_else() -> None:
    model = zoo.load("tiny-gpt")
    adapted = with_lora(model, Lora(rank=2))
    others = [replace(model, name="mine"), replace(model, seq=model.seq * 2), model.resized("vocab", 128), adapted]
    others += [with_lora(model, Lora(rank=2, base="nf4")), replace(model, blocks=model.blocks[:-1])]
    assert len({model, *others}) == len(others) + 1
    annotated = replace(model, facts={}, assumptions=("something was guessed",), origin=None)
    assert annotated == model and hash(annotated) == hash(model)


def test_a_model_is_a_value_in_another_process_too() -> None:
    model = zoo.load("tiny-gpt")
    assert pickle.loads(pickle.dumps(model)) == model


def test_a_digest_is_computed_once() -> None:
    model = replace(zoo.load("deepseek-v3"))
    assert model.digest is model.digest
    seconds = timeit.timeit(lambda: hash(model) == hash(model) and model == model, number=1000)
    assert seconds < 0.05  # models are keys of what is remembered
