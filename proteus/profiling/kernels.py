"""The call that a PyTorch program makes for an op, on tensors of its local sizes.

Inputs come in the order of the op's operands (see ``proteus.model.graph``).
GEMMs are flattened to what their kernel is: rows, columns, depth.  Ops that
are not in the table below are left to the cost model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from proteus.costs.work import Family
from proteus.model.graph import BATCH, Op, Operand, OpKind
from proteus.profiling.demand import OpCall
from proteus.verify.ops import FUNCTIONS, GATED, aligned, rotated

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
#: scale of random activations: large values would make some functions slow (denormals, infinities)
_SCALE = 0.1


@dataclass(frozen=True, slots=True)
class Kernel:
    """A forward with its leaves: activations, parameters."""

    forward: Callable[[], Tensor]
    activations: tuple[Tensor, ...]
    parameters: tuple[Tensor, ...]


class Maker:
    """Makes the leaves of a call on one device."""

    def __init__(self, call: OpCall, device: torch.device) -> None:
        self.call, self.device = call, device
        self.dtype = DTYPES[call.habits.dtype]
        self.activations: list[Tensor] = []
        self.parameters: list[Tensor] = []

    def random(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return (torch.randn(*shape, device=self.device) * _SCALE).to(dtype or self.dtype)

    def activation(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        self.activations.append(self.random(*shape, dtype=dtype).requires_grad_())
        return self.activations[-1]

    def parameter(self, *shape: int) -> Tensor:
        self.parameters.append(self.random(*shape).requires_grad_())
        return self.parameters[-1]

    def indices(self, below: int, *shape: int) -> Tensor:
        return torch.randint(max(below, 1), shape, device=self.device)

    def shape(self, dims: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.call.sizes[dim] for dim in dims)

    def product(self) -> tuple[int, ...]:
        """batch, m, n, k of the GEMM in the forward."""
        return next(w.shape for w in self.call.forward if w.family in (Family.GEMM, Family.GROUPED_GEMM))

    def is_parameter(self, operand: Operand) -> bool:
        """Whether an operand of an elementwise op is a bias: biases have no batch."""
        return BATCH not in operand.dims

    def operand(self, operand: Operand) -> Tensor:
        """A leaf for one operand of an elementwise op."""
        make = self.parameter if self.is_parameter(operand) else self.activation
        return make(*self.shape(operand.dims))


def kernel(call: OpCall, device: torch.device) -> Kernel | None:
    """The call of an op, or None for those that are left to the cost model."""
    make = _MAKERS.get(call.op.kind)
    if make is None:
        return None
    maker = Maker(call, device)
    forward = make(maker, call.op)
    return Kernel(forward, tuple(maker.activations), tuple(maker.parameters))


Forward = Callable[[], Tensor]


def _linear(m: Maker, op: Op) -> Forward:
    batch, rows, columns, depth = m.product()
    has_bias = len(op.inputs) > 1 + len(op.outputs)
    if batch > 1:
        x, w = m.activation(batch, rows, depth), m.parameter(batch, columns, depth)
        return lambda: torch.bmm(x, w.mT)
    x, w = m.activation(rows, depth), m.parameter(columns, depth)
    bias = m.parameter(columns) if has_bias else None
    return lambda: F.linear(x, w, bias)


def _matmul(m: Maker, op: Op) -> Forward:
    batch, rows, columns, depth = m.product()
    a, b = m.activation(batch, rows, depth), m.activation(batch, depth, columns)
    return lambda: torch.bmm(a, b)


def _attention(m: Maker, op: Op) -> Forward:
    out, sizes = op.outputs[0].dims, m.call.sizes
    queries = op.queries()
    key = op.inputs[len(queries)]
    batch, seq, kv_seq = sizes["batch"], sizes["seq"], sizes["kv_seq"]
    width, width_v = sum(sizes[q.dims[-1]] for q in queries), sizes[out[-1]]
    heads = math.prod(m.shape(out)) // (batch * seq * width_v)
    kv_heads = math.prod(sizes[d] for d in key.dims[:-1] if d in out and d not in ("batch", "seq"))
    q = m.activation(batch, seq, heads, width)
    k, v = m.activation(batch, kv_seq, kv_heads, width), m.activation(batch, kv_seq, kv_heads, width_v)
    causal, rope, flash = bool(op.attrs.get("causal")), bool(op.attrs.get("rope")), m.call.habits.flash
    ahead = torch.ones(seq, kv_seq, dtype=torch.bool, device=m.device).triu(1 + kv_seq - seq)

    def forward() -> Tensor:
        turned, key = (rotated(q, 0), rotated(k, 0)) if rope else (q, k)
        a, b, c = (x.transpose(1, 2) for x in (turned, key, v))
        if flash:
            y = F.scaled_dot_product_attention(a, b, c, is_causal=causal, enable_gqa=kv_heads < heads)
        else:
            b, c = (x.repeat_interleave(heads // kv_heads, 1) if kv_heads < heads else x for x in (b, c))
            scores = a @ b.mT / math.sqrt(width)
            y = (scores.masked_fill(ahead, -math.inf) if causal else scores).softmax(-1) @ c
        return y.transpose(1, 2).reshape(batch, seq, heads * width_v)

    return forward


def _norm_over(op: Op) -> tuple[str, ...]:
    return op.inputs[1].dims


def _layer_norm(m: Maker, op: Op) -> Forward:
    shape = m.shape(_norm_over(op))
    x, weight = m.activation(*m.shape(op.inputs[0].dims)), m.parameter(*shape)
    bias = m.parameter(*shape) if len(op.inputs) > 2 else None
    return lambda: F.layer_norm(x, shape, weight, bias)


def _rms_norm(m: Maker, op: Op) -> Forward:
    shape = m.shape(_norm_over(op))
    x, weight = m.activation(*m.shape(op.inputs[0].dims)), m.parameter(*shape)
    return lambda: F.rms_norm(x, shape, weight)


def _batch_norm(m: Maker, op: Op) -> Forward:
    x = m.activation(*m.shape(op.inputs[0].dims))
    weight, bias = m.parameter(x.shape[1]), m.parameter(x.shape[1])
    mean, var = torch.zeros(x.shape[1], device=m.device), torch.ones(x.shape[1], device=m.device)
    return lambda: F.batch_norm(x, mean, var, weight, bias, training=True)


def _group_norm(m: Maker, op: Op) -> Forward:
    x = m.activation(*m.shape(op.inputs[0].dims))
    weight, bias = m.parameter(x.shape[1]), m.parameter(x.shape[1])
    return lambda: F.group_norm(x, int(op.attrs["groups"]), weight, bias)


def _summed(m: Maker, op: Op) -> Forward:
    dims = op.inputs[0].dims
    terms = [(m.operand(operand), operand.dims) for operand in op.inputs]

    def forward() -> Tensor:
        total, _ = terms[0]
        for term, term_dims in terms[1:]:
            total = total + aligned(term, term_dims, dims)
        return total

    return forward


def _activation(m: Maker, op: Op) -> Forward:
    total, dims, function = _summed(m, op), op.inputs[0].dims, op.attrs["function"]
    if function not in GATED:
        return lambda: FUNCTIONS[function](total())
    axis = next(i for i, dim in enumerate(dims) if dim not in op.outputs[0].dims)

    def forward() -> Tensor:
        gate, value = total().unbind(axis)
        return FUNCTIONS[GATED[function]](gate) * value

    return forward


def _dropout(m: Maker, op: Op) -> Forward:
    total, rate = _summed(m, op), float(op.attrs["p"])
    return lambda: F.dropout(total(), rate)


def _embedding(m: Maker, op: Op) -> Forward:
    table = m.parameter(*m.shape(op.inputs[1].dims))
    ids = m.indices(len(table), *m.shape(op.inputs[0].dims))
    return lambda: F.embedding(ids, table)


def _position(m: Maker, op: Op) -> Forward:
    x, table = m.activation(*m.shape(op.inputs[0].dims)), m.parameter(*m.shape(op.inputs[1].dims))
    return lambda: x + table[: x.shape[1]]


def _conv(m: Maker, op: Op) -> Forward:
    x, weight = m.activation(*m.shape(op.inputs[0].dims)), m.parameter(*m.shape(op.inputs[1].dims))
    stride, padding = op.attrs.get("stride", (1, 1)), op.attrs.get("padding", (0, 0))
    groups = int(op.attrs.get("groups", 1))
    return lambda: F.conv2d(x, weight, stride=stride, padding=padding, groups=groups)


def _pool(m: Maker, op: Op) -> Forward:
    x, average = m.activation(*m.shape(op.inputs[0].dims)), op.attrs["function"] == "average"
    if "kernel" not in op.attrs:
        return lambda: x.mean((2, 3)) if average else x.amax((2, 3))
    pool = F.avg_pool2d if average else F.max_pool2d
    kernel, stride, padding = op.attrs["kernel"], op.attrs["stride"], op.attrs["padding"]
    return lambda: pool(x, kernel, stride, padding)


def _concat(m: Maker, op: Op) -> Forward:
    parts = [m.activation(*m.shape(o.dims)) for o in op.inputs if len(o.dims) == len(op.outputs[0].dims)]
    axis = op.outputs[0].dims.index(op.attrs["dim"])
    return lambda: torch.cat(parts, dim=axis)


def _logits(m: Maker, op: Op) -> tuple[Tensor, list[int]]:
    """Scores in the activation's dtype, and the axes that the op reduces."""
    dims = op.inputs[0].dims
    return m.activation(*m.shape(dims)), [i for i, dim in enumerate(dims) if dim not in op.outputs[0].dims]


