"""Convolutional networks, described as data: blocks of :mod:`~proteus.model.steps`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proteus.errors import context
from proteus.model.builder import BlockBuilder
from proteus.model.convlayers import FeatureMap, StepBuilder
from proteus.model.graph import Block, Model, OpKind
from proteus.model.loss import add_cross_entropy
from proteus.model.steps import Step


def bottleneck(width: int, stride: int, *, shortcut: bool) -> Step:
    """ResNet's unit of 1x1, 3x3 and 1x1 (He et al. 2016, arXiv 1512.03385, figure 5; v1.5: stride in the 3x3)."""
    return {
        "residual": [f"conv {width} k1", f"conv {width} k3 s{stride} p1", f"conv {4 * width} k1 linear"],
        "shortcut": [f"conv {4 * width} k1 s{stride} linear"] if shortcut else [],
    }


def convnet(
    name: str,
    *,
    image: int,
    blocks: Sequence[Mapping[str, Any]],
    classes: int,
    norm: str | None = None,
    groups: int = 1,
    channels: int = 3,
) -> Model:
    """A convolutional network.

    Parameters
    ----------
    image, channels
        Height and width [px] and colours of the input.
    blocks
        ``{name, steps, count, first, indexed}`` in order, or
        ``{name, bottleneck: width, count, stride}``, a ResNet stage.  The
        last block ends in the classifier and its cross entropy.
    norm
        ``batch_norm``, ``group_norm`` (with `groups`), or None: biases instead.
    """
    with context(name):
        made = _blocks(image, blocks, classes, norm, groups, channels)
    facts = {"family": "convnet", "image": image, "classes": classes}
    model = Model(name=name, blocks=tuple(made), facts=facts)
    model.validate()
    return model


def _blocks(
    image: int, blocks: Sequence[Mapping[str, Any]], classes: int, norm: str | None, groups: int, channels: int
) -> list[Block]:
    made: list[Block] = []
    shape: tuple[int, ...] = (1, channels, image, image)
    entries = [part for entry in blocks for part in _stage(entry)]
    for i, entry in enumerate(entries):
        steps = entry["steps"]
        dims = {"batch": 1, "channels" if _keeps_channels(steps) else "in_channels": shape[1]}
        dims |= {f"h{shape[2]}": shape[2], f"w{shape[3]}": shape[3]} if len(shape) == 4 else {}
        b = BlockBuilder(
            entry["name"],
            dims,
            count=entry.get("count", 1),
            indexed=entry.get("indexed", False),
            first=entry.get("first", 0),
        )
        names = list(dims)[1:]
        tensor = b.take("x", f"batch {' '.join(names)}") if i else b.data("image", f"batch {' '.join(names)}")
        height, width = names[1:] if len(names) == 3 else (None, None)
        x = FeatureMap(tensor=tensor, channels=names[0], height=height, width=width)
        x = StepBuilder(b, norm, groups).steps(steps, x)
        made.append(_classifier(b, x, classes) if i == len(entries) - 1 else b.build([x.tensor]))
        shape = made[-1].shape(x.tensor)
    return made


def _keeps_channels(steps: Sequence[Step]) -> bool:
    """Whether x is added, as it is, to the last step's output: both then have the same dims."""
    last = steps[-1]
    return len(steps) == 1 and not isinstance(last, str) and "residual" in last and not last.get("shortcut")


def _stage(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A ResNet stage as its first unit, which changes the shape, and the equal others."""
    if "bottleneck" not in entry:
        return [entry]
    name, width, stride = entry["name"], entry["bottleneck"], entry.get("stride", 1)
    parts: list[Mapping[str, Any]] = [{"name": f"{name}.0", "steps": [bottleneck(width, stride, shortcut=True)]}]
    if entry["count"] > 1:
        steps = [bottleneck(width, 1, shortcut=False)]
        parts.append({"name": name, "steps": steps, "count": entry["count"] - 1, "first": 1, "indexed": True})
    return parts


def _classifier(b: BlockBuilder, x: FeatureMap, classes: int) -> Block:
    b.dims["classes"] = classes
    weight, bias = b.parameter("fc.weight", f"classes {x.channels}"), b.parameter("fc.bias", "classes")
    roles = f"batch classes | | {x.channels}"
    logits = b.op("fc", OpKind.LINEAR, roles, [x.tensor, weight, bias], "batch classes", saves=[x.tensor])
    return b.build([add_cross_entropy(b, logits, tokens="batch", classes="classes")])
