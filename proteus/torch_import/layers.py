"""Embeddings, norms and dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from proteus.model.graph import OpKind
from proteus.torch_import.elementwise import Elementwise
from proteus.torch_import.factors import atoms, fresh, unify
from proteus.torch_import.ops import OP, argument, flat
from proteus.torch_import.patterns import shape_of
from proteus.torch_import.raw import RawTensor, Value


class Layers(Elementwise):
    """Layers that are neither products nor elementwise."""

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
            flat(axes),
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
        weights = [
            w for w in (self.value(argument(node, 2, "weight", None)), self.value(argument(node, 3, "bias", None))) if w
        ]
        return None if x is None else self._norm(OpKind.LAYER_NORM, node.meta["path"], x, weights, node)

    def _op_rms_norm(self, node: fx.Node) -> Any:
        x = self.value(node.args[0])
        weights = [w for w in (self.value(argument(node, 2, "weight", None)),) if w]
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
            self.value(argument(node, 2, "weight", None)),
            self.value(argument(node, 3, "bias", None)),
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
            attrs={"groups": int(argument(node, 1, "num_groups", 1))},
        )
        return Value(tensor=tensor, axes=[list(a) for a in x.axes])

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
