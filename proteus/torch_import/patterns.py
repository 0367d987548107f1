"""Groups of operators that are one thing, and that frameworks run as one kernel.

Found before anything is translated: norms and activations written out,
rotary positions, softmax attention written out.  A group is found from one
telling operator (``rsqrt``, ``softmax``, ``tanh``) by walking to the single
value that it starts from and to the single value that it makes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

#: operators that change only how a value is seen, or its dtype
CASTS = {
    "to.dtype",
    "to.dtype_layout",
    "to.device",
    "to.other",
    "_to_copy.default",
    "type_as.default",
    "clone.default",
    "contiguous.default",
    "detach.default",
    "alias.default",
    "lift_fresh_copy.default",
    "_assert_tensor_metadata.default",
}
TURNS = {"transpose.int", "permute.default", "t.default", "mT.default", "swapaxes.default", "movedim.int"}
SHAPES = {
    "view.default",
    "reshape.default",
    "_unsafe_view.default",
    "flatten.using_ints",
    "unflatten.int",
    "squeeze.dim",
    "squeeze.default",
    "squeeze.dims",
    "unsqueeze.default",
    "expand.default",
    "view_as.default",
    "expand_as.default",
}
PARTS = {
    "slice.Tensor",
    "select.int",
    "split.Tensor",
    "split_with_sizes.default",
    "chunk.default",
    "unbind.int",
    "getitem",
    "narrow.default",
    "tensor_split.sections",
}
SIMPLE = {
    "add.Tensor",
    "sub.Tensor",
    "mul.Tensor",
    "div.Tensor",
    "neg.default",
    "rsub.Scalar",
    "add_.Tensor",
    "mul_.Tensor",
    "div_.Tensor",
    "sub_.Tensor",
    "add.Scalar",
    "mul.Scalar",
}
CURVES = {
    "tanh.default",
    "erf.default",
    "sigmoid.default",
    "pow.Tensor_Scalar",
    "exp.default",
    "square.default",
    "log1p.default",
    "softplus.default",
}
_ROTATES = {"cat.default", "stack.default", "view_as_complex.default", "view_as_real.default", "polar.default"}
_MASKS = {
    "masked_fill.Scalar",
    "masked_fill.Tensor",
    "masked_fill_.Scalar",
    "where.self",
    "where.ScalarOther",
    "where.ScalarSelf",
}
_PRODUCTS = {"matmul.default", "bmm.default", "einsum.default", "baddbmm.default"}
#: operators that compare positions, by which a mask looks ahead
_ORDER = {
    "tril.default",
    "triu.default",
    "tril_.default",
    "triu_.default",
    "le.Tensor",
    "ge.Tensor",
    "lt.Tensor",
    "gt.Tensor",
    "le.Scalar",
    "ge.Scalar",
}


def op_of(node: fx.Node) -> str:
    """``linear.default`` of ``aten.linear.default``."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return f"{target._opname}.{target._overloadname}"
    return getattr(target, "__name__", str(target))


def shape_of(node: fx.Node) -> tuple[int, ...]:
    return tuple(int(size) for size in node.meta["val"].shape)


