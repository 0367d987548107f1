"""Making ops over factors, and those that are known by their cost alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils.flop_counter import FlopCounterMode

from proteus.errors import ModelError
from proteus.model.graph import OpKind
from proteus.torch_import.factors import Axes, Factor, atoms, fresh
from proteus.torch_import.patterns import Groups, is_tensor, op_of, shape_of
from proteus.torch_import.raw import RawOp, RawTensor, Value
from proteus.torch_import.trace import Trace

#: weights of hints: what the caller said, what the inputs are, what an op is, what a module is called
SAID, INPUT, OP, PLACE = 100, 50, 20, 10


class Ops:
    """The ops of a trace so far, and the values of its nodes.

    Attributes
    ----------
    ops
        In the order in which they run.
    notes
        What was guessed or is known only by its cost, a sentence each.
    opaque
        Operators that are costed and not understood, with the paths where they stand.
    """

    def __init__(self, trace: Trace, groups: Groups, dims: Mapping[str, Sequence[str]]) -> None:
        self.trace, self.groups = trace, groups
        self.trains = groups.trains
        self.ops: list[RawOp] = []
        self.notes: list[str] = []
        self.opaque: dict[str, list[str]] = {}
        self.values: dict[fx.Node, Any] = {}
        self.parameters: dict[int, RawTensor] = {}
        self.batch = Factor(trace.batch)
        self.batch.hint("batch", INPUT)
        self.seq: list[Factor] = []
        self._paths: dict[str, int] = {}
        self._modules = {node.meta["path"] for node in trace.nodes}
        self._selected: dict[Any, list[Value]] = {}
        self._heads: dict[tuple[str, int], Factor] = {}
        self._inputs(dims)
        for node, (path, parameter) in trace.parameters.items():
            factors = [Factor(size) for size in parameter.shape]
            # a convolution's weight has all its dims; elsewhere a dim of size 1 is there to be broadcast
            own = factors if len(factors) == 4 else [f for f in factors if f.size > 1]
            tensor = RawTensor(name=path, factors=own, kind="parameter")
            self.parameters[id(parameter)] = tensor
            self.values[node] = Value(tensor=tensor, axes=[[f] if f.size > 1 else [] for f in factors])

    def _inputs(self, dims: Mapping[str, Sequence[str]]) -> None:
        """Example inputs: their first dim is the batch, the second of ids is the sequence, unless `dims` says so."""
        for place, node in enumerate(self.trace.inputs):
            if not is_tensor(node):
                continue
            shape, value = shape_of(node), node.meta["val"]
            said = dims.get(node.name, dims.get(str(place), ()))
            if said and len(said) != len(shape):
                raise ModelError(
                    f"from_torch: dims of {node.name} are {list(said)}; it has {len(shape)} dims: {list(shape)}"
                )
            factors = []
            for axis, size in enumerate(shape):
                name = said[axis] if said else ""
                if name == "batch" or (not said and axis == 0 and size == self.trace.batch):
                    factors.append(self.batch)
                    continue
                factor = Factor(size)
                if name:
                    factor.hint(name, SAID)
                elif (
                    axis == 1
                    and len(shape) in (2, 3)
                    and size > 1
                    and (len(shape) == 3 or not value.is_floating_point())
                ):
                    self._hint_seq(factor, node.name)
                elif len(shape) == 4:
                    factor.hint(("batch", "channels", "height", "width")[axis], PLACE)
                factors.append(factor)
            tensor = RawTensor(name=node.name, factors=factors, kind="input", dtype=dtype_of(value))
            self.values[node] = Value(tensor=tensor, axes=[[f] if f.size > 1 else [] for f in factors])

    def _hint_seq(self, factor: Factor, name: str) -> None:
        """The first sequence is ``seq``; another is called by its input, unless it turns out to be the first."""
        if self.seq:
            factor.hint(f"{name}_seq", INPUT - 1)
        else:
            factor.hint("seq", INPUT)
        self.seq.append(factor)

    def _batch_or_new(self, size: int, values: Sequence[Value], axis: int) -> list[Factor]:
        for value in values:
            if axis < len(value.axes) and atoms(value.axes[axis]) == [self.batch.root()] and size == self.batch.size:
                return [self.batch]
        return fresh(size)

    def value(self, node: Any) -> Value | None:
        found = self.values.get(node) if isinstance(node, fx.Node) else None
        return found if isinstance(found, Value) else None

    def add(
        self,
        path: str,
        kind: OpKind,
        ins: Sequence[RawTensor | tuple[RawTensor, list[Factor]]],
        out: list[Factor],
        node: fx.Node | None = None,
        *,
        what: str = "",
        dtype: str | None = None,
        **more: Any,
    ) -> RawTensor:
        """Append an op with one output over the factors `out`; the output."""
        if self.batch.root() in atoms(out) and kind not in (OpKind.CONV2D, OpKind.POOL2D):
            out = [self.batch.root(), *(f for f in atoms(out) if f is not self.batch.root())]
        tensor = RawTensor(name="", factors=out, dtype=dtype)
        operands = [item if isinstance(item, tuple) else (item, list(item.factors)) for item in ins]
        name = self._name(path, what or (op_of(node).partition(".")[0].strip("_") if node is not None else kind.value))
        op = RawOp(path=name, kind=kind, ins=operands, outs=[(tensor, list(out))], **more)
        tensor.maker, tensor.name = op, f"{name}.out"
        self.ops.append(op)
        return tensor

    def _name(self, path: str, what: str) -> str:
        """The path of a module that does one thing; that of others with what the op does."""
        leaf = self._is_leaf(path)
        name = path if leaf and path not in self._paths else f"{path}.{what}" if path else what
        self._paths[name] = self._paths.get(name, 0) + 1
        return name

    def _is_leaf(self, path: str) -> bool:
        """Whether no other module of the trace stands below this one."""
        return not any(other.startswith(f"{path}.") for other in self._modules) and path != ""

    def map(
        self, node: fx.Node, axes: Axes, values: Sequence[Value], indivisible: Sequence[Factor] = (), **more: Any
    ) -> Value:
        """A memory-bound op that is understood dim by dim."""
        inner = {id(f) for v in values for f in atoms(v.tensor.factors)} - {
            id(f) for f in atoms(g for a in axes for g in a)
        }
        held = [f for v in values for f in atoms(v.tensor.factors) if id(f) in inner]
        attrs = {"function": op_of(node).partition(".")[0].strip("_")}
        trained = [v.tensor for v in values if v.tensor.kind != "input"]
        tensor = self.add(
            node.meta["path"],
            OpKind.MAP,
            [v.tensor for v in values],
            flat(axes),
            node,
            indivisible=[*indivisible, *held],
            saves=[t for t in trained if t.kind == "activation"],
            attrs=attrs,
            **more,
        )
        return Value(tensor=tensor, axes=axes)

    def _opaque(self, node: fx.Node) -> Any:
        """An op known by its FLOP and bytes; it is cut along the batch, if at all."""
        outs = [
            v
            for v in (node.meta["val"] if isinstance(node.meta["val"], (tuple, list)) else [node.meta["val"]])
            if isinstance(v, torch.Tensor)
        ]
        values = [v for n in node.all_input_nodes if (v := self.value(n)) is not None]
        if not outs or not values:
            return None
        name = op_of(node)
        self.opaque.setdefault(name.partition(".")[0], []).append(node.meta["path"])
        made = []
        for number, out in enumerate(outs):
            axes = [self._batch_or_new(int(size), values, axis) for axis, size in enumerate(out.shape)]
            present = [f for v in values for f in atoms(v.tensor.factors)]
            inner = [f for f in [*present, *flat(axes)] if f is not self.batch.root()]
            flop = flop_of(node) / self.trace.batch if number == 0 else 0.0
            if all(self.batch.root() not in atoms(v.tensor.factors) for v in values) or self.batch.root() not in flat(
                axes
            ):
                inner.append(self.batch.root())
            tensor = self.add(
                node.meta["path"],
                OpKind.OPAQUE,
                [v.tensor for v in values],
                flat(axes),
                node,
                indivisible=inner,
                saves=[v.tensor for v in values if v.tensor.kind == "activation"],
                attrs={"function": name.partition(".")[0], "flop": flop},
            )
            made.append(Value(tensor=tensor, axes=axes))
        return made if isinstance(node.meta["val"], (tuple, list)) else made[0]


def trained(trace: Trace) -> set[fx.Node]:
    """Nodes that depend on a parameter."""
    found: set[fx.Node] = set(trace.parameters)
    for node in trace.nodes:
        if any(source in found for source in node.all_input_nodes):
            found.add(node)
    return found


def flat(axes: Axes) -> list[Factor]:
    return atoms(f for axis in axes for f in axis)


def twin(factor: Factor) -> Factor:
    """A factor of the same size beside one that an op needs twice."""
    factor.root().is_whole = True
    made = Factor(factor.size)
    made.is_whole = True
    return made


def is_named(factor: Factor, names: Collection[str]) -> bool:
    return any(name in factor.root().hints for name in names)


def without(value: Value, axis: int) -> Value:
    return Value(tensor=value.tensor, axes=[a for i, a in enumerate(value.axes) if i != axis])


def argument(node: fx.Node, place: int, name: str, default: Any) -> Any:
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)


def pair_of(value: Any) -> tuple[int, int] | None:
    """(height, width) of an argument that may be one number for both; None where it is a word."""
    if isinstance(value, str):
        return None
    if isinstance(value, (list, tuple)):
        return (int(value[0]), int(value[-1]))
    return (int(value), int(value))


_DTYPES = {torch.int64: "int64", torch.bool: "bool", torch.int32: "int64"}


def dtype_of(value: torch.Tensor) -> str | None:
    return _DTYPES.get(value.dtype)


def flop_of(node: fx.Node) -> float:
    """FLOP of an operator, as PyTorch's own counter has it."""
    args, kwargs = (
        fx.node.map_arg(node.args, lambda n: n.meta["val"]),
        fx.node.map_arg(node.kwargs, lambda n: n.meta["val"]),
    )
    tensors = [leaf for leaf in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    mode = getattr(tensors[0], "fake_mode", None) if tensors else None
    if mode is None or not callable(node.target):
        return 0.0
    with mode, FlopCounterMode(display=False) as counter:
        node.target(*args, **kwargs)
    return float(counter.get_total_flops())