def _max(m: Maker, op: Op) -> Forward:
    x, axes = _logits(m, op)
    return lambda: x.detach().float().amax(axes)


def _sum_exp(m: Maker, op: Op) -> Forward:
    x, axes = _logits(m, op)
    top = m.random(*m.shape(op.inputs[1].dims), dtype=torch.float32)
    over = aligned(top, op.inputs[1].dims, op.inputs[0].dims)
    return lambda: (x.float() - over).exp().sum(axes)


def _pick(m: Maker, op: Op) -> Forward:
    x, _ = _logits(m, op)
    labels = m.indices(x.shape[-1], *m.shape(op.inputs[1].dims))[..., None]
    return lambda: x.gather(-1, labels)[..., 0].float()


def _cross_entropy(m: Maker, op: Op) -> Forward:
    top, total, picked = (m.activation(*m.shape(o.dims), dtype=torch.float32) for o in op.inputs)
    with torch.no_grad():
        total.copy_(total.abs() + 1.0)  # a sum of exponentials is above zero
    return lambda: (total.log() + top.detach() - picked).mean()


def _loss(m: Maker, op: Op) -> Forward:
    score, target = m.activation(*m.shape(op.inputs[0].dims)), m.random(*m.shape(op.inputs[1].dims))
    if op.attrs["function"] == "mse":
        return lambda: F.mse_loss(score, target)
    return lambda: F.binary_cross_entropy_with_logits(score, target)


_MAKERS: Mapping[OpKind, Callable[[Maker, Op], Forward]] = {
    OpKind.LINEAR: _linear,
    OpKind.MATMUL: _matmul,
    OpKind.ATTENTION: _attention,
    OpKind.LAYER_NORM: _layer_norm,
    OpKind.RMS_NORM: _rms_norm,
    OpKind.BATCH_NORM: _batch_norm,
    OpKind.GROUP_NORM: _group_norm,
    OpKind.ACTIVATION: _activation,
    OpKind.ADD: _summed,
    OpKind.DROPOUT: _dropout,
    OpKind.EMBEDDING: _embedding,
    OpKind.POSITION: _position,
    OpKind.CONV2D: _conv,
    OpKind.POOL2D: _pool,
    OpKind.CONCAT: _concat,
    OpKind.MAX: _max,
    OpKind.SUM_EXP: _sum_exp,
    OpKind.PICK: _pick,
    OpKind.CROSS_ENTROPY: _cross_entropy,
    OpKind.LOSS: _loss,
}