def is_tensor(node: Any) -> bool:
    return isinstance(node, fx.Node) and isinstance(node.meta.get("val"), torch.Tensor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Operators that are one op.

    Parameters
    ----------
    inputs
        Values that it starts from, in the order of the op's inputs.
    """

    kind: str
    inputs: tuple[fx.Node, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    path: str = ""


class Groups:
    """The groups of a graph.

    Parameters
    ----------
    trains
        Nodes that depend on a parameter; the others are constants, masks and positions.

    Attributes
    ----------
    made
        Groups by the node whose value they make.
    inside
        Nodes of groups that nothing outside reads.
    """

    def __init__(self, nodes: Iterable[fx.Node], trains: Collection[fx.Node]) -> None:
        self.nodes, self.trains = tuple(nodes), trains
        self.order = {node: number for number, node in enumerate(self.nodes)}
        self.made: dict[fx.Node, Group] = {}
        self.inside: set[fx.Node] = set()
        finders: dict[str, Callable[[fx.Node], None]] = {
            "rsqrt.default": self._rms_norm,
            "softmax.int": self._attention,
            "_softmax.default": self._attention,
            "tanh.default": self._curve,
            "erf.default": self._curve,
            "sigmoid.default": self._curve,
        }
        for node in self.nodes:
            if node in trains and op_of(node) in finders and node not in self.inside:
                finders[op_of(node)](node)
        for node in self.nodes:
            if op_of(node) == "scaled_dot_product_attention.default":
                self._sdpa(node)

    # -- walking ---------------------------------------------------------------

    def sources(self, node: fx.Node) -> list[fx.Node]:
        """Inputs of a node that a parameter's gradient flows through."""
        return [source for source in node.all_input_nodes if source in self.trains]

    def users(self, node: fx.Node) -> list[fx.Node]:
        return [user for user in node.users if user.op != "output" and op_of(user) != "_assert_tensor_metadata.default"]

    def uncast(self, node: fx.Node) -> fx.Node:
        """The value before casts."""
        while op_of(node) in CASTS and node.op == "call_function":
            node = node.args[0]  # type: ignore[assignment]
        return node

    def cast_on(self, node: fx.Node) -> fx.Node:
        """The value after casts that alone read it."""
        while len(users := self.users(node)) == 1 and op_of(users[0]) in CASTS:
            node = users[0]
        return node

    def entry(
        self, end: fx.Node, allowed: Collection[str], accept: Callable[[fx.Node, set[fx.Node]], bool]
    ) -> tuple[fx.Node, set[fx.Node]] | None:
        """The one value from which `end` is made by `allowed` operators, and these; the nearest that is accepted."""
        frontier, region = {end}, set[fx.Node]()
        while frontier:
            if len(frontier) == 1 and region:
                (only,) = frontier
                if accept(only, region):
                    return only, region
            last = max(frontier, key=lambda node: self.order.get(node, -1))
            if last.op != "call_function" or op_of(last) not in allowed:
                return None
            frontier.discard(last)
            region.add(last)
            frontier |= set(self.sources(last))
            if len(region) > 64:  # no such group is larger
                return None
        return None

    def _make(self, end: fx.Node, group: Group, region: Collection[fx.Node]) -> None:
        """Note a group, unless a value inside it is read elsewhere."""
        inner = set(region) - {end}
        # a cast of what the group starts from may be no copy at all, and read elsewhere
        inner -= {n for n in inner if op_of(n) in CASTS and not inner.intersection(n.all_input_nodes)}
        for node in inner:
            if any(user not in inner and user is not end for user in self.users(node)):
                return
        self.made[end] = group
        self.inside |= inner

    # -- finders -----------------------------------------------------------------

    def _rms_norm(self, node: fx.Node) -> None:
        """``x * rsqrt(mean(x²) + ε) * weight``, with casts anywhere."""
        allowed = {
            *CASTS,
            "rsqrt.default",
            "add.Tensor",
            "mean.dim",
            "pow.Tensor_Scalar",
            "mul.Tensor",
            "square.default",
        }
        found = self.entry(
            node,
            allowed,
            lambda only, region: (
                any(op_of(n) == "mean.dim" for n in region)
                and op_of(only) not in {"pow.Tensor_Scalar", "square.default"}
            ),
        )
        if found is None:
            return
        x, region = self.uncast(found[0]), set(found[1])
        at: fx.Node = node
        weight: fx.Node | None = None
        for _ in range(4):
            users = self.users(at)
            if len(users) != 1:
                break
            user = users[0]
            if op_of(user) in CASTS:
                at = user
                region.add(at)
            elif op_of(user) == "mul.Tensor":
                (other,) = [arg for arg in user.all_input_nodes if arg is not at] or (None,)
                if other is None:
                    break
                if self.uncast(other) is x:
                    region |= _casts_between(other, x, self.uncast)
                elif weight is None and len(shape_of(other)) == 1 and other in self.trains:
                    weight = other
                else:
                    break
                at = user
                region.add(at)
            else:
                break
        if weight is None:
            return
        end = at
        plus_one = op_of(weight) if weight.op == "call_function" else ""  # Gemma multiplies by 1 + weight
        if plus_one in SIMPLE or plus_one in CASTS:
            sources = self.sources(weight)
            region.add(weight)
            weight = sources[0] if len(sources) == 1 else weight
        region |= _casts_between(found[0], x, self.uncast)
        self._make(end, Group(kind="rms_norm", inputs=(x, weight), path=node.meta["path"]), region)

    def _curve(self, node: fx.Node) -> None:
        """An activation written out: gelu by tanh or erf, silu by sigmoid."""
        allowed = {*SIMPLE, *CURVES, *CASTS}
        at = node
        for _ in range(4):
            users = self.users(at)
            if len(users) != 1 or op_of(users[0]) not in allowed:
                return
            at = users[0]
            if not op_of(at).startswith("mul"):
                continue
            found = self.entry(at, allowed, lambda only, region: node in region)
            if found is not None and shape_of(found[0]) == shape_of(at):
                function = "silu" if op_of(node) == "sigmoid.default" else "gelu"
                self._make(
                    at,
                    Group(kind="activation", inputs=(found[0],), attrs={"function": function}, path=node.meta["path"]),
                    found[1],
                )
                if at in self.made:
                    return

    def _attention(self, softmax: fx.Node) -> None:
        """``softmax(q kᵀ · scale + mask) v`` from its softmax."""
        region = {softmax}
        at: fx.Node = softmax.args[0]  # type: ignore[assignment]
        masks: list[fx.Node] = []
        while op_of(at) not in _PRODUCTS:
            if at.op != "call_function" or op_of(at) not in {*CASTS, *SIMPLE, *_MASKS, "view.default"}:
                return
            sources = self.sources(at)
            if len(sources) != 1:
                return
            masks += [n for n in at.all_input_nodes if n not in self.trains]
            region.add(at)
            at = sources[0]
        scores = at
        region.add(scores)
        end: fx.Node = softmax
        dropout = 0.0
        while True:
            users = self.users(end)
            if len(users) != 1:
                return
            end = users[0]
            region.add(end)
            if op_of(end) in _PRODUCTS:
                break
            if op_of(end) == "dropout.default":
                dropout = float(end.args[1])  # type: ignore[arg-type]
            elif op_of(end) not in {*CASTS, "expand.default", "view.default"}:
                return
        products = [tuple(n for n in product.all_input_nodes if n in self.trains) for product in (scores, end)]
        if "einsum.default" in (op_of(scores), op_of(end)) or len(products[0]) != 2 or len(products[1]) != 2:
            return
        if shape_of(scores)[-1] != shape_of(products[1][1])[-2] or op_of(scores) == "baddbmm.default":
            return
        causal = any(self._looks_ahead(mask) for mask in masks)
        attrs = {"causal": causal, "dropout": dropout, "transposed": True, "masked": bool(masks) and not causal}
        attrs["rope"] = self._rope_of(products[0])
        self._make(
            end,
            Group(kind="attention", inputs=(*products[0], products[1][1]), attrs=attrs, path=softmax.meta["path"]),
            region,
        )

    def _sdpa(self, node: fx.Node) -> None:
        given: dict[str, Any] = dict(
            zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), node.args, strict=False)
        )
        given |= node.kwargs
        mask = given.get("attn_mask")
        causal = bool(given.get("is_causal")) or (isinstance(mask, fx.Node) and self._looks_ahead(mask))
        q, k, v = given["query"], given["key"], given["value"]
        assert isinstance(q, fx.Node) and isinstance(k, fx.Node) and isinstance(v, fx.Node)
        attrs = {
            "causal": causal,
            "dropout": float(given.get("dropout_p") or 0.0),
            "transposed": False,
            "masked": mask is not None and not causal,
            "rope": self._rope_of((q, k)),
        }
        self.made[node] = Group(kind="attention", inputs=(q, k, v), attrs=attrs, path=node.meta["path"])

    def _rope_of(self, operands: tuple[fx.Node, ...]) -> bool:
        """Whether queries and keys are rotated; what rotates them becomes part of the attention."""
        rotated = [self._rope(operand) for operand in operands]
        for found in rotated:
            if found is not None:
                end, source, region = found
                self._make(end, Group(kind="same", inputs=(source,)), region)
        return any(found is not None for found in rotated)

    def _rope(self, node: fx.Node) -> tuple[fx.Node, fx.Node, set[fx.Node]] | None:
        at = node
        while at.op == "call_function" and op_of(at) in {*CASTS, *TURNS, *SHAPES}:
            if op_of(at) == "flatten.using_ints":
                break  # of pairs that were turned as complex numbers
            (source,) = self.sources(at)[:1] or (None,)
            if source is None or (source.op == "call_function" and op_of(source) == "view_as_real.default"):
                break
            at = source
        if at in self.made:
            group = self.made[at]
            return None if group.kind != "same" else (at, group.inputs[0], set())
        allowed = {*CASTS, *TURNS, *SHAPES, *PARTS, *SIMPLE, *_ROTATES}

        def turned(only: fx.Node, region: set[fx.Node]) -> bool:
            names = {op_of(n) for n in region}
            by_angle = any(op_of(n) == "mul.Tensor" and self._has_constant(n) for n in region)
            rotates = bool(names & {"cat.default", "stack.default", "view_as_real.default"})
            return by_angle and rotates and is_tensor(only) and shape_of(only) == shape_of(at)

        found = self.entry(at, allowed, turned)
        return None if found is None else (at, found[0], found[1])

    def _has_constant(self, node: fx.Node) -> bool:
        return any(isinstance(arg, fx.Node) and arg not in self.trains for arg in node.args)

    def _looks_ahead(self, mask: fx.Node) -> bool:
        """Whether a mask is made by comparing positions."""
        seen, todo = set[fx.Node](), [mask]
        while todo:
            node = todo.pop()
            if node in seen:
                continue
            seen.add(node)
            if node.op == "call_function" and op_of(node) in _ORDER:
                return True
            todo += node.all_input_nodes
        return mask.op in ("get_attr", "placeholder") and len(shape_of(mask)) >= 2 and _is_square(mask)


def _is_square(mask: fx.Node) -> bool:
    return shape_of(mask)[-1] == shape_of(mask)[-2]


def _casts_between(node: fx.Node, source: fx.Node, uncast: Callable[[fx.Node], fx.Node]) -> set[fx.Node]:
    """The casts from `source` to `node`, which it is."""
    found = set[fx.Node]()
    while node is not source and op_of(node) in CASTS:
        found.add(node)
        node = node.args[0]  # type: ignore[assignment]
    return found
