"""Adds the steps of a convolutional network to a block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from proteus.errors import ModelError
from proteus.model.builder import BlockBuilder
from proteus.model.graph import OpKind
from proteus.model.steps import ParsedStep, Step, parse_step, window


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureMap:
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


class StepBuilder:
    """Adds steps to a block; every convolution brings a channel dim of its own."""

    def __init__(self, block: BlockBuilder, norm: str | None, groups: int) -> None:
        self.block, self.norm, self.groups = block, norm, groups
        self._counts: dict[str, int] = {}

    def steps(self, steps: Sequence[Step], x: FeatureMap, prefix: str = "", last: str | None = None) -> FeatureMap:
        """Add `steps`; the channels of the last convolution are named `last`."""
        convs = [i for i, step in enumerate(steps) if isinstance(step, str) and parse_step(step).kind in ("conv", "fc")]
        for i, step in enumerate(steps):
            channels = last if convs and i == convs[-1] else None
            x = self._step(step, x, prefix, channels)
        return x

    def _step(self, step: Step, x: FeatureMap, prefix: str, channels: str | None) -> FeatureMap:
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
                    name, OpKind.DROPOUT, x.dims, [x.tensor], x.dims, saves=[mask], attrs={"p": parsed.number}
                )
                return FeatureMap(tensor=out, channels=x.channels, height=x.height, width=x.width)
            case _:
                raise ModelError(f"step {step!r} has an unknown kind")

    def _numbered(self, prefix: str, kind: str) -> str:
        count = self._counts[prefix + kind] = self._counts.get(prefix + kind, 0) + 1
        return f"{kind}{count}"

    def _grid(self, parsed: ParsedStep, x: FeatureMap) -> tuple[str, str]:
        """Dims of height and width after a window has passed over x."""
        names = []
        for axis, (dim, letter) in enumerate(((x.height, "h"), (x.width, "w"))):
            if dim is None:
                raise ModelError(f"{self.block.name}: {parsed.kind} needs a height and a width")
            kernel, stride, padding = (parsed.sizes[key][axis] for key in "ksp")
            size = (self.block.dims[dim] + 2 * padding - kernel) // stride + 1
            if size < 1:
                before = self.block.dims[dim]
                raise ModelError(
                    f"{self.block.name}: {parsed.kind} of {kernel} px leaves nothing of {before} px; enlarge image"
                )
            names.append(f"{letter}{size}")
            self.block.dims[names[-1]] = size
        return names[0], names[1]

    def _conv(self, name: str, parsed: ParsedStep, x: FeatureMap, channels: str | None) -> FeatureMap:
        b = self.block
        height, width = self._grid(parsed, x)
        channels = channels or f"{name}.channels"
        kernel = [f"kernel_h{parsed.sizes['k'][0]}", f"kernel_w{parsed.sizes['k'][1]}"]
        b.dims |= {channels: int(parsed.number)} | dict(zip(kernel, parsed.sizes["k"], strict=True))
        weight = b.parameter(f"{name}.conv.weight", f"{channels} {x.channels} {' '.join(kernel)}")
        inner = dict.fromkeys([*x.spatial.split(), height, width, *kernel])
        roles = f"batch {channels} | {x.channels} | {' '.join(inner)}"
        out = FeatureMap(tensor="", channels=channels, height=height, width=width)
        y = b.op(
            f"{name}.conv",
            OpKind.CONV2D,
            roles,
            [x.tensor, weight],
            out.dims,
            saves=[x.tensor],
            attrs=window(parsed),
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
            y = b.op(f"{name}.norm", OpKind(self.norm), roles, [y, *scale], out.dims, saves=[y], attrs=attrs)
        if "linear" in parsed.flags:
            assert bias is None
        else:
            y = self._relu(f"{name}.relu", y, out.dims, bias)
        return FeatureMap(tensor=y, channels=channels, height=height, width=width)

    def _relu(self, name: str, x: str, dims: str, bias: str | None = None) -> str:
        """relu in place: autograd keeps its output, which the next op keeps anyway."""
        operands = [x, *([bias] if bias else [])]
        return self.block.op(
            name, OpKind.ACTIVATION, dims, operands, dims, saves=[f"{name}.out"], attrs={"function": "relu"}
        )

    def _pool(self, name: str, parsed: ParsedStep, x: FeatureMap) -> FeatureMap:
        height, width = self._grid(parsed, x)
        out = FeatureMap(tensor="", channels=x.channels, height=height, width=width)
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
            attrs={"function": parsed.kind} | window(parsed),
        )
        return FeatureMap(tensor=y, channels=x.channels, height=height, width=width)

    def _global(self, name: str, x: FeatureMap) -> FeatureMap:
        dims = f"batch {x.channels}"
        roles = f"{dims} | | {x.spatial}"
        y = self.block.op(name, OpKind.POOL2D, roles, [x.tensor], dims, saves=[x.tensor], attrs={"function": "average"})
        return FeatureMap(tensor=y, channels=x.channels)

    def _flatten(self, name: str, x: FeatureMap) -> FeatureMap:
        merged = f"{name}.features"
        parts = (x.channels, *x.spatial.split())
        self.block.dims[merged] = math.prod(self.block.dims[dim] for dim in parts)
        roles = f"batch | | {' '.join(parts)} {merged}"
        y = self.block.op(name, OpKind.RESHAPE, roles, [x.tensor], f"batch {merged}", attrs={"merge": {merged: parts}})
        return FeatureMap(tensor=y, channels=merged)

    def _fc(self, name: str, size: int, x: FeatureMap, channels: str | None) -> FeatureMap:
        features = channels or f"{name}.features"
        self.block.dims[features] = size
        weight = self.block.parameter(f"{name}.weight", f"{features} {x.channels}")
        bias = self.block.parameter(f"{name}.bias", features)
        dims, operands = f"batch {features}", [x.tensor, weight]
        y = self.block.op(name, OpKind.LINEAR, f"{dims} | {x.channels}", operands, dims, saves=[x.tensor])
        return FeatureMap(tensor=self._relu(f"{name}.relu", y, dims, bias), channels=features)

    def _branches(self, branches: Sequence[Sequence[Step]], x: FeatureMap, prefix: str) -> FeatureMap:
        ends = [self.steps(branch, x, prefix) for branch in branches]
        name = prefix + self._numbered(prefix, "concat")
        channels = f"{name}.channels"
        self.block.dims[channels] = sum(self.block.dims[end.channels] for end in ends)
        # channels of different branches stand one after another: no cut of the whole is a cut of the parts
        roles = f"batch {ends[0].spatial} | | {' '.join(dict.fromkeys(e.channels for e in ends))} {channels}"
        out = FeatureMap(tensor="", channels=channels, height=ends[0].height, width=ends[0].width)
        y = self.block.op(name, OpKind.CONCAT, roles, [end.tensor for end in ends], out.dims, attrs={"dim": channels})
        return FeatureMap(tensor=y, channels=channels, height=out.height, width=out.width)

    def _residual(self, main: Sequence[Step], shortcut: Sequence[Step], x: FeatureMap, prefix: str) -> FeatureMap:
        end = self.steps(main, x, prefix, last="channels")
        side = self.steps(shortcut, x, f"{prefix}shortcut.", last="channels")
        y = self.block.op(f"{prefix}add", OpKind.ADD, end.dims, [end.tensor, side.tensor], end.dims)
        y = self._relu(f"{prefix}relu", y, end.dims)
        return FeatureMap(tensor=y, channels=end.channels, height=end.height, width=end.width)
