"""Views, which are no ops, and parts of a dim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from proteus.model.graph import OpKind
from proteus.torch_import.factors import Axes, Factor, atoms, fresh, reshape, size_of
from proteus.torch_import.ops import (
    Ops,
    argument,
    flat,
    without,
)
from proteus.torch_import.patterns import CASTS, SHAPES, TURNS, op_of, shape_of
from proteus.torch_import.raw import RawOp, RawTensor, Value


class Views(Ops):
    """Operators that change how a value is seen."""

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
            factors = flat(axes)
            tensor = self.add(node.meta["path"], OpKind.RESHAPE, [value.tensor], factors, node)
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

    def _op_split(self, node: fx.Node) -> Any:
        value = self.value(node.args[0])
        if value is None:
            return None
        axis = int(argument(node, 2, "dim", 0)) % len(value.axes)
        sizes = [int(v.shape[axis]) for v in node.meta["val"]]
        return self._parts(node, value, axis, sizes)

    _op_split_with_sizes = _op_chunk = _op_tensor_split = _op_split

    def _op_unbind(self, node: fx.Node) -> Any:
        value = self.value(node.args[0])
        if value is None:
            return None
        axis = int(argument(node, 1, "dim", 0)) % len(value.axes)
        number = len(node.meta["val"])
        parts = self._parts(node, value, axis, [1] * number)
        return [without(part, axis) for part in parts]

    def _op_select(self, node: fx.Node) -> Any:
        value = self.value(node.args[0])
        if value is None:
            return None
        axis, index = int(node.args[1]) % len(value.axes), int(node.args[2])  # type: ignore[arg-type]
        size = size_of(value.axes[axis])
        key = (id(value.tensor), tuple(id(f) for f in atoms(value.axes[axis])))
        maker = value.tensor.maker
        if maker is not None and maker.kind is OpKind.LINEAR and self._only_selected(node, axis):
            shared = self._selected.setdefault(key, self._parts(node, value, axis, [1] * size))
            return without(shared[index % size], axis)
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

    def _only_selected(self, node: fx.Node, axis: int) -> bool:
        (source,) = node.all_input_nodes
        rank = len(shape_of(source))
        return all(op_of(u) == "select.int" and int(u.args[1]) % rank == axis for u in source.users)  # type: ignore[arg-type]

    def _op_slice(self, node: fx.Node) -> Any:
        value = self.value(node.args[0])
        if value is None:
            return None
        axis = int(argument(node, 1, "dim", 0)) % len(value.axes)
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
                name=f"{value.tensor.name}.{number}", factors=flat(axes), kind="parameter", dtype=value.tensor.dtype
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
