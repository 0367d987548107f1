"""From traced nodes to ops over factors, one node after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx

from proteus.errors import ModelError
from proteus.model.graph import OpKind
from proteus.torch_import.elementwise import FUNCTIONS
from proteus.torch_import.factors import atoms, size_of
from proteus.torch_import.losses import Losses
from proteus.torch_import.ops import dtype_of
from proteus.torch_import.patterns import CASTS, SHAPES, TURNS, Group, is_tensor, op_of, shape_of
from proteus.torch_import.raw import RawTensor, Value

#: other functions of one value, element by element
_ELEMENTWISE = {
    "exp",
    "log",
    "log1p",
    "sqrt",
    "rsqrt",
    "pow",
    "square",
    "abs",
    "leaky_relu",
    "leaky_relu_",
    "elu",
    "elu_",
    "softplus",
    "mish",
    "mish_",
    "hardswish",
    "hardswish_",
    "hardsigmoid",
    "hardsigmoid_",
    "hardtanh",
    "hardtanh_",
    "relu6",
    "relu6_",
    "clamp",
    "clamp_",
    "clamp_min",
    "cos",
    "sin",
    "erf",
    "reciprocal",
    "log_sigmoid",
    "logsigmoid",
    "selu",
    "celu",
    "prelu",
    "where",
    "masked_fill",
    "masked_fill_",
    "sub",
    "sub_",
    "rsub",
    "div",
    "div_",
    "mul",
    "mul_",
    "maximum",
    "minimum",
    "addcmul",
    "lerp",
    "logaddexp",
    "fill",
    "neg",
    "stack",
}
_REDUCTIONS = {"mean", "sum", "amax", "amin", "var", "var_mean", "norm", "linalg_vector_norm", "logsumexp", "prod"}
#: ops along one dim that leave the shape as it is
_ALONG = {"softmax", "_softmax", "log_softmax", "cumsum", "cumprod", "flip", "roll", "sort", "logcumsumexp"}
#: the loss of a module that has none
DEFAULT_LOSS = "mse"


class Translator(Losses):
    """The ops of a trace: every node goes to the method for its operator, ``_op_<name>``, or to that of its kind."""

    def run(self, loss: str | None) -> None:
        """Translate every node, and end in a loss."""
        for node in self.trace.nodes:
            if node in self.groups.inside:
                continue
            if node in self.groups.made:
                self.values[node] = self._group(node, self.groups.made[node])
            elif node in self.trains:
                self.values[node] = self._node(node)
                if is_tensor(node) and self.values[node] is None:
                    where = node.meta["path"] or "the module itself"
                    raise ModelError(f"from_torch: {where}: {op_of(node)} of these inputs cannot be imported")
            elif (value := self._data(node)) is not None:
                self.values[node] = value
        self._end(loss)

    def _data(self, node: fx.Node) -> Any:
        """What is computed of the example inputs alone: seen as another piece of data where it keeps their dims."""
        sources = [n for n in node.all_input_nodes if isinstance(self.values.get(n), Value)]
        if not is_tensor(node) or not sources:
            return None
        source = sources[0]
        name = op_of(node)
        if name in CASTS | TURNS | SHAPES:
            return self._node(node)
        shape = shape_of(node)
        if shape == shape_of(source):
            axes = self.values[source].axes
        else:
            axes = [self._batch_or_new(size, [self.values[source]], axis) for axis, size in enumerate(shape)]
        factors = atoms(f for axis in axes for f in axis)
        tensor = RawTensor(name=node.name, factors=factors, kind="input", dtype=dtype_of(node.meta["val"]))
        return Value(tensor=tensor, axes=[list(axis) for axis in axes])

    def _group(self, node: fx.Node, group: Group) -> Any:
        if group.kind == "same":
            return self.values.get(group.inputs[0])
        if any(not isinstance(self.values.get(n), Value) for n in group.inputs):
            return self._opaque(node)
        values = [self.values[n] for n in group.inputs]
        match group.kind:
            case "rms_norm":
                return self._norm(OpKind.RMS_NORM, group.path, values[0], values[1:], node)
            case "activation":
                return self._activation(values[0], str(group.attrs["function"]), group.path, node)
            case _:
                return self._attention(node, group, values)

    def _node(self, node: fx.Node) -> Any:
        name = op_of(node)
        base = name.partition(".")[0]
        if name in CASTS:
            return self.values.get(node.args[0])  # type: ignore[arg-type]
        if base == "getitem":
            parts, place = self.values.get(node.args[0]), node.args[1]  # type: ignore[arg-type]
            return parts[place] if isinstance(parts, (list, tuple)) and isinstance(place, int) else parts
        handler: Callable[[fx.Node], Any] | None = getattr(self, f"_op_{base}", None)
        if handler is not None:
            made = handler(node)
            if made is not None:
                return made
        if name in SHAPES:
            return self._viewed(node)
        if base in _ELEMENTWISE or base.rstrip("_") in FUNCTIONS:
            return self._elementwise(node)
        if base in _REDUCTIONS:
            return self._reduce(node)
        if base in _ALONG:
            return self._along(node)
        return self._opaque(node)

    def _end(self, loss: str | None) -> None:
        value = self.value(self.trace.output)
        if value is None or self.trace.output not in self.trains:
            raise ModelError(
                "from_torch: what the module returns depends on no parameter; return what is trained on, or the loss"
            )
        if value.axes or size_of(value.factors()) > 1:
            if loss is None:
                self.notes.append("The module returns no loss: a mean squared error of its output was added; say loss=")
            if loss == "cross_entropy":
                value = self._cross_entropy(value, 1 if len(value.axes) == 4 else len(value.axes) - 1, "")
            else:
                value = self._mean_loss(value, DEFAULT_LOSS, "")
        elif loss is not None:
            raise ModelError(
                f"from_torch: loss={loss!r}, but the module returns a scalar, its own loss; leave loss out"
            )
        self.loss = value.tensor
