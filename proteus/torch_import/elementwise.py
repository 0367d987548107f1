"""Element by element: activations, gates, sums; and reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from proteus.model.graph import OpKind
from proteus.torch_import.attention import Attention
from proteus.torch_import.factors import Axes, atoms, unify
from proteus.torch_import.ops import OP, argument, flat
from proteus.torch_import.patterns import op_of, shape_of
from proteus.torch_import.raw import RawTensor, Value

#: activations whose numeric meaning verify knows, and what autograd keeps of them
FUNCTIONS = {"gelu": "in", "relu": "out", "silu": "in", "sigmoid": "out", "tanh": "out"}
GATED = {"silu": "swiglu", "gelu": "geglu"}


class Elementwise(Attention):
    """Operators that work element by element or along a dim."""

    def _activation(self, x: Value, function: str, path: str, node: fx.Node) -> Value:
        keeps_output = FUNCTIONS[function] == "out"
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
        if len(values) == 1 and base in FUNCTIONS:
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
            if op.attrs["function"] not in GATED or value.tensor.kind != "activation":
                continue
            if not all(unify(a, b) for a, b in zip(gate.axes, value.axes, strict=True)):
                return None
            op.attrs["function"] = GATED[op.attrs["function"]]
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
        out = [f for f in flat(axes) if id(f) in present]
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
        given = argument(node, 1, "dim", -1)
        dims = [given] if isinstance(given, int) else list(given)
        inner = atoms(f for d in dims if isinstance(d, int) for f in value.axes[d])
        return self.map(node, [list(a) for a in value.axes], [value], inner)
