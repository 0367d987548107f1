"""From traced nodes to ops over factors, one node after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils.flop_counter import FlopCounterMode

from proteus.errors import ModelError
from proteus.model.graph import OpKind
from proteus.torch_import.factors import Axes, Factor, atoms, fresh, reshape, size_of, unify
from proteus.torch_import.patterns import CASTS, SHAPES, TURNS, Group, Groups, is_tensor, op_of, shape_of
from proteus.torch_import.raw import RawOp, RawTensor, Value
from proteus.torch_import.trace import Trace

#: weights of hints: what the caller said, what the inputs are, what an op is, what a module is called
SAID, INPUT, OP, PLACE = 100, 50, 20, 10
#: activations whose numeric meaning verify knows, and what autograd keeps of them
_FUNCTIONS = {"gelu": "in", "relu": "out", "silu": "in", "sigmoid": "out", "tanh": "out"}
_GATED = {"silu": "swiglu", "gelu": "geglu"}
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


class Translator:
    """The ops of a trace.

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
            tensor = RawTensor(name=node.name, factors=factors, kind="input", dtype=_dtype(value))
            self.values[node] = Value(tensor=tensor, axes=[[f] if f.size > 1 else [] for f in factors])

    def _hint_seq(self, factor: Factor, name: str) -> None:
        """The first sequence is ``seq``; another is called by its input, unless it turns out to be the first."""
        if self.seq:
            factor.hint(f"{name}_seq", INPUT - 1)
        else:
            factor.hint("seq", INPUT)
        self.seq.append(factor)

    # -- the walk ------------------------------------------------------------------

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
        tensor = RawTensor(name=node.name, factors=factors, kind="input", dtype=_dtype(node.meta["val"]))
        return Value(tensor=tensor, axes=[list(axis) for axis in axes])

    def _batch_or_new(self, size: int, values: Sequence[Value], axis: int) -> list[Factor]:
        for value in values:
            if axis < len(value.axes) and atoms(value.axes[axis]) == [self.batch.root()] and size == self.batch.size:
                return [self.batch]
        return fresh(size)

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
        if base in _ELEMENTWISE or base.rstrip("_") in _FUNCTIONS:
            return self._elementwise(node)
        if base in _REDUCTIONS:
            return self._reduce(node)
        if base in _ALONG:
            return self._along(node)
        return self._opaque(node)

    def value(self, node: Any) -> Value | None:
        found = self.values.get(node) if isinstance(node, fx.Node) else None
        return found if isinstance(found, Value) else None

    # -- making ops --------------------------------------------------------------------

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
        if not hasattr(self, "_leaves"):
            paths = {node.meta["path"] for node in self.trace.nodes}
            counts: dict[str, int] = {}
            for node in self.trace.nodes:
                counts[node.meta["path"]] = counts.get(node.meta["path"], 0) + 1
            parents = {p[:i] for p in paths for i, c in enumerate(p) if c == "."} | {""}
            self._leaves = paths - parents
        return path in self._leaves or path not in {node.meta["path"] for node in self.trace.nodes}

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
            _flat(axes),
            node,
            indivisible=[*indivisible, *held],
            saves=[t for t in trained if t.kind == "activation"],
            attrs=attrs,
            **more,
        )
        return Value(tensor=tensor, axes=axes)

    # -- views ---------------------------------------------------------------------------

    def _viewed(self, node: fx.Node) -> Value | None:
        value = self.value(node.args[0])
        if value is None or value.state == "rows":
            return value
        if op_of(node).startswith("expand"):
            return self._expanded(value, shape_of(node))
        axes = reshape(value.axes, shape_of(node))
        return (
            Value(tensor=value.tensor, axes=axes, state=value.state)
            if axes is not None
            else self._cut_across(node, value)
        )

    def _cut_across(self, node: fx.Node, value: Value) -> Value:
        """A view that cuts across a dim which an op needs whole."""
        shape, axes, rest = shape_of(node), [], list(value.axes)
        same = 0
        while same < min(len(shape), len(rest)) and size_of(rest[same]) == shape[same]:
            axes.append(list(rest[same]))
            same += 1
        axes += [fresh(size) for size in shape[same:]]
        return self.map(node, axes, [value], [f for axis in axes[same:] for f in axis])

    def _expanded(self, value: Value, shape: Sequence[int]) -> Value:
        axes: Axes = [[] for _ in range(len(shape) - len(value.axes))] + [list(axis) for axis in value.axes]
        made = [axis if axis or size == 1 else fresh(size) for axis, size in zip(axes, shape, strict=True)]
        return Value(tensor=value.tensor, axes=made, state=value.state)

    def _turned(self, node: fx.Node, order: Sequence[int]) -> Value | None:
        value = self.value(node.args[0])
        if value is None or value.state == "rows":
            return value
        axes = [value.axes[i] for i in order]
        if self._is_image(value.tensor) and atoms(value.tensor.factors) == value.factors():
            # channels to the end, as all that follows has them: no kernel, and layers that are equal look so
            flat = _flat(axes)
            tensor = self.add(node.meta["path"], OpKind.RESHAPE, [value.tensor], flat, node)
            return Value(tensor=tensor, axes=axes)
        return Value(tensor=value.tensor, axes=axes, state=value.state)

    def _is_image(self, tensor: RawTensor) -> bool:
        maker = tensor.maker
        while maker is not None and maker.kind in (OpKind.ADD, OpKind.ACTIVATION, OpKind.BATCH_NORM):
            maker = maker.ins[0][0].maker
        return maker is not None and maker.kind in (OpKind.CONV2D, OpKind.POOL2D)

    def _op_transpose(self, node: fx.Node) -> Value | None:
        rank = len(shape_of(node))
        one, two = (int(a) % rank for a in node.args[1:3])  # type: ignore[arg-type]
        order = list(range(rank))
        order[one], order[two] = two, one
        return self._turned(node, order)

    _op_swapaxes = _op_transpose

    def _op_permute(self, node: fx.Node) -> Value | None:
        return self._turned(node, [int(a) % len(shape_of(node)) for a in node.args[1]])  # type: ignore[union-attr, arg-type]

    def _op_t(self, node: fx.Node) -> Value | None:
        return self._turned(node, list(reversed(range(len(shape_of(node))))))

    def _op_mT(self, node: fx.Node) -> Value | None:
        rank = len(shape_of(node))
        return self._turned(node, [*range(rank - 2), rank - 1, rank - 2])

    def _op_repeat_interleave(self, node: fx.Node) -> Value | None:
        value = self.value(node.args[0])
        if value is None or op_of(node) != "repeat_interleave.self_int" or len(node.args) < 3:
            return None
        axes = [list(axis) for axis in value.axes]
        axes[int(node.args[2])] += fresh(int(node.args[1]))  # type: ignore[arg-type]
        return Value(tensor=value.tensor, axes=axes)

    def _op_repeat(self, node: fx.Node) -> Value | None:
        value = self.value(node.args[0])
        if value is None:
            return None
        times = [int(n) for n in node.args[1]]  # type: ignore[union-attr, arg-type]
        axes: Axes = [[] for _ in range(len(times) - len(value.axes))] + [list(axis) for axis in value.axes]
        return Value(tensor=value.tensor, axes=[[*fresh(n), *axis] for n, axis in zip(times, axes, strict=True)])

    def merged(self, value: Value, axis: int) -> Value:
        """The value with one factor along a dim, which stays whole."""
        parts = atoms(value.axes[axis])
        if len(parts) == 1:
            parts[0].is_whole = True
            return value
        if not parts:
            one = Factor(1)
            value.axes[axis] = [one]
            return value
        whole = Factor(size_of(parts))
        whole.is_whole = True
        axes = [list(a) for a in value.axes]
        axes[axis] = [whole]
        inside = atoms(value.tensor.factors)
        if not all(any(p is f for f in inside) for p in parts):
            return Value(tensor=value.tensor, axes=axes)
        out = [f for f in inside if f not in parts]
        at = inside.index(parts[0]) if parts[0] in inside else len(out)
        out.insert(min(at, len(out)), whole)
        maker = value.tensor.maker
        tensor = self.add(
            maker.path.rpartition(".")[0] if maker else "",
            OpKind.RESHAPE,
            [value.tensor],
            out,
            what="merge",
            indivisible=[*parts, whole],
            attrs={"merge": (whole, tuple(parts))},
        )
        return Value(tensor=tensor, axes=axes)

    # -- parts of a dim --------------------------------------------------------------------

    def _op_split(self, node: fx.Node) -> Any:
        value = self.value(node.args[0])
        if value is None:
            return None
        axis = int(_arg(node, 2, "dim", 0)) % len(value.axes)
        sizes = [int(v.shape[axis]) for v in node.meta["val"]]
        return self._parts(node, value, axis, sizes)

    _op_split_with_sizes = _op_chunk = _op_tensor_split = _op_split

    def _op_unbind(self, node: fx.Node) -> Any:
        value = self.value(node.args[0])
        if value is None:
            return None
        axis = int(_arg(node, 1, "dim", 0)) % len(value.axes)
        number = len(node.meta["val"])
        parts = self._parts(node, value, axis, [1] * number)
        return [_without(part, axis) for part in parts]

    def _op_select(self, node: fx.Node) -> Any:
        value = self.value(node.args[0])
        if value is None:
            return None
        axis, index = int(node.args[1]) % len(value.axes), int(node.args[2])  # type: ignore[arg-type]
        size = size_of(value.axes[axis])
        key = (id(value.tensor), tuple(id(f) for f in atoms(value.axes[axis])))
        maker = value.tensor.maker
        if maker is not None and maker.kind is OpKind.LINEAR and self._only_selected(node, axis):
            shared = self._split_linears.setdefault(key, self._parts(node, value, axis, [1] * size))
            return _without(shared[index % size], axis)
        factors = atoms(value.axes[axis])
        axes = [list(a) for i, a in enumerate(value.axes) if i != axis]
        if len(factors) == 1 and factors[0] in atoms(value.tensor.factors):
            out = [f for f in atoms(value.tensor.factors) if f is not factors[0]]
            tensor = self.add(
                node.meta["path"],
                OpKind.SELECT,
                [value.tensor],
                out,
                node,
                indivisible=factors,
                attrs={"dim": factors[0], "index": index % size},
            )
            return Value(tensor=tensor, axes=axes)
        return self.map(node, axes, [value], factors)

    @property
    def _split_linears(self) -> dict[Any, list[Value]]:
        if not hasattr(self, "_split_memo"):
            self._split_memo: dict[Any, list[Value]] = {}
        return self._split_memo

    def _only_selected(self, node: fx.Node, axis: int) -> bool:
        (source,) = node.all_input_nodes
        rank = len(shape_of(source))
        return all(op_of(u) == "select.int" and int(u.args[1]) % rank == axis for u in source.users)  # type: ignore[arg-type]

    def _op_slice(self, node: fx.Node) -> Any:
        value = self.value(node.args[0])
        if value is None:
            return None
        axis = int(_arg(node, 1, "dim", 0)) % len(value.axes)
        (before,) = [shape_of(n) for n in node.all_input_nodes[:1]]
        after = shape_of(node)
        if before == after:
            return value
        if before[axis] - after[axis] == 1 and self._feeds_loss(node):
            self.notes.append("The loss drops one token of each sample; Proteus counts all of them")
            return Value(tensor=value.tensor, axes=value.axes, state="rows")
        axes = [list(a) for a in value.axes]
        axes[axis] = fresh(after[axis])
        if value.tensor.kind == "parameter" and len(value.axes) == len(value.tensor.factors):
            return Value(tensor=value.tensor, axes=axes, state="position")  # the first rows of a table
        return self.map(node, axes, [value], [*atoms(value.axes[axis]), *axes[axis]])

    _op_narrow = _op_slice

    def _feeds_loss(self, node: fx.Node) -> bool:
        at = node
        while len(at.users) == 1:
            (at,) = at.users
            if op_of(at) in {"cross_entropy_loss.default", "log_softmax.int"}:
                return True
            if at.op == "output" or op_of(at) not in CASTS | SHAPES | TURNS:
                return False
        return False

    def _parts(self, node: fx.Node, value: Value, axis: int, sizes: Sequence[int]) -> list[Value]:
        """The pieces of a dim: products of their own where a linear makes it, copies else."""
        whole = atoms(value.axes[axis])
        if value.tensor.kind == "parameter" and value.tensor.factors == value.factors():
            return self._pieces(value, axis, sizes)
        maker = value.tensor.maker
        inside = atoms(value.tensor.factors)
        if (
            maker is not None
            and maker.kind is OpKind.LINEAR
            and len(maker.outs) == 1
            and all(f in inside for f in whole)
            and not value.tensor.biases
            and all(f in atoms(maker.ins[1][0].factors) for f in whole)
            and len(value.tensor.name) > 0
        ):
            return self._split_linear(maker, value, axis, whole, sizes)
        found = []
        for number, size in enumerate(sizes):
            axes = [list(a) for a in value.axes]
            axes[axis] = fresh(size)
            part = self.map(node, axes, [value], [*whole, *axes[axis]])
            assert part.tensor.maker is not None
            part.tensor.maker.attrs["part"] = number
            found.append(part)
        return found

    def _pieces(self, value: Value, axis: int, sizes: Sequence[int]) -> list[Value]:
        """The pieces of a parameter, each a parameter of its own (``in_proj_weight`` of nn.MultiheadAttention)."""
        found = []
        for number, size in enumerate(sizes):
            axes = [list(a) for a in value.axes]
            axes[axis] = fresh(size)
            axes = [[Factor(f.size) for f in atoms(a)] for a in axes]
            tensor = RawTensor(
                name=f"{value.tensor.name}.{number}", factors=_flat(axes), kind="parameter", dtype=value.tensor.dtype
            )
            found.append(Value(tensor=tensor, axes=axes))
        return found

    def _split_linear(
        self, op: RawOp, value: Value, axis: int, whole: list[Factor], sizes: Sequence[int]
    ) -> list[Value]:
        """One product with several outputs, each with its rows of the weight."""
        (x, x_factors), (weight, _), *bias = op.ins
        found, weights, biases, outs = [], [], [], []
        for number, size in enumerate(sizes):
            new = fresh(size)

            def part(factors: list[Factor], new: list[Factor] = new) -> list[Factor]:
                made: list[Factor] = []
                for factor in atoms(factors):
                    if factor is whole[0]:
                        made += new
                    elif factor not in whole:
                        made.append(factor)
                return made

            rows = RawTensor(
                name=f"{weight.name}.{number}", factors=part(weight.factors), kind="parameter", dtype=weight.dtype
            )
            weights.append((rows, list(rows.factors)))
            for of, _ in bias:
                cut = RawTensor(name=f"{of.name}.{number}", factors=part(of.factors), kind="parameter", dtype=of.dtype)
                biases.append((cut, list(cut.factors)))
            tensor = RawTensor(name=f"{op.path}.{number}", factors=part(value.tensor.factors), maker=op)
            outs.append((tensor, list(tensor.factors)))
            axes = [list(a) for a in value.axes]
            axes[axis] = new
            found.append(Value(tensor=tensor, axes=axes))
        op.ins, op.outs = [(x, x_factors), *weights, *biases], outs
        return found

    # -- products ----------------------------------------------------------------------------

    def _op_linear(self, node: fx.Node) -> Any:
        x, w = self.value(node.args[0]), self.value(node.args[1])
        bias = self.value(node.args[2]) if len(node.args) > 2 else None
        if x is None or w is None or w.tensor.kind != "parameter":
            return self._matmul(node, x, None if w is None else Value(tensor=w.tensor, axes=[w.axes[1], w.axes[0]]))
        return self._linear(node, x, w.axes[-1], [*w.axes[:-1]], w, bias)

    def _linear(self, node: fx.Node, x: Value, inner: list[Factor], outer: Axes, w: Value, bias: Value | None) -> Any:
        if not unify(x.axes[-1], inner):
            return self._opaque(node)
        if bias is not None and not unify(bias.axes[-1], outer[-1]):
            return self._opaque(node)
        axes = [*x.axes[:-1], *outer]
        ins = [x.tensor, w.tensor]
        later = bias is not None and self._adds_bias_later(node)
        if bias is not None and not later:
            ins.append(bias.tensor)
        of_weight = w.tensor.name.rpartition(".")[0]
        path = of_weight if of_weight.startswith(f"{node.meta['path']}.") else node.meta["path"]
        tensor = self.add(path, OpKind.LINEAR, ins, _flat(axes), node, saves=[x.tensor])
        if bias is not None and later:
            tensor.biases.append(bias.tensor)
        return Value(tensor=tensor, axes=[list(a) for a in axes])

    def _adds_bias_later(self, node: fx.Node) -> bool:
        """Whether the one reader is a dropout or a sum, which then adds the bias: the product's input may be cut."""
        at = node
        while True:
            users = self.groups.users(at)
            if len(users) != 1:
                return False
            at = users[0]
            name = op_of(at)
            if name == "dropout.default" and float(at.args[1]) > 0.0:  # type: ignore[arg-type]
                return True
            if name in {"add.Tensor", "add_.Tensor"}:
                return len([a for a in at.all_input_nodes if a in self.trains and a not in self.trace.parameters]) == 2
            if name not in CASTS | SHAPES | TURNS and name != "dropout.default":
                return False

    def _op_addmm(self, node: fx.Node) -> Any:
        bias, x, w = (self.value(a) for a in node.args[:3])
        if x is None or w is None or bias is None or w.tensor.kind != "parameter":
            return None
        return self._linear(node, x, w.axes[0], [w.axes[1]], w, bias)

    def _op_matmul(self, node: fx.Node) -> Any:
        a, b = self.value(node.args[0]), self.value(node.args[1])
        if a is not None and b is not None and b.tensor.kind == "parameter" and len(b.axes) == 2:
            return self._linear(node, a, b.axes[0], [b.axes[1]], b, None)
        return self._matmul(node, a, b)

    _op_mm = _op_bmm = _op_matmul

    def _matmul(self, node: fx.Node, a: Value | None, b: Value | None) -> Any:
        if a is None or b is None or min(len(a.axes), len(b.axes)) < 2:
            return self._opaque(node)
        rank = max(len(a.axes), len(b.axes))
        left: Axes = [[] for _ in range(rank - len(a.axes))] + a.axes
        right: Axes = [[] for _ in range(rank - len(b.axes))] + b.axes
        if not unify(left[-1], right[-2]):
            return self._opaque(node)
        batch: Axes = []
        for one, two in zip(left[:-2], right[:-2], strict=True):
            if one and two and not unify(one, two):
                return self._opaque(node)
            batch.append(list(one or two))
        return self._product(node, a, b, left[-2], right[-1], batch, left[-1])

    def _product(
        self,
        node: fx.Node,
        a: Value,
        b: Value,
        rows: list[Factor],
        columns: list[Factor],
        batch: Axes,
        depth: list[Factor],
    ) -> Value:
        taken = {id(f) for f in atoms([*rows, *(f for axis in batch for f in axis)])}
        twins = {id(f): _twin(f) for f in atoms(columns) if id(f) in taken}
        out_columns = [twins.get(id(f), f) for f in atoms(columns)]
        b_factors = [
            twins.get(id(f), f) if id(f) in {id(c) for c in atoms(columns)} else f for f in atoms(b.tensor.factors)
        ]
        axes = [*batch, list(rows), out_columns]
        kind = OpKind.MATMUL
        if b.tensor.kind == "parameter" or a.tensor.kind == "parameter":
            kind = OpKind.LINEAR
            if a.tensor.kind == "parameter":
                a, b = b, a
                operands: list[Any] = [(a.tensor, b_factors), b.tensor]
            else:
                operands = [a.tensor, (b.tensor, b_factors)]
        else:
            operands = [a.tensor, (b.tensor, b_factors)]
        present = {id(f) for item in operands for f in atoms(item[1] if isinstance(item, tuple) else item.factors)}
        out = [f for f in _flat(axes) if id(f) in present]
        saves = [t for t in (a.tensor, b.tensor) if t.kind != "parameter"]
        tensor = self.add(node.meta["path"], kind, operands, out, node, saves=saves)
        return Value(tensor=tensor, axes=axes)

    def _op_einsum(self, node: fx.Node) -> Any:
        equation, terms = str(node.args[0]).replace(" ", ""), node.args[1]
        values = [self.value(t) for t in terms]  # type: ignore[union-attr]
        if len(values) != 2 or None in values or "." in equation or "->" not in equation:
            return None
        left, _, out = equation.partition("->")
        letters: dict[str, list[Factor]] = {}
        for spelled, value in zip(left.split(","), values, strict=True):
            assert value is not None
            for letter, axis in zip(spelled, value.axes, strict=True):
                if letter in letters and not unify(letters[letter], axis):
                    return None
                letters.setdefault(letter, axis)
        a, b = values
        assert a is not None and b is not None
        axes = [list(letters[letter]) for letter in out]
        flat = _flat(axes)
        if len({id(f) for f in flat}) != len(flat):
            only_b = [c for c in out if c not in left.split(",")[0]]
            rows = [f for c in out if c not in only_b for f in letters[c]]
            made = self._product(node, a, b, rows, [f for c in only_b for f in letters[c]], [], [])
            return Value(tensor=made.tensor, axes=reshape([made.factors()], shape_of(node)) or axes)
        is_weighted = "parameter" in (a.tensor.kind, b.tensor.kind)
        if a.tensor.kind == "parameter":
            a, b = b, a
        saves = [t for t in (a.tensor, b.tensor) if t.kind != "parameter"]
        kind = OpKind.LINEAR if is_weighted else OpKind.MATMUL
        tensor = self.add(node.meta["path"], kind, [a.tensor, b.tensor], flat, node, saves=saves)
        return Value(tensor=tensor, axes=axes)

    def _attention(self, node: fx.Node, group: Group, values: Sequence[Value]) -> Any:
        q, k, v = values
        if group.attrs["transposed"]:
            k = Value(tensor=k.tensor, axes=[*k.axes[:-2], k.axes[-1], k.axes[-2]])
        if len(q.axes) < 3:
            return self._opaque(node)
        ok = unify(q.axes[-1], k.axes[-1])
        q, k, v = self.merged(q, -2), self.merged(k, -2), self.merged(v, -2)
        ok &= unify(k.axes[-2], v.axes[-2])
        for other in (k, v):
            for axis, (one, two) in enumerate(zip(q.axes[:-2], other.axes[:-2], strict=True)):
                many, few = size_of(one), size_of(two)
                if many != few and few and many % few == 0 and axis == len(q.axes) - 3:  # grouped queries
                    two = [*two, Factor(many // few)]
                    other.axes[axis] = list(two)
                ok &= not two or unify(one, two)
        if not ok:
            return self._opaque(node)
        if size_of(q.axes[-1]) == size_of(v.axes[-1]):
            unify(q.axes[-1], v.axes[-1])  # cut alike, as one dim
        seq, kv_seq = atoms(q.axes[-2]), atoms(k.axes[-2])
        twins = {id(f): _twin(f) for f in kv_seq}
        columns = [twins[id(f)] for f in kv_seq]
        for f in seq:
            f.hint("seq", OP)
        for name, dim in (("heads", k.axes[-3]), ("per", q.axes[-3]), ("width", q.axes[-1])):
            parts = atoms(dim)
            if len(parts) == 1:  # attentions of one size are cut alike: their dims have one name
                unify([self._heads.setdefault((name, parts[0].size), parts[0])], parts)
        for f in columns:
            f.hint("kv_seq", SAID)
        in_q, in_k = set(map(id, q.factors())), {id(f) for f in atoms(k.tensor.factors)}
        for f in atoms(q.axes[-3]):
            if f is not self.batch.root():
                f.hint("kv_heads" if id(f) in in_k else "q_per_kv", OP + (1 if id(f) in in_k else 0))
        for f in atoms(q.axes[-1]):
            f.hint("head_dim", OP)
        for f in atoms(v.axes[-1]):
            f.hint("head_dim" if id(f) in in_q else "v_dim", OP)
        k_factors = [twins.get(id(f), f) for f in atoms(k.tensor.factors)]
        v_factors = [twins.get(id(f), f) for f in atoms(v.tensor.factors)]
        heads = atoms(f for axis in q.axes[:-2] for f in axis)
        present = {id(f) for f in [*atoms(q.tensor.factors), *k_factors, *v_factors]}
        order = [f for f in heads if f is self.batch.root()] + seq + [f for f in heads if f is not self.batch.root()]
        out = [f for f in [*order, *atoms(v.axes[-1])] if id(f) in present]
        path = group.path
        rows = [f for f in out if f not in atoms(v.axes[-1])]
        lse = RawTensor(name=f"{path}.lse", factors=rows, kind="saved", dtype="fp32")
        square = [*rows, *columns]
        unfused = [RawTensor(name=f"{path}.probs", factors=square, kind="saved")]
        if group.attrs["dropout"]:
            unfused.append(RawTensor(name=f"{path}.dropped", factors=square, kind="saved"))
            unfused.append(RawTensor(name=f"{path}.mask", factors=square, kind="saved", dtype="bool"))
        if group.attrs["masked"]:
            self.notes.append("Attention under a mask that does not look at positions is costed as the full square")
        reads = [q.tensor, k.tensor, v.tensor]
        tensor = self.add(
            path,
            OpKind.ATTENTION,
            [q.tensor, (k.tensor, k_factors), (v.tensor, v_factors)],
            out,
            node,
            what="core",
            indivisible=[*columns, *atoms(q.axes[-1]), *atoms(v.axes[-1])],
            saves=[*reads, lse],
            saves_unfused=[*reads, *unfused],
            selective=True,
            attrs={
                "form": "qkv",
                "causal": group.attrs["causal"],
                "rope": group.attrs["rope"],
                "dropout": group.attrs["dropout"],
            },
        )
        op = tensor.maker
        assert op is not None
        op.saves.insert(3, tensor)
        for saved in (lse, *unfused):
            saved.name = f"{op.path}.{saved.name.rpartition('.')[2]}"
        made: Axes = [*q.axes[:-1], list(v.axes[-1])]
        if group.attrs["transposed"] and len(shape_of(node)) != len(made):
            made = reshape(made, shape_of(node)) or made
        return Value(tensor=tensor, axes=[list(axis) for axis in made])

    # -- lookups, norms, elementwise ----------------------------------------------------------

    def _op_embedding(self, node: fx.Node) -> Any:
        w = self.value(node.args[0])
        ids = self.value(node.args[1])
        assert w is not None
        if w.tensor.kind != "parameter":
            return None
        if ids is None:  # rows at fixed places
            shape = shape_of(node)
            axes = [fresh(size) for size in shape[:-1]] + [list(w.axes[-1])]
            return Value(tensor=w.tensor, axes=axes, state="position")
        for f in atoms(w.axes[0]):
            f.hint("vocab" if f.size > 2 else "types", OP)
        for f in atoms(w.axes[1]):
            f.hint("hidden", OP)
        axes = [*ids.axes, w.axes[1]]
        tensor = self.add(
            node.meta["path"],
            OpKind.EMBEDDING,
            [ids.tensor, w.tensor],
            _flat(axes),
            node,
            saves=[ids.tensor],
            reduction=atoms(w.axes[0]),
        )
        return Value(tensor=tensor, axes=[list(a) for a in axes])

    def _norm(self, kind: OpKind, path: str, x: Value, weights: Sequence[Value], node: fx.Node) -> Any:
        number = len(weights[0].axes) if weights else len(node.args[1])  # type: ignore[arg-type]
        for w in weights:
            for one, two in zip(x.axes[-number:], w.axes, strict=True):
                if not unify(one, two):
                    return self._opaque(node)
        inner = atoms(f for axis in x.axes[-number:] for f in axis)
        if not weights:
            return self.map(node, [list(a) for a in x.axes], [x], inner)
        tensor = self.add(
            path,
            kind,
            [x.tensor, *(w.tensor for w in weights)],
            list(x.tensor.factors),
            node,
            indivisible=inner,
            saves=[x.tensor],
            what="norm",
        )
        return Value(tensor=tensor, axes=[list(a) for a in x.axes])

    def _op_layer_norm(self, node: fx.Node) -> Any:
        x = self.value(node.args[0])
        weights = [w for w in (self.value(_arg(node, 2, "weight", None)), self.value(_arg(node, 3, "bias", None))) if w]
        return None if x is None else self._norm(OpKind.LAYER_NORM, node.meta["path"], x, weights, node)

    def _op_rms_norm(self, node: fx.Node) -> Any:
        x = self.value(node.args[0])
        weights = [w for w in (self.value(_arg(node, 2, "weight", None)),) if w]
        return None if x is None else self._norm(OpKind.RMS_NORM, node.meta["path"], x, weights, node)

    def _op_batch_norm(self, node: fx.Node) -> Any:
        x, w, b = (self.value(node.args[i]) for i in range(3))
        if x is None or w is None or b is None or not unify(x.axes[1], w.axes[0]) or not unify(x.axes[1], b.axes[0]):
            return None
        space = atoms(f for axis in x.axes[2:] for f in axis)
        tensor = self.add(
            node.meta["path"],
            OpKind.BATCH_NORM,
            [x.tensor, w.tensor, b.tensor],
            list(x.tensor.factors),
            node,
            indivisible=space,
            saves=[x.tensor],
        )
        return Value(tensor=tensor, axes=[list(a) for a in x.axes])

    def _op_group_norm(self, node: fx.Node) -> Any:
        x, w, b = (
            self.value(node.args[0]),
            self.value(_arg(node, 2, "weight", None)),
            self.value(_arg(node, 3, "bias", None)),
        )
        if x is None or w is None or b is None or not unify(x.axes[1], w.axes[0]) or not unify(x.axes[1], b.axes[0]):
            return None
        inner = atoms(f for axis in x.axes[1:] for f in axis)
        tensor = self.add(
            node.meta["path"],
            OpKind.GROUP_NORM,
            [x.tensor, w.tensor, b.tensor],
            list(x.tensor.factors),
            node,
            indivisible=inner,
            saves=[x.tensor],
            attrs={"groups": int(_arg(node, 1, "num_groups", 1))},
        )
        return Value(tensor=tensor, axes=[list(a) for a in x.axes])

    def _activation(self, x: Value, function: str, path: str, node: fx.Node) -> Value:
        keeps_output = _FUNCTIONS[function] == "out"
        tensor = self.add(
            path,
            OpKind.ACTIVATION,
            [x.tensor],
            list(x.tensor.factors),
            what=function,
            saves=[] if keeps_output else [x.tensor],
            attrs={"function": function},
        )
        if keeps_output:
            assert tensor.maker is not None
            tensor.maker.saves.append(tensor)
        return Value(tensor=tensor, axes=[list(a) for a in x.axes])

    def _elementwise(self, node: fx.Node) -> Any:
        base = op_of(node).partition(".")[0].rstrip("_")
        values = [v for a in node.all_input_nodes if (v := self.value(a)) is not None and a in self.trains]
        values += [v for a in node.all_input_nodes if (v := self.value(a)) is not None and a not in self.trains]
        if not values:
            return None
        if len(values) == 1 and base in _FUNCTIONS:
            return self._activation(values[0], base, node.meta["path"], node)
        if (
            len(values) == 1
            and base in {"mul", "div", "sub", "rsub", "neg", "fill", "masked_fill", "where"}
            and (len(node.all_input_nodes) == 1 or shape_of(node) == shape_of(node.all_input_nodes[0]))
        ):
            return values[0]  # by a constant: part of whatever kernel comes next
        if base == "mul" and (gated := self._gated(node, values)) is not None:
            return gated
        axes = self._broadcast(node, values)
        return self._opaque(node) if axes is None else self.map(node, axes, values)

    def _gated(self, node: fx.Node, values: Sequence[Value]) -> Value | None:
        """``silu(gate) * value`` as one op."""
        if len(values) != 2 or len(values[0].axes) != len(values[1].axes):
            return None
        nodes = [n for n in node.all_input_nodes if self.value(n) is not None]
        for (gate, value), at in zip((values, values[::-1]), nodes, strict=False):
            op = gate.tensor.maker
            if op is None or op.kind is not OpKind.ACTIVATION or len(op.ins) != 1 or len(self.groups.users(at)) != 1:
                continue
            if op.attrs["function"] not in _GATED or value.tensor.kind != "activation":
                continue
            if not all(unify(a, b) for a, b in zip(gate.axes, value.axes, strict=True)):
                return None
            op.attrs["function"] = _GATED[op.attrs["function"]]
            op.ins.append((value.tensor, list(value.tensor.factors)))
            op.saves = [t for t, _ in op.ins]
            self.ops.remove(op)
            self.ops.append(op)
            return gate
        return None

    def _broadcast(self, node: fx.Node, values: Sequence[Value]) -> Axes | None:
        rank = len(shape_of(node))
        made: Axes = [[] for _ in range(rank)]
        for value in values:
            for axis, factors in enumerate(value.axes, start=rank - len(value.axes)):
                if not factors:
                    continue
                if not made[axis]:
                    made[axis] = list(factors)
                elif not unify(made[axis], factors):
                    return None
        return made

    def _op_add(self, node: fx.Node) -> Any:
        nodes = [n for n in node.all_input_nodes if self.value(n) is not None]
        values = [self.value(n) for n in node.args[:2]]
        given = [v for v in values if v is not None]
        if len(nodes) == 1 and len(given) == 2:  # x + x
            given = given[:1]
        if not given:
            return None
        if len(given) == 1:
            if len(node.all_input_nodes) == 1 or shape_of(node) == shape_of(nodes[0]):
                return given[0]
            return self.map(node, self._expanded(given[0], shape_of(node)).axes, given)
        axes = self._broadcast(node, given)
        if axes is None:
            return self._opaque(node)
        tables = [v for v in given if v.state == "position"]
        if len(tables) == 1 and len(tables[0].axes) >= 2:
            return self._position(node, next(v for v in given if v is not tables[0]), tables[0], axes)
        weights = [v for v in given if v.tensor.kind == "parameter"]
        terms = [v for v in given if v.tensor.kind != "parameter"]
        if not terms:
            return self._opaque(node)
        biases = [b for v in terms for b in v.tensor.biases] + [w.tensor for w in weights]
        for value in terms:
            value.tensor.biases = []
        joined = self._joined(node, terms, biases)
        if joined is not None:
            return Value(tensor=joined, axes=axes)
        present = {id(f) for t in [*(v.tensor for v in terms), *biases] for f in atoms(t.factors)}
        out = [f for f in _flat(axes) if id(f) in present]
        for value in terms[1:]:
            pairs = zip(atoms(terms[0].tensor.factors), atoms(value.tensor.factors), strict=False)
            for one, two in pairs:
                if one.size == two.size == 1:
                    unify([one], [two])
        for value in terms:  # dims of size 1 that a term has
            factors = atoms(value.tensor.factors)
            if {id(f) for f in factors if f.size > 1} == {id(f) for f in out} and len(factors) > len(out):
                out = factors
        terms.sort(key=lambda v: len(atoms(v.tensor.factors)) != len(out))
        tensor = self.add(node.meta["path"], OpKind.ADD, [*(v.tensor for v in terms), *biases], out, node)
        return Value(tensor=tensor, axes=axes)

    _op_add_ = _op_add

    def _joined(self, node: fx.Node, terms: Sequence[Value], biases: Sequence[RawTensor]) -> RawTensor | None:
        """A sum of a sum is one op, when nothing else reads the first."""
        for term, at in zip(terms, [n for n in node.args[:2] if self.value(n) is not None], strict=False):
            op = term.tensor.maker
            others = [v.tensor for v in terms if v is not term]
            if (
                op is None
                or op.kind is not OpKind.ADD
                or not isinstance(at, fx.Node)
                or len(self.groups.users(at)) != 1
            ):
                continue
            if op_of(at).partition(".")[0].rstrip("_") != "add" or at.meta["path"] != node.meta["path"]:
                continue
            if any(set(map(id, atoms(t.factors))) - set(map(id, atoms(term.tensor.factors))) for t in others):
                continue
            number = sum(t.kind != "parameter" for t, _ in op.ins)
            op.ins[number:number] = [(t, list(t.factors)) for t in others]
            op.ins += [(b, list(b.factors)) for b in biases]
            self.ops.remove(op)
            self.ops.append(op)
            return term.tensor
        return None

    def _position(self, node: fx.Node, x: Value, table: Value, axes: Axes) -> Value:
        if x.tensor.biases:
            out = list(x.tensor.factors)
            summed = self.add(node.meta["path"], OpKind.ADD, [x.tensor, *x.tensor.biases], out, what="bias")
            x.tensor.biases = []
            x = Value(tensor=summed, axes=x.axes)
        rows = atoms(table.tensor.factors)[:-1]
        for f in rows:
            f.hint("positions", OP)
        tensor = self.add(
            node.meta["path"],
            OpKind.POSITION,
            [x.tensor, table.tensor],
            list(x.tensor.factors),
            what="position",
            indivisible=rows,
        )
        return Value(tensor=tensor, axes=axes)

    def _op_dropout(self, node: fx.Node) -> Any:
        value = self.value(node.args[0])
        rate = float(node.args[1])  # type: ignore[arg-type]
        if value is None or rate == 0.0 or not node.args[2]:
            return value
        biases, value.tensor.biases = value.tensor.biases, []
        out = list(value.tensor.factors)
        mask = RawTensor(name="", factors=out, kind="saved", dtype="bool")
        tensor = self.add(
            node.meta["path"], OpKind.DROPOUT, [value.tensor, *biases], out, node, saves=[mask], attrs={"p": rate}
        )
        assert tensor.maker is not None
        mask.name = f"{tensor.maker.path}.mask"
        return Value(tensor=tensor, axes=[list(a) for a in value.axes])

    _op_dropout_ = _op_dropout

    def _reduce(self, node: fx.Node) -> Any:
        value = self.value(node.args[0])
        if value is None:
            return None
        rank = len(value.axes)
        given = node.args[1] if len(node.args) > 1 and node.args[1] is not None else range(rank)
        dims = {int(d) % rank for d in ([given] if isinstance(given, int) else given)}  # type: ignore[union-attr, arg-type]
        if not isinstance(node.meta["val"], torch.Tensor):
            return self._opaque(node)
        gone = atoms(f for d in dims for f in value.axes[d])
        keep = len(shape_of(node)) == rank
        axes = [list(a) if i not in dims else [] for i, a in enumerate(value.axes) if keep or i not in dims]
        factors = atoms(value.tensor.factors)
        if op_of(node) == "mean.dim" and dims == {2, 3} and rank == 4 and len(factors) == 4:
            tensor = self.add(
                node.meta["path"],
                OpKind.POOL2D,
                [value.tensor],
                factors[:2],
                node,
                indivisible=gone,
                saves=[value.tensor],
                attrs={"function": "average"},
            )
            return Value(tensor=tensor, axes=axes)
        if op_of(node).startswith(("mean", "sum")):
            made = self.map(node, axes, [value])
            assert made.tensor.maker is not None
            made.tensor.maker.indivisible, made.tensor.maker.reduction = [], gone
            made.tensor.maker.saves = []
            return made
        return self.map(node, axes, [value], gone)

    def _along(self, node: fx.Node) -> Any:
        value = self.value(node.args[0])
        if value is None or not isinstance(node.meta["val"], torch.Tensor):
            return self._opaque(node)
        if op_of(node).startswith("log_softmax") and any(
            op_of(u).startswith("nll_loss") for u in self.groups.users(node)
        ):
            return Value(tensor=value.tensor, axes=value.axes, state="log_softmax")
        given = _arg(node, 1, "dim", -1)
        dims = [given] if isinstance(given, int) else list(given)
        inner = atoms(f for d in dims if isinstance(d, int) for f in value.axes[d])
        return self.map(node, [list(a) for a in value.axes], [value], inner)

    # -- images -------------------------------------------------------------------------------

    def _op_conv2d(self, node: fx.Node) -> Any:
        x, w = self.value(node.args[0]), self.value(node.args[1])
        bias = self.value(_arg(node, 2, "bias", None))
        if x is None or w is None or w.tensor.kind != "parameter":
            return None
        stride, padding, dilation = (
            _pair(_arg(node, i, n, d)) for i, n, d in ((3, "stride", 1), (4, "padding", 0), (5, "dilation", 1))
        )
        groups = int(_arg(node, 6, "groups", 1))
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
        kernel, padding = _pair(node.args[1]), _pair(_arg(node, 3, "padding", 0))
        stride = _pair(_arg(node, 2, "stride", None) or node.args[1])
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
        axis = int(_arg(node, 1, "dim", 0)) % len(given[0].axes)
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
        if any(atoms(v.axes[axis]) and _named(atoms(v.axes[axis])[0], ("seq",)) for v in given):
            whole.hint("seq", PLACE)
        axes[axis] = [whole]
        inner = [whole, *(f for v in given for f in atoms(v.axes[axis]))]
        tensor = self.add(
            node.meta["path"],
            OpKind.CONCAT,
            [v.tensor for v in given],
            _flat(axes),
            node,
            indivisible=inner,
            attrs={"dim": whole},
        )
        return Value(tensor=tensor, axes=axes)

    # -- what is not understood -----------------------------------------------------------------

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
            inner = [f for f in [*present, *_flat(axes)] if f is not self.batch.root()]
            flop = _flop(node) / self.trace.batch if number == 0 else 0.0
            if all(self.batch.root() not in atoms(v.tensor.factors) for v in values) or self.batch.root() not in _flat(
                axes
            ):
                inner.append(self.batch.root())
            tensor = self.add(
                node.meta["path"],
                OpKind.OPAQUE,
                [v.tensor for v in values],
                _flat(axes),
                node,
                indivisible=inner,
                saves=[v.tensor for v in values if v.tensor.kind == "activation"],
                attrs={"function": name.partition(".")[0], "flop": flop},
            )
            made.append(Value(tensor=tensor, axes=axes))
        return made if isinstance(node.meta["val"], (tuple, list)) else made[0]

    # -- the loss ---------------------------------------------------------------------------------

    def _op_cross_entropy_loss(self, node: fx.Node) -> Any:
        value = self.value(node.args[0])
        return None if value is None else self._cross_entropy(value, 1 if len(value.axes) > 1 else 0, node.meta["path"])

    def _op_nll_loss(self, node: fx.Node) -> Any:
        value = self.value(node.args[0])
        if value is None or value.state != "log_softmax":
            return None
        return self._cross_entropy(value, 1 if len(value.axes) > 1 else 0, node.meta["path"])

    _op_nll_loss_nd = _op_nll_loss

    def _cross_entropy(self, logits: Value, axis: int, path: str) -> Value:
        axis = len(logits.axes) - 1 if logits.state == "rows" else axis
        classes, all_factors = atoms(logits.axes[axis]), atoms(logits.tensor.factors)
        tokens = [f for f in all_factors if f not in classes]
        for f in classes:
            f.hint("vocab" if len(tokens) > 1 else "classes", OP + 1)
            f.is_whole = True
        x = logits.tensor
        if x.maker is not None and x.maker.kind is OpKind.LINEAR:
            x.maker.attrs["quantised"] = False  # the product that makes logits, see proteus.model.heads
        if x.biases:
            x = self.add(path, OpKind.ADD, [x, *x.biases], list(x.factors), what="bias")
        if all_factors[-len(classes) :] != classes:  # the loss reads its classes last
            x = self.add(path, OpKind.RESHAPE, [x], [*tokens, *classes], what="classes_last")
        number = sum(op.kind is OpKind.CROSS_ENTROPY for op in self.ops)
        name = "labels" if not number else f"labels_{number + 1}"
        labels = RawTensor(name=name, factors=tokens, kind="input", dtype="int64")
        part = f"{path}." if path else ""
        part += "loss" if not number else f"loss_{number + 1}"
        softmax = RawTensor(name=f"{part}.softmax", factors=[*tokens, *classes], kind="saved", dtype="fp32")
        more: dict[str, Any] = {"reduction": classes, "dtype": "fp32"}
        top = self.add(part, OpKind.MAX, [x], tokens, what="max", **more)
        total = self.add(part, OpKind.SUM_EXP, [x, top], tokens, what="sum_exp", saves=[softmax], **more)
        picked = self.add(part, OpKind.PICK, [x, labels], tokens, what="pick", saves=[labels], **more)
        loss = self.add(
            part,
            OpKind.CROSS_ENTROPY,
            [top, total, picked],
            [],
            what="cross_entropy",
            saves=[total],
            reduction=tokens,
            dtype="fp32",
        )
        loss.name = "loss" if not number else f"loss_{number + 1}"
        return Value(tensor=loss, axes=[])

    def _pair_loss(self, node: fx.Node, function: str) -> Any:
        scores = [v for n in node.all_input_nodes if n in self.trains and (v := self.value(n)) is not None]
        if not scores:
            return None
        return self._mean_loss(scores[0], function, node.meta["path"])

    def _op_mse_loss(self, node: fx.Node) -> Any:
        return self._pair_loss(node, "mse")

    _op_l1_loss = _op_smooth_l1_loss = _op_huber_loss = _op_mse_loss

    def _op_binary_cross_entropy(self, node: fx.Node) -> Any:
        return self._pair_loss(node, "bce")

    _op_binary_cross_entropy_with_logits = _op_binary_cross_entropy

    def _mean_loss(self, score: Value, function: str, path: str) -> Value:
        x = score.tensor
        if x.biases:
            x = self.add(path, OpKind.ADD, [x, *x.biases], list(x.factors), what="bias")
        target = RawTensor(name="target", factors=atoms(x.factors), kind="input")
        loss = self.add(
            path,
            OpKind.LOSS,
            [x, target],
            [],
            what="loss",
            saves=[x],
            reduction=atoms(x.factors),
            dtype="fp32",
            attrs={"function": function},
        )
        loss.name = "loss"
        return Value(tensor=loss, axes=[])

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


def trained(trace: Trace) -> set[fx.Node]:
    """Nodes that depend on a parameter."""
    found: set[fx.Node] = set(trace.parameters)
    for node in trace.nodes:
        if any(source in found for source in node.all_input_nodes):
            found.add(node)
    return found


def _flat(axes: Axes) -> list[Factor]:
    return atoms(f for axis in axes for f in axis)


def _twin(factor: Factor) -> Factor:
    """A factor of the same size beside one that an op needs twice."""
    factor.root().is_whole = True
    twin = Factor(factor.size)
    twin.is_whole = True
    return twin


def _named(factor: Factor, names: Collection[str]) -> bool:
    return any(name in factor.root().hints for name in names)


def _without(value: Value, axis: int) -> Value:
    return Value(tensor=value.tensor, axes=[a for i, a in enumerate(value.axes) if i != axis])


def _arg(node: fx.Node, place: int, name: str, default: Any) -> Any:
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)


def _pair(value: Any) -> tuple[int, int] | None:
    """(height, width) of an argument that may be one number for both; None where it is a word."""
    if isinstance(value, str):
        return None
    if isinstance(value, (list, tuple)):
        return (int(value[0]), int(value[-1]))
    return (int(value), int(value))


_DTYPES = {torch.int64: "int64", torch.bool: "bool", torch.int32: "int64"}


def _dtype(value: torch.Tensor) -> str | None:
    return _DTYPES.get(value.dtype)


def _flop(node: fx.Node) -> float:
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
