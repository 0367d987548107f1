"""Convolutions, pooling and concatenation."""

from __future__ import annotations

from typing import Any

from torch import fx

from proteus.model.graph import OpKind
from proteus.torch_import.factors import Axes, Factor, atoms, unify
from proteus.torch_import.layers import Layers
from proteus.torch_import.ops import OP, PLACE, argument, flat, is_named, pair_of
from proteus.torch_import.patterns import shape_of
from proteus.torch_import.raw import RawTensor, Value


class Images(Layers):
    """Operators of convolutional networks."""

    def _op_conv2d(self, node: fx.Node) -> Any:
        x, w = self.value(node.args[0]), self.value(node.args[1])
        bias = self.value(argument(node, 2, "bias", None))
        if x is None or w is None or w.tensor.kind != "parameter":
            return None
        stride, padding, dilation = (
            pair_of(argument(node, i, n, d)) for i, n, d in ((3, "stride", 1), (4, "padding", 0), (5, "dilation", 1))
        )
        groups = int(argument(node, 6, "groups", 1))
        shape, out_shape, kernel = shape_of(node.args[0]), shape_of(node), shape_of(node.args[1])[2:]  # type: ignore[arg-type]
        if len(x.tensor.factors) == 2 and kernel == (1, 1) and groups == 1:
            axes_w = w.axes[1]
            made = self._linear(
                node,
                Value(tensor=x.tensor, axes=[x.axes[0], x.axes[1]]),
                axes_w,
                [w.axes[0]],
                Value(tensor=self._squeezed(w.tensor), axes=w.axes[:2]),
                bias,
            )
            return Value(tensor=made.tensor, axes=[*made.axes, [], []])
        factors = self._image(x)
        if factors is None or padding is None or dilation != (1, 1):
            return None
        w_factors = w.tensor.factors
        if groups == 1 and x.axes[1] and not unify([factors[1]], [w_factors[1]]):
            return None
        for axis, letter in ((2, "h"), (3, "w")):
            w_factors[axis].hint(f"kernel_{letter}{kernel[axis - 2]}", OP)
        same = [shape[2 + i] == out_shape[2 + i] for i in (0, 1)]
        space = [factors[2 + i] if same[i] else Factor(out_shape[2 + i]) for i in (0, 1)]
        for f, letter in zip(space, "hw", strict=True):
            f.hint(f"{letter}{f.size}", PLACE + 1)
        for f, letter in zip(factors[2:], "hw", strict=True):
            f.hint(f"{letter}{f.size}", PLACE + 1)
        w_factors[0].hint("channels", PLACE)
        out = [factors[0], w_factors[0], *space]
        inner = [
            *factors[2:],
            *space,
            *w_factors[2:],
            *([] if groups == 1 else [factors[1], w_factors[0], w_factors[1]]),
        ]
        attrs: dict[str, Any] = {"kernel": tuple(kernel), "stride": stride, "padding": padding}
        if groups > 1:
            attrs["groups"] = groups
        tensor = self.add(
            node.meta["path"],
            OpKind.CONV2D,
            [(x.tensor, factors), w.tensor],
            out,
            node,
            indivisible=inner,
            reduction=[factors[1]] if groups == 1 else [],
            saves=[x.tensor],
            attrs=attrs,
        )
        axes: Axes = [[f] if f.size > 1 else [] for f in out]
        if bias is not None and unify(bias.axes[0], [w_factors[0]]):
            tensor = self.add(node.meta["path"], OpKind.ADD, [tensor, bias.tensor], out, what="bias")
        return Value(tensor=tensor, axes=axes)

    def _squeezed(self, weight: RawTensor) -> RawTensor:
        weight.factors = weight.factors[:2]
        return weight

    def _image(self, x: Value) -> list[Factor] | None:
        """The factors of a tensor that is exactly [batch, channels, height, width]."""
        factors = list(x.tensor.factors)
        flat = [f for f in atoms(factors) if f.size > 1]
        seen = [f for axis in x.axes for f in atoms(axis)]
        if (
            len(factors) != 4
            or [id(f) for f in flat] != [id(f) for f in seen]
            or any(len(atoms(a)) > 1 for a in x.axes)
        ):
            return None
        return [f.root() for f in factors]

    def _pool(self, node: fx.Node, function: str) -> Any:
        x = self.value(node.args[0])
        factors = None if x is None else self._image(x)
        if x is None or factors is None:
            return None
        value = node.meta["val"]
        out_shape = tuple((value[0] if isinstance(value, (tuple, list)) else value).shape)
        kernel, padding = pair_of(node.args[1]), pair_of(argument(node, 3, "padding", 0))
        stride = pair_of(argument(node, 2, "stride", None) or node.args[1])
        space = [Factor(size) for size in out_shape[2:]]
        for f, letter in zip(space, "hw", strict=True):
            f.hint(f"{letter}{f.size}", PLACE + 1)
        out = [*factors[:2], *space]
        saves = [x.tensor]
        indices = RawTensor(name="", factors=out, kind="saved", dtype="int64")
        tensor = self.add(
            node.meta["path"],
            OpKind.POOL2D,
            [(x.tensor, factors)],
            out,
            node,
            indivisible=[*factors[2:], *space],
            saves=[*saves, indices] if function == "max" else saves,
            attrs={"function": function, "kernel": kernel, "stride": stride, "padding": padding},
        )
        assert tensor.maker is not None
        indices.name = f"{tensor.maker.path}.indices"
        return Value(tensor=tensor, axes=[[f] if f.size > 1 else [] for f in out])

    def _op_max_pool2d(self, node: fx.Node) -> Any:
        return self._pool(node, "max")

    def _op_avg_pool2d(self, node: fx.Node) -> Any:
        return self._pool(node, "average")

    def _op_adaptive_avg_pool2d(self, node: fx.Node) -> Any:
        x = self.value(node.args[0])
        factors = None if x is None else self._image(x)
        if x is None or factors is None or shape_of(node)[2:] != (1, 1):
            return self.value(node.args[0]) if x is not None and shape_of(node) == shape_of(node.args[0]) else None  # type: ignore[arg-type]
        tensor = self.add(
            node.meta["path"],
            OpKind.POOL2D,
            [(x.tensor, factors)],
            factors[:2],
            node,
            indivisible=factors[2:],
            saves=[x.tensor],
            attrs={"function": "average"},
        )
        return Value(tensor=tensor, axes=[[f] if f.size > 1 else [] for f in factors[:2]] + [[], []])

    def _op_cat(self, node: fx.Node) -> Any:
        nodes = list(node.args[0])  # type: ignore[arg-type]
        values = [self.value(n) for n in nodes]
        if any(v is None for v in values):
            return None
        given = [v for v in values if v is not None]
        axis = int(argument(node, 1, "dim", 0)) % len(given[0].axes)
        given = [self.merged(v, axis) if len(atoms(v.axes[axis])) > 1 else v for v in given]
        rank = len(given[0].axes)
        axes: Axes = [[] for _ in range(rank)]
        for value in given:
            for i in range(rank):
                if i != axis and value.axes[i] and axes[i]:
                    if not unify(axes[i], value.axes[i]):
                        return None
                elif i != axis and value.axes[i]:
                    axes[i] = list(value.axes[i])
        whole = Factor(shape_of(node)[axis])
        if any(atoms(v.axes[axis]) and is_named(atoms(v.axes[axis])[0], ("seq",)) for v in given):
            whole.hint("seq", PLACE)
        axes[axis] = [whole]
        inner = [whole, *(f for v in given for f in atoms(v.axes[axis]))]
        tensor = self.add(
            node.meta["path"],
            OpKind.CONCAT,
            [v.tensor for v in given],
            flat(axes),
            node,
            indivisible=inner,
            attrs={"dim": whole},
        )
        return Value(tensor=tensor, axes=axes)
