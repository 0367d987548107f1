"""Losses."""

from __future__ import annotations

from typing import Any

from torch import fx

from proteus.model.graph import OpKind
from proteus.torch_import.factors import atoms
from proteus.torch_import.images import Images
from proteus.torch_import.ops import OP
from proteus.torch_import.raw import RawTensor, Value


class Losses(Images):
    """Cross entropy as its reductions, and other mean losses."""

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
