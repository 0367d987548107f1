"""Softmax attention, however it was written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from proteus.model.graph import OpKind
from proteus.torch_import.factors import Axes, Factor, atoms, reshape, size_of, unify
from proteus.torch_import.ops import OP, SAID, twin
from proteus.torch_import.patterns import Group, shape_of
from proteus.torch_import.products import Products
from proteus.torch_import.raw import RawTensor, Value


class Attention(Products):
    """Attention as one op."""

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
        twins = {id(f): twin(f) for f in kv_seq}
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
