"""The forward of every op on local shards.

A shard knows from its :class:`Place` which part of each dim it is: a cut
vocabulary looks up the ids it holds, a cut sequence knows its positions.
Gradients come from autograd over these functions, rank by rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from proteus.model.graph import Op, Operand, OpKind
from proteus.verify.noise import Draw
from proteus.verify.place import Place
from proteus.verify.problem import GATE_DECIMALS

Forward = Callable[[Op, Place, Sequence[Tensor], Draw], tuple[Tensor, ...]]

#: added to variances [1]; PyTorch's default of layer_norm
EPSILON = 1e-5
#: base of rotary positions (Su et al., arXiv 2104.09864)
ROPE_BASE = 10_000.0
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def aligned(x: Tensor, dims: Sequence[str], to: Sequence[str]) -> Tensor:
    """`x` with its dims in the order of `to`, size 1 where it has none."""
    order = [dims.index(dim) for dim in to if dim in dims]
    x = x.permute(order)
    for axis, dim in enumerate(to):
        if dim not in dims:
            x = x.unsqueeze(axis)
    return x


def contract(out: Sequence[str], *terms: tuple[Tensor, Sequence[str]]) -> Tensor:
    """Sum of products over every dim that `out` lacks."""
    letter: dict[str, str] = {}
    for _, dims in terms:
        for dim in dims:
            letter.setdefault(dim, _LETTERS[len(letter)])
    spelled = ",".join("".join(letter[dim] for dim in dims) for _, dims in terms)
    known = [dim for dim in out if dim in letter]
    y = torch.einsum(f"{spelled}->{''.join(letter[dim] for dim in known)}", *[x for x, _ in terms])
    return aligned(y, known, out)


def linear(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    outputs = []
    for i, out in enumerate(op.outputs):
        y = contract(out.dims, (xs[0], op.inputs[0].dims), (xs[1 + i], op.inputs[1 + i].dims))
        bias = 1 + len(op.outputs) + i
        if bias < len(xs):
            y = y + aligned(xs[bias], op.inputs[bias].dims, out.dims)
        outputs.append(y)
    return tuple(outputs)


def matmul(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    return (contract(op.outputs[0].dims, (xs[0], op.inputs[0].dims), (xs[1], op.inputs[1].dims)),)


def rows_of(table: Tensor, ids: Tensor, start: int) -> Tensor:
    """Rows of a table that begins at row `start`; zeros for ids it does not hold."""
    local = ids - start
    held = (local >= 0) & (local < len(table))
    if not len(table):
        return table.sum() * torch.zeros(*ids.shape, table.shape[1], dtype=table.dtype)
    return torch.where(held[..., None], table[local.clamp(0, len(table) - 1)], 0.0)


def embedding(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    return (rows_of(xs[1], xs[0], at.start[op.inputs[1].dims[0]]),)


def position(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    x, table = xs
    seq = op.inputs[0].dims[1]
    return (x + table[at.start[seq] : at.start[seq] + at.length[seq]],)


def _inner(op: Op) -> tuple[str, ...]:
    """Dims that a norm works over: those of its weight."""
    return op.inputs[1].dims


def layer_norm(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    dims = op.inputs[0].dims
    axes = [dims.index(dim) for dim in _inner(op)]
    centred = xs[0] - xs[0].mean(axes, keepdim=True)
    y = centred * torch.rsqrt(centred.square().mean(axes, keepdim=True) + EPSILON)
    y = y * aligned(xs[1], _inner(op), dims)
    return (y + aligned(xs[2], op.inputs[2].dims, dims) if len(xs) > 2 else y,)


def rms_norm(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    dims = op.inputs[0].dims
    axes = [dims.index(dim) for dim in _inner(op)]
    y = xs[0] * torch.rsqrt(xs[0].square().mean(axes, keepdim=True) + EPSILON) * aligned(xs[1], _inner(op), dims)
    if "only" in op.attrs:
        dim, index = op.attrs["only"]
        chosen = torch.arange(at.length[dim]) + at.start[dim] == index
        y = torch.where(aligned(chosen, (dim,), dims), y, xs[0])
    return (y,)


def _channel_norm(op: Op, xs: Sequence[Tensor], x: Tensor, axes: list[int]) -> Tensor:
    """Normalize the view `x` of xs[0] over `axes`, then scale and shift by channel."""
    centred = x - x.mean(axes, keepdim=True)
    y = (centred * torch.rsqrt(centred.square().mean(axes, keepdim=True) + EPSILON)).reshape(xs[0].shape)
    dims = op.inputs[0].dims
    return y * aligned(xs[1], op.inputs[1].dims, dims) + aligned(xs[2], op.inputs[2].dims, dims)


def batch_norm(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    return (_channel_norm(op, xs, xs[0], [0, *range(2, xs[0].dim())]),)


def group_norm(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    groups = int(op.attrs["groups"])
    batch, channels, *space = xs[0].shape
    return (_channel_norm(op, xs, xs[0].reshape(batch, groups, channels // groups * math.prod(space)), [2]),)


FUNCTIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "gelu": torch.nn.functional.gelu,
    "relu": torch.relu,
    "relu2": lambda x: torch.relu(x).square(),
    "silu": torch.nn.functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}
GATED = {"swiglu": "silu", "geglu": "gelu"}


def _sum(op: Op, xs: Sequence[Tensor], dims: Sequence[str], operands: Sequence[Operand]) -> Tensor:
    total = aligned(xs[0], operands[0].dims, dims)
    for x, operand in zip(xs[1:], operands[1:], strict=True):
        total = total + aligned(x, operand.dims, dims)
    return total


def activation(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    dims, out = op.inputs[0].dims, op.outputs[0].dims
    function = op.attrs["function"]
    if op.is_gated and len(xs) == 2:
        gate, value = (aligned(x, operand.dims, out) for x, operand in zip(xs, op.inputs, strict=True))
        return (FUNCTIONS[GATED[function]](gate) * value,)
    x = _sum(op, xs, dims, op.inputs)
    if function not in GATED:
        return (aligned(FUNCTIONS[function](x), dims, out),)
    two = next(dim for dim in dims if dim not in out)
    gate, value = x.unbind(dims.index(two))
    return (aligned(FUNCTIONS[GATED[function]](gate) * value, [dim for dim in dims if dim != two], out),)


def add(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    return (_sum(op, xs, op.outputs[0].dims, op.inputs),)


def dropout(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    dims = op.outputs[0].dims
    return (_sum(op, xs, dims, op.inputs) * draw.keep(dims, at, float(op.attrs["p"])),)


def reshape(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    dims, out = op.inputs[0].dims, op.outputs[0].dims
    merge: Mapping[str, tuple[str, ...]] = op.attrs.get("merge", {})
    spread = [part for dim in out for part in merge.get(dim, (dim,))]
    return (xs[0].permute([dims.index(dim) for dim in spread]).reshape(at.shape(out)),)


def concat(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    out = op.outputs[0].dims
    axis = out.index(op.attrs["dim"])
    whole = at.shape(out)
    parts = []
    for x, operand in zip(xs, op.inputs, strict=True):
        if len(operand.dims) < len(out):  # one row, the same for the dims it lacks
            x = aligned(x, operand.dims, out).expand(*whole[:axis], 1, *whole[axis + 1 :])
        parts.append(x)
    return (torch.cat(parts, dim=axis),)


def select(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    return (xs[0].select(op.inputs[0].dims.index(op.attrs["dim"]), int(op.attrs["index"])),)


def rotated(x: Tensor, first: int) -> Tensor:
    """Rotary positions over dims 1 (positions from `first`) and -1."""
    half = x.shape[-1] // 2
    inverse = ROPE_BASE ** (-torch.arange(half, dtype=x.dtype) / half)
    angle = (torch.arange(x.shape[1], dtype=x.dtype) + first)[:, None] * inverse
    shape = (1, x.shape[1], *[1] * (x.dim() - 3), half)
    cos, sin = angle.cos().reshape(shape), angle.sin().reshape(shape)
    one, two = x[..., :half], x[..., half : 2 * half]
    return torch.cat([one * cos - two * sin, two * cos + one * sin, x[..., 2 * half :]], dim=-1)


def attention(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    rope = bool(op.attrs.get("rope"))
    first = at.start["seq"]
    out = op.outputs[0].dims
    scores_dims = (*out[:-1], "kv_seq")
    if op.attrs.get("form") == "mla":
        q_nope, q_rope, k_nope, k_rope, v = xs
        dims = [operand.dims for operand in op.inputs]
        if rope:
            q_rope, k_rope = rotated(q_rope, first), rotated(k_rope, 0)
        scores = contract(scores_dims, (q_nope, dims[0]), (k_nope, dims[2]))
        scores = scores + contract(scores_dims, (q_rope, dims[1]), (k_rope, dims[3]))
        width, v_dims = q_nope.shape[-1] + q_rope.shape[-1], dims[4]
    else:
        q, q_dims = xs[0], op.inputs[0].dims
        if op.attrs.get("form") == "qkv":
            k, v, k_dims, v_dims = xs[1], xs[2], op.inputs[1].dims, op.inputs[2].dims
        else:
            kv_dims = op.inputs[1].dims
            k, v = xs[1].unbind(kv_dims.index("two"))
            k_dims = v_dims = tuple(dim for dim in kv_dims if dim != "two")
        if rope:
            q, k = rotated(q, first), rotated(k, 0)
        scores = contract(scores_dims, (q, q_dims), (k, k_dims))
        width = q.shape[-1]
    scores = scores / math.sqrt(width)
    rows, columns = torch.arange(at.length["seq"])[:, None] + first, torch.arange(at.length["kv_seq"])[None, :]
    if document := op.attrs.get("document"):
        crosses_documents = rows // document != columns // document
        scores = scores.masked_fill(aligned(crosses_documents, ("seq", "kv_seq"), scores_dims), -math.inf)
    if op.attrs.get("causal"):
        ahead = columns > rows
        scores = scores.masked_fill(aligned(ahead, ("seq", "kv_seq"), scores_dims), -math.inf)
    probs = scores.softmax(-1)
    if op.attrs.get("dropout"):
        probs = probs * draw.keep(scores_dims, at, float(op.attrs["dropout"]))
    return (contract(out, (probs, scores_dims), (v, v_dims)),)


def _window(op: Op) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    return tuple(op.attrs["kernel"]), tuple(op.attrs["stride"]), tuple(op.attrs["padding"])


def _nothing(op: Op, at: Place, xs: Sequence[Tensor]) -> Tensor:
    """An output without elements, or without terms, that still depends on the inputs."""
    return torch.zeros(at.shape(op.outputs[0].dims), dtype=torch.float64) + sum(x.sum() for x in xs) * 0.0


def conv2d(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    if not all(x.numel() for x in xs):
        return (_nothing(op, at, xs),)
    _, stride, padding = _window(op)
    groups = int(op.attrs.get("groups", 1))
    return (torch.nn.functional.conv2d(xs[0], xs[1], stride=stride, padding=padding, groups=groups),)


def pool2d(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    if not xs[0].numel():
        return (_nothing(op, at, xs),)
    average = op.attrs["function"] == "average"
    if "kernel" not in op.attrs:
        return (xs[0].mean((2, 3)) if average else xs[0].amax((2, 3)),)
    kernel, stride, padding = _window(op)
    if average:
        return (torch.nn.functional.avg_pool2d(xs[0], kernel, stride, padding),)
    return (torch.nn.functional.max_pool2d(xs[0], kernel, stride, padding),)


def take(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    x, places = xs
    local = places - at.start[op.inputs[0].dims[1]]
    held = (local >= 0) & (local < x.shape[1])
    if not x.shape[1]:
        return (x.sum() * torch.zeros(*places.shape, x.shape[2], dtype=x.dtype),)
    rows = local.clamp(0, x.shape[1] - 1)[..., None].expand(-1, -1, x.shape[2])
    return (torch.where(held[..., None], x.gather(1, rows), 0.0),)


def interaction(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    dense, bags = xs
    features = torch.cat([dense[:, None], bags], dim=1)
    products = features @ features.mT
    row, column = torch.tril_indices(features.shape[1], features.shape[1], offset=-1)
    return (torch.cat([dense, products[:, row, column]], dim=1),)


def embedding_bag(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    ids, tables = xs
    first = at.start[op.inputs[1].dims[1]]
    bags = [rows_of(tables[t], ids[:, t], first).sum(1) for t in range(tables.shape[0])]
    if not bags:
        return (_nothing(op, at, [tables]),)
    return (torch.stack(bags, dim=1),)


def router(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    logits = xs[0]
    scores = logits.softmax(-1) if op.attrs["function"] == "softmax" else logits.sigmoid()
    ranked = (scores if len(xs) < 2 else scores + xs[1]).detach()
    chosen = torch.zeros_like(scores).scatter(-1, ranked.topk(int(op.attrs["topk"]), dim=-1).indices, 1.0)
    gates = scores * chosen
    return (gates / gates.sum(-1, keepdim=True) if op.attrs["normalize"] else gates,)


def _placed(gates: Tensor, slots: int) -> Tensor:
    """Which token stands in which slot of every expert [experts, slots, tokens].

    Of more tokens than slots those with the largest gates stay, as Megatron's
    drop policy ``probs`` has it; of equal ones (to rounding) the first.
    """
    best = gates.detach().round(decimals=GATE_DECIMALS).argsort(dim=0, descending=True, stable=True)[:slots]
    kept = torch.zeros_like(gates).scatter(0, best, 1.0) * (gates != 0)
    slot = kept.cumsum(0) - 1
    return kept.T[:, None] * (slot.T[:, None] == torch.arange(slots)[:, None])


def dispatch(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    x, gates = xs
    shape = at.shape(op.outputs[0].dims)
    placed = _placed(gates.flatten(0, 1), shape[1] * shape[2])
    return (torch.einsum("ect,th->ech", placed, x.flatten(0, 1)).reshape(shape),)


def combine(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    slots, gates = xs
    tokens = gates.flatten(0, 1)
    queues = slots.flatten(1, 2)
    y = torch.einsum("ech,ect,te->th", queues, _placed(tokens, queues.shape[1]), tokens)
    return (y.reshape(*gates.shape[:2], queues.shape[2]),)


def _reduced(op: Op) -> list[int]:
    dims, out = op.inputs[0].dims, op.outputs[0].dims
    return [axis for axis, dim in enumerate(dims) if dim not in out]


def maximum(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    axes = _reduced(op)
    if not all(xs[0].shape[axis] for axis in axes):
        return (torch.full(at.shape(op.outputs[0].dims), -math.inf, dtype=xs[0].dtype) + xs[0].sum() * 0.0,)
    return (xs[0].amax(axes),)


def sum_exp(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    logits, top = xs
    return (torch.exp(logits - aligned(top, op.inputs[1].dims, op.inputs[0].dims)).sum(_reduced(op)),)


def pick(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    logits, labels = xs
    classes = op.inputs[0].dims[-1]
    local = labels - at.start[classes]
    size = at.length[classes]
    if not size:
        return (_nothing(op, at, [logits]),)
    held = (local >= 0) & (local < size)
    picked = logits.gather(-1, local.clamp(0, size - 1)[..., None])[..., 0]
    return (torch.where(held, picked, 0.0),)


def _share(op: Op, at: Place) -> float:
    """One over the number of terms of a mean, all ranks together."""
    return 1.0 / math.prod(at.total[dim] for dim in op.inputs[0].dims)


def cross_entropy(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    top, total, picked = xs
    return ((total.log() + top - picked).sum() * _share(op, at),)


def loss(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    score, target = xs
    if op.attrs["function"] == "mse":
        return ((score - target).square().sum() * _share(op, at),)
    return (torch.nn.functional.binary_cross_entropy(score, target, reduction="sum") * _share(op, at),)


def mapped(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    out = op.outputs[0].dims
    if op.attrs["function"] == "mul":
        y = aligned(xs[0], op.inputs[0].dims, out)
        for x, operand in zip(xs[1:], op.inputs[1:], strict=True):
            y = y * aligned(x, operand.dims, out)
        return (y,)
    dims = op.inputs[0].dims
    kept = tuple(dim for dim in dims if dim in out)
    axes = [axis for axis, dim in enumerate(dims) if dim not in out]
    y = xs[0].sum(axes) if axes else xs[0]
    if op.attrs["function"] == "mean":
        y = y / math.prod(at.total[dim] for dim in dims if dim not in out)
    return (aligned(y, kept, out),)


FORWARD: Mapping[OpKind, Forward] = {
    OpKind.MAP: mapped,
    OpKind.LINEAR: linear,
    OpKind.MATMUL: matmul,
    OpKind.EMBEDDING: embedding,
    OpKind.POSITION: position,
    OpKind.ATTENTION: attention,
    OpKind.LAYER_NORM: layer_norm,
    OpKind.RMS_NORM: rms_norm,
    OpKind.BATCH_NORM: batch_norm,
    OpKind.GROUP_NORM: group_norm,
    OpKind.ACTIVATION: activation,
    OpKind.DROPOUT: dropout,
    OpKind.ADD: add,
    OpKind.CONV2D: conv2d,
    OpKind.POOL2D: pool2d,
    OpKind.RESHAPE: reshape,
    OpKind.CONCAT: concat,
    OpKind.SELECT: select,
    OpKind.TAKE: take,
    OpKind.INTERACTION: interaction,
    OpKind.EMBEDDING_BAG: embedding_bag,
    OpKind.ROUTER: router,
    OpKind.DISPATCH: dispatch,
    OpKind.COMBINE: combine,
    OpKind.MAX: maximum,
    OpKind.SUM_EXP: sum_exp,
    OpKind.PICK: pick,
    OpKind.CROSS_ENTROPY: cross_entropy,
    OpKind.LOSS: loss,
}


def forward(op: Op, at: Place, xs: Sequence[Tensor], draw: Draw) -> tuple[Tensor, ...]:
    """The outputs of `op` on local shards."""
    with torch.no_grad():
        return FORWARD[op.kind](op, at, xs, draw)


def vjp(
    op: Op,
    at: Place,
    xs: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    wanted: Sequence[int],
    draw: Draw,
) -> tuple[Tensor, ...]:
    """Gradients of the `wanted` inputs from those of the outputs (None: no gradient)."""
    leaves = [x.detach().requires_grad_() if i in wanted else x for i, x in enumerate(xs)]
    with torch.enable_grad():
        outputs = FORWARD[op.kind](op, at, leaves, draw)
    pairs = [(y, g) for y, g in zip(outputs, grads, strict=True) if g is not None and y.requires_grad]
    targets = [leaves[i] for i in wanted]
    if not pairs:
        return tuple(torch.zeros_like(x) for x in targets)
    gradients = torch.autograd.grad([y for y, _ in pairs], targets, [g for _, g in pairs], allow_unused=True)
    return tuple(torch.zeros_like(x) if g is None else g for x, g in zip(targets, gradients, strict=True))
