"""Convolutional networks: shapes, modules and what cannot be built."""

from __future__ import annotations

from typing import Any

import pytest

from proteus.errors import ModelError
from proteus.model import zoo
from proteus.model.convnet import convnet
from proteus.model.graph import OpKind, Role


def test_resnet_is_its_stages() -> None:
    model = zoo.load("resnet50")
    paths = [block.path(i) for block in model.blocks for i in range(block.count)]
    units = [f"layer{stage}.{i}" for stage, count in ((1, 3), (2, 4), (3, 6), (4, 3)) for i in range(count)]
    assert paths == ["stem", *units, "head"]
    shapes = [block.shape(block.outputs[0]) for block in model.blocks]
    assert shapes[0] == (1, 64, 56, 56) and shapes[-2] == (1, 2048, 7, 7)


def test_a_bottleneck() -> None:
    names = [op.name for op in zoo.load("resnet50").blocks[2].ops]
    parts = ["conv", "norm", "relu"]
    convs = [f"conv{i}.{part}" for i in (1, 2, 3) for part in parts]
    assert names == [*convs[:-1], "add", "relu"]


def test_roles_of_a_convolution() -> None:
    conv = zoo.load("resnet50").blocks[2].ops[3]
    assert conv.kind is OpKind.CONV2D
    roles = {name: dim.role for name, dim in conv.dims.items()}
    assert roles["batch"] is Role.PARALLEL
    assert roles[conv.outputs[0].dims[1]] is Role.PARALLEL
    assert roles[conv.inputs[0].dims[1]] is Role.REDUCTION
    assert all(roles[dim] is Role.INDIVISIBLE for dim in conv.inputs[0].dims[2:])
    assert conv.attrs == {"kernel": (3, 3), "stride": (1, 1), "padding": (1, 1)}


def test_relu_and_norm_share_what_they_keep() -> None:
    """Per conv, norm and relu: the input, the convolved map; the relu keeps its output, the next input."""
    block = zoo.load("resnet50").blocks[2]
    kept = {saved.tensor for op in block.ops for saved in op.saves}
    assert kept == {
        "x", "conv1.conv.out", "conv1.relu.out", "conv2.conv.out", "conv2.relu.out", "conv3.conv.out", "relu.out",
    }  # fmt: skip


def test_a_bias_follows_a_convolution_without_norm() -> None:
    ops = {op.name: op for op in zoo.load("vgg19").blocks[0].ops}
    assert len(ops["conv1.conv"].inputs) == 2
    assert [operand.tensor for operand in ops["conv1.relu"].inputs] == ["conv1.conv.out", "conv1.conv.bias"]


def test_inception_concatenates_its_branches() -> None:
    model = zoo.load("inception-v3")
    channels = [block.shape(block.outputs[0])[1] for block in model.blocks[:-1]]
    # Szegedy et al. 2016, table 1, as in torchvision
    assert channels == [192, 256, 288, 288, 768, 768, 768, 768, 768, 1280, 2048, 2048]
    sides = [block.shape(block.outputs[0])[2] for block in model.blocks[:-1]]
    assert sides == [35, 35, 35, 35, 17, 17, 17, 17, 17, 8, 8, 8]


def test_tiny_has_no_statistics_over_the_batch() -> None:
    kinds = {op.kind for block in zoo.load("tiny-cnn").blocks for op in block.ops}
    assert OpKind.GROUP_NORM in kinds
    assert not kinds & {OpKind.BATCH_NORM, OpKind.DROPOUT}


def small(*steps: Any, **more: Any) -> Any:
    blocks = [{"name": "stem", "steps": list(steps)}, {"name": "head", "steps": ["global"]}]
    return convnet("m", image=8, classes=4, blocks=blocks, **more)


def test_an_image_too_small_is_refused() -> None:
    with pytest.raises(ModelError, match="stem: conv of 9 px leaves nothing of 8 px; enlarge image"):
        small("conv 4 k9")


def test_an_unknown_step_is_refused() -> None:
    with pytest.raises(ModelError, match="step 'warp 3' has an unknown kind"):
        small("warp 3")


def test_flatten_comes_after_maps() -> None:
    with pytest.raises(ModelError, match="max needs a height and a width"):
        small("conv 4 k3", "flatten", "max k2")


def test_image_size_can_be_changed() -> None:
    assert zoo.load("resnet50", image=448).num_params == zoo.load("resnet50").num_params
    assert zoo.load("resnet50", image=448).flop() > 3.9 * zoo.load("resnet50").flop()
