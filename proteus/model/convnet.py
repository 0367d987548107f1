"""Convolutional networks, written as data.

``data/convnets.yaml`` describes a network as blocks of steps, one string a step::

    conv 64 k7 s2 p3       convolution (kernel, stride, padding), norm, relu
    conv 96 k1x7 p0x3      height x width where they differ
    conv 64 k1 linear      without the relu
    max k3 s2 p1           max pooling; "average k3 s1 p1" likewise
    global                 mean over height and width
    flatten                channels, height and width into one dim
    fc 4096                linear and relu
    dropout 0.5

A step may be named, ``branch1x1 = conv 64 k1``.  Instead of a string a step
may be ``{branches: [[step, ...], ...]}`` (concatenated) or
``{residual: [step, ...], shortcut: [step, ...]}`` (added, then relu; no
shortcut steps mean the identity).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proteus.errors import ModelError
from proteus.model.builder import BlockBuilder
from proteus.model.graph import Block, Model, OpKind
from proteus.model.loss import add_cross_entropy

Step = str | Mapping[str, Any]
_STEP = re.compile(r"^(?:(?P<name>[\w.]+)\s*=\s*)?(?P<kind>[a-z]+)(?P<rest>(?:\s+\S+)*)$")
_SIZES = re.compile(r"^(?P<key>[ksp])(?P<high>\d+)(?:x(?P<wide>\d+))?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Map:
    """A feature map: its tensor and the names of its dims."""

    tensor: str
    channels: str
    height: str | None = None
    width: str | None = None

    @property
    def spatial(self) -> str:
        return f"{self.height} {self.width}" if self.height else ""

    @property
    def dims(self) -> str:
        return f"batch {self.channels} {self.spatial}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parsed:
    name: str | None
    kind: str
    number: float
    flags: frozenset[str]
    sizes: Mapping[str, tuple[int, int]]


def parse_step(step: str) -> _Parsed:
    """A step string as values.

    >>> parsed = parse_step("b = conv 96 k1x7 p0x3 linear")
    >>> parsed.name, parsed.kind, parsed.number, parsed.sizes["k"], sorted(parsed.flags)
    ('b', 'conv', 96.0, (1, 7), ['linear'])
    """
    match = _STEP.match(step.strip())
    if match is None:
        raise ModelError(f"step {step!r} is none; write for example 'conv 64 k3 p1'")
    number, flags, sizes = 0.0, set(), {"s": (1, 1), "p": (0, 0)}
    for word in match["rest"].split():
        if size := _SIZES.match(word):
            sizes[size["key"]] = (int(size["high"]), int(size["wide"] or size["high"]))
        elif re.fullmatch(r"[\d.]+", word):
            number = float(word)
        else:
            flags.add(word)
    return _Parsed(name=match["name"], kind=match["kind"], number=number, flags=frozenset(flags), sizes=sizes)


class _ConvBuilder:
    """Adds steps to a block; every convolution brings a channel dim of its own."""

    def __init__(self, block: BlockBuilder, norm: str | None, groups: int) -> None:
        self.block, self.norm, self.groups = block, norm, groups
        self._counts: dict[str, int] = {}

    def steps(self, steps: Sequence[Step], x: _Map, prefix: str = "", last: str | None = None) -> _Map:
        """Add `steps`; the channels of the last convolution are named `last`."""
        convs = [i for i, step in enumerate(steps) if isinstance(step, str) and parse_step(step).kind in ("conv", "fc")]
        for i, step in enumerate(steps):
            channels = last if convs and i == convs[-1] else None
            x = self._step(step, x, prefix, channels)
        return x

    def _step(self, step: Step, x: _Map, prefix: str, channels: str | None) -> _Map:
        if not isinstance(step, str):
            if "branches" in step:
                return self._branches(step["branches"], x, prefix)
            return self._residual(step["residual"], step.get("shortcut") or [], x, prefix)
        parsed = parse_step(step)
        name = prefix + (parsed.name or self._numbered(prefix, parsed.kind))
        match parsed.kind:
            case "conv":
                return self._conv(name, parsed, x, channels)
            case "max" | "average":
                return self._pool(name, parsed, x)
            case "global":
                return self._global(name, x)
            case "flatten":
                return self._flatten(name, x)
            case "fc":
                return self._fc(name, int(parsed.number), x, channels)
            case "dropout":
                mask = self.block.saved(f"{name}.mask", x.dims, dtype="bool")
                out = self.block.op(
                    name, OpKind.DROPOUT, x.dims, [x.tensor], x.dims, saves=[mask], rate=parsed.number
                )
                return _Map(tensor=out, channels=x.channels, height=x.height, width=x.width)
            case _:
                raise ModelError(f"step {step!r} has an unknown kind")

    def _numbered(self, prefix: str, kind: str) -> str:
        count = self._counts[prefix + kind] = self._counts.get(prefix + kind, 0) + 1
        return f"{kind}{count}"

    def _grid(self, parsed: _Parsed, x: _Map) -> tuple[str, str]:
        """Dims of height and width after a window has passed over x."""
        names = []
        for axis, (dim, letter) in enumerate(((x.height, "h"), (x.width, "w"))):
            if dim is None:
                raise ModelError(f"{self.block.name}: {parsed.kind} needs a height and a width")
            kernel, stride, padding = (parsed.sizes[key][axis] for key in "ksp")
            size = (self.block.dims[dim] + 2 * padding - kernel) // stride + 1
            if size < 1:
                raise ModelError(f"{self.block.name}: {parsed.kind} of {kernel} px leaves nothing of {dim}; enlarge image")
            names.append(f"{letter}{size}")
            self.block.dims[names[-1]] = size
        return names[0], names[1]

    def _window(self, parsed: _Parsed) -> dict[str, tuple[int, int]]:
        return {"kernel": parsed.sizes["k"], "stride": parsed.sizes["s"], "padding": parsed.sizes["p"]}

    def _conv(self, name: str, parsed: _Parsed, x: _Map, channels: str | None) -> _Map:
        b = self.block
        height, width = self._grid(parsed, x)
        channels = channels or f"{name}.channels"
        kernel = [f"kernel_h{parsed.sizes['k'][0]}", f"kernel_w{parsed.sizes['k'][1]}"]
        b.dims |= {channels: int(parsed.number)} | dict(zip(kernel, parsed.sizes["k"], strict=True))
        weight = b.parameter(f"{name}.conv.weight", f"{channels} {x.channels} {' '.join(kernel)}")
        inner = dict.fromkeys([*x.spatial.split(), height, width, *kernel])
        roles = f"batch {channels} | {x.channels} | {' '.join(inner)}"
        out = _Map(tensor="", channels=channels, height=height, width=width)
        y = b.op(
            f"{name}.conv",
            OpKind.CONV2D,
            roles,
            [x.tensor, weight],
            out.dims,
            saves=[x.tensor],
            **self._window(parsed),
        )
        bias = None
        if self.norm is None:
            bias = b.parameter(f"{name}.conv.bias", channels)
        else:
            # a group of channels is normalized as a whole, a channel of batch norm alone
            group = self.norm == "group_norm"
            roles = f"batch | | {channels} {out.spatial}" if group else f"batch {channels} | | {out.spatial}"
            attrs = {"groups": self.groups} if group else {}
            scale = [b.parameter(f"{name}.norm.weight", channels), b.parameter(f"{name}.norm.bias", channels)]
            y = b.op(f"{name}.norm", OpKind(self.norm), roles, [y, *scale], out.dims, saves=[y], **attrs)
        if "linear" in parsed.flags:
            assert bias is None
        else:
            y = self._relu(f"{name}.relu", y, out.dims, bias)
        return _Map(tensor=y, channels=channels, height=height, width=width)

    def _relu(self, name: str, x: str, dims: str, bias: str | None = None) -> str:
        """relu in place: autograd keeps its output, which the next op keeps anyway."""
        operands = [x, *([bias] if bias else [])]
        return self.block.op(name, OpKind.ACTIVATION, dims, operands, dims, saves=[f"{name}.out"], function="relu")

    def _pool(self, name: str, parsed: _Parsed, x: _Map) -> _Map:
        height, width = self._grid(parsed, x)
        out = _Map(tensor="", channels=x.channels, height=height, width=width)
        saves = [x.tensor]
        if parsed.kind == "max":
            saves.append(self.block.saved(f"{name}.indices", out.dims, dtype="int64"))
        inner = dict.fromkeys([*x.spatial.split(), height, width])
        y = self.block.op(
            name,
            OpKind.POOL2D,
            f"batch {x.channels} | | {' '.join(inner)}",
            [x.tensor],
            out.dims,
            saves=saves,
            function=parsed.kind,
            **self._window(parsed),
        )
        return _Map(tensor=y, channels=x.channels, height=height, width=width)

    def _global(self, name: str, x: _Map) -> _Map:
        dims = f"batch {x.channels}"
        roles = f"{dims} | | {x.spatial}"
        y = self.block.op(name, OpKind.POOL2D, roles, [x.tensor], dims, saves=[x.tensor], function="average")
        return _Map(tensor=y, channels=x.channels)

    def _flatten(self, name: str, x: _Map) -> _Map:
        merged = f"{name}.features"
        parts = (x.channels, *x.spatial.split())
        size = 1
        for dim in parts:
            size *= self.block.dims[dim]
        self.block.dims[merged] = size
        roles = f"batch | | {' '.join(parts)} {merged}"
        y = self.block.op(name, OpKind.RESHAPE, roles, [x.tensor], f"batch {merged}", merge={merged: parts})
        return _Map(tensor=y, channels=merged)

    def _fc(self, name: str, size: int, x: _Map, channels: str | None) -> _Map:
        features = channels or f"{name}.features"
        self.block.dims[features] = size
        weight = self.block.parameter(f"{name}.weight", f"{features} {x.channels}")
        bias = self.block.parameter(f"{name}.bias", features)
        dims, operands = f"batch {features}", [x.tensor, weight]
        y = self.block.op(name, OpKind.LINEAR, f"{dims} | {x.channels}", operands, dims, saves=[x.tensor])
        return _Map(tensor=self._relu(f"{name}.relu", y, dims, bias), channels=features)

    def _branches(self, branches: Sequence[Sequence[Step]], x: _Map, prefix: str) -> _Map:
        ends = [self.steps(branch, x, prefix) for branch in branches]
        name = prefix + self._numbered(prefix, "concat")
        channels = f"{name}.channels"
        self.block.dims[channels] = sum(self.block.dims[end.channels] for end in ends)
        # channels of different branches stand one after another: no cut of the whole is a cut of the parts
        roles = f"batch {ends[0].spatial} | | {' '.join(dict.fromkeys(e.channels for e in ends))} {channels}"
        out = _Map(tensor="", channels=channels, height=ends[0].height, width=ends[0].width)
        y = self.block.op(name, OpKind.CONCAT, roles, [end.tensor for end in ends], out.dims, dim=channels)
        return _Map(tensor=y, channels=channels, height=out.height, width=out.width)

    def _residual(self, main: Sequence[Step], shortcut: Sequence[Step], x: _Map, prefix: str) -> _Map:
        end = self.steps(main, x, prefix, last="channels")
        side = self.steps(shortcut, x, f"{prefix}shortcut.", last="channels")
        y = self.block.op(f"{prefix}add", OpKind.ADD, end.dims, [end.tensor, side.tensor], end.dims)
        y = self._relu(f"{prefix}relu", y, end.dims)
        return _Map(tensor=y, channels=end.channels, height=end.height, width=end.width)


def bottleneck(width: int, stride: int, *, shortcut: bool) -> Step:
    """ResNet's unit of 1x1, 3x3 and 1x1 (He et al. 2016, arXiv 1512.03385, figure 5; v1.5: stride in the 3x3)."""
    step = {
        "residual": [f"conv {width} k1", f"conv {width} k3 s{stride} p1", f"conv {4 * width} k1 linear"],
        "shortcut": [f"conv {4 * width} k1 s{stride} linear"] if shortcut else [],
    }
    return step


