"""Products: of a weight (LINEAR) or of two activations (MATMUL)."""

from __future__ import annotations

from typing import Any

from torch import fx

from proteus.model.graph import OpKind
from proteus.torch_import.factors import Axes, Factor, atoms, reshape, unify
from proteus.torch_import.ops import flat, twin
from proteus.torch_import.patterns import CASTS, SHAPES, TURNS, op_of, shape_of
from proteus.torch_import.raw import Value
from proteus.torch_import.views import Views


class Products(Views):
    """Linear layers, matrix products, einsum."""

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
        tensor = self.add(path, OpKind.LINEAR, ins, flat(axes), node, saves=[x.tensor])
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
        twins = {id(f): twin(f) for f in atoms(columns) if id(f) in taken}
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
        out = [f for f in flat(axes) if id(f) in present]
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
        factors = flat(axes)
        if len({id(f) for f in factors}) != len(factors):
            only_b = [c for c in out if c not in left.split(",")[0]]
            rows = [f for c in out if c not in only_b for f in letters[c]]
            made = self._product(node, a, b, rows, [f for c in only_b for f in letters[c]], [], [])
            return Value(tensor=made.tensor, axes=reshape([made.factors()], shape_of(node)) or axes)
        is_weighted = "parameter" in (a.tensor.kind, b.tensor.kind)
        if a.tensor.kind == "parameter":
            a, b = b, a
        saves = [t for t in (a.tensor, b.tensor) if t.kind != "parameter"]
        kind = OpKind.LINEAR if is_weighted else OpKind.MATMUL
        tensor = self.add(node.meta["path"], kind, [a.tensor, b.tensor], factors, node, saves=saves)
        return Value(tensor=tensor, axes=axes)