def convnet(
    name: str, *, image: int, blocks: Sequence[Mapping[str, Any]], classes: int, norm: str | None = None,
    groups: int = 1, channels: int = 3,
) -> Model:  # fmt: skip
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
    made: list[Block] = []
    shape: tuple[int, ...] = (1, channels, image, image)
    entries = [part for entry in blocks for part in _stage(entry)]
    for i, entry in enumerate(entries):
        steps = entry["steps"]
        kept = len(steps) == 1 and not isinstance(steps[0], str) and not (steps[0].get("shortcut") or ("branches" in steps[0]))
        dims = {"batch": 1, "channels" if kept else "in_channels": shape[1]}
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
        grid = names[1:] if len(names) == 3 else [None, None]
        x = _Map(tensor=tensor, channels=names[0], height=grid[0], width=grid[1])
        x = _ConvBuilder(b, norm, groups).steps(steps, x)
        made.append(_classifier(b, x, classes) if i == len(entries) - 1 else b.build([x.tensor]))
        shape = made[-1].shape(x.tensor)
    facts = {"family": "convnet", "image": image, "classes": classes}
    model = Model(name=name, blocks=tuple(made), facts=facts)
    model.validate()
    return model


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


def _classifier(b: BlockBuilder, x: _Map, classes: int) -> Block:
    b.dims["classes"] = classes
    weight, bias = b.parameter("fc.weight", f"classes {x.channels}"), b.parameter("fc.bias", "classes")
    roles = f"batch classes | | {x.channels}"
    logits = b.op("fc", OpKind.LINEAR, roles, [x.tensor, weight, bias], "batch classes", saves=[x.tensor])
    return b.build([add_cross_entropy(b, logits, tokens="batch", classes="classes")])
