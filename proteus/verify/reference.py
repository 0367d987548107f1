"""The undivided model: whole tensors, PyTorch's own functions, its autograd and optimizers.

Written apart from :mod:`ops` on purpose: nothing here knows of shards,
offsets or collectives, so that an error in one is not repeated in the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as fn
from torch import Tensor

from proteus.model.graph import BATCH, Block, Op, OpKind
from proteus.verify import problem as settings
from proteus.verify.noise import Draw, Noise
from proteus.verify.place import Place
from proteus.verify.problem import Problem, TokenGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one step of the undivided model gives, by path of the parameter."""

    loss: float
    gradients: Mapping[str, Tensor]
    parameters: Mapping[str, Tensor]


def undivided(
    problem: Problem,
    optimizer: str,
    token_groups: Mapping[str, Sequence[TokenGroup]] | None = None,
    frozen: Collection[str] = (),
) -> Outcome:
    """One step on the whole batch at once.

    Parameters
    ----------
    token_groups
        By path of the block: where experts have a capacity, the tokens for
        which it holds.  That much of how a batch is divided is part of the
        function that such a model trains.
    frozen
        Paths of the parameters that are not trained.
    """
    weights = {path: value.clone().requires_grad_(path not in frozen) for path, value in problem.parameters.items()}
    noise = Noise(problem.seed, problem.global_batch)
    handed: list[Tensor] = []
    for block in problem.model.blocks:
        for index in range(block.count):
            path = block.path(index)
            handed = _run(problem, block, path, weights, handed, noise, (token_groups or {}).get(path, ()))
    (loss,) = handed
    loss.backward()  # type: ignore[no-untyped-call]
    gradients = {path: w.grad.clone() for path, w in weights.items() if w.grad is not None}
    trained = [w for w in weights.values() if w.grad is not None]
    step: torch.optim.Optimizer = (
        torch.optim.Adam(trained, settings.ADAM_RATE, settings.ADAM_BETAS, settings.ADAM_EPSILON)
        if optimizer == "adam"
        else torch.optim.SGD(trained, settings.SGD_RATE)
    )
    step.step()
    return Outcome(
        loss=float(loss.detach()), gradients=gradients, parameters={path: w.detach() for path, w in weights.items()}
    )


def _run(
    problem: Problem,
    block: Block,
    path: str,
    weights: Mapping[str, Tensor],
    handed: list[Tensor],
    noise: Noise,
    groups: Sequence[TokenGroup],
) -> list[Tensor]:
    values = dict(zip(block.inputs, handed, strict=True))
    for tensor in block.tensors.values():
        if tensor.kind == "parameter":
            values[tensor.name] = weights[tensor.tied_to or f"{path}.{tensor.name}"]
        elif tensor.kind == "input":
            values[tensor.name] = problem.data[(block.name, tensor.name)]
    for op in block.ops:
        draw = Draw(noise, f"{path}.{op.name}", 0)
        made = _OPS[op.kind](op, [values[o.tensor] for o in op.inputs], _Drop(op, draw, problem.global_batch, groups))
        outputs = made if isinstance(made, tuple) else (made,)
        values |= {o.tensor: y for o, y in zip(op.outputs, outputs, strict=True)}
    return [values[name] for name in block.outputs]


@dataclass(frozen=True, slots=True)
class _Drop:
    """What is dropped: elements of a whole tensor at random, and tokens beyond an expert's capacity."""

    op: Op
    draw: Draw
    global_batch: int
    groups: Sequence[TokenGroup]

    def __call__(self, x: Tensor, dims: tuple[str, ...], rate: float) -> Tensor:
        sizes = {dim: self.global_batch if dim == BATCH else size for dim, size in self.op.sizes().items()}
        at = Place(dict.fromkeys(sizes, 0), sizes, sizes)
        return x * self.draw.keep(dims, at, rate)

    def full(self, gates: Tensor) -> Tensor:
        """The gates of a whole batch without those of tokens that find an expert full."""
        kept = gates.clone()
        for group in self.groups:
            (first, end), (left, right) = group.samples, group.positions
            part = gates[first:end, left:right].detach()
            for expert in range(gates.shape[-1]):
                wish = [round(gate, settings.GATE_DECIMALS) for gate in part[..., expert].flatten().tolist()]
                order = sorted((-gate, token) for token, gate in enumerate(wish) if gate > 0)
                for _, token in order[group.capacity :]:
                    sample, position = divmod(token, right - left)
                    kept[first + sample, left + position, expert] = 0.0
        return kept


def _linear(op: Op, xs: list[Tensor], drop: _Drop) -> tuple[Tensor, ...]:
    n, outputs = len(op.outputs), []
    for i, out in enumerate(op.outputs):
        x_dims, w_dims = op.inputs[0].dims, op.inputs[1 + i].dims
        names = {dim: index for index, dim in enumerate(op.dims)}
        y = torch.einsum(
            xs[0], [names[d] for d in x_dims], xs[1 + i], [names[d] for d in w_dims], [names[d] for d in out.dims]
        )
        if len(xs) > n + 1:
            bias_dims = op.inputs[1 + n + i].dims
            shape = [op.dims[d].size if d in bias_dims else 1 for d in out.dims]
            y = y + xs[1 + n + i].permute([bias_dims.index(d) for d in out.dims if d in bias_dims]).reshape(shape)
        outputs.append(y)
    return tuple(outputs)


def _matmul(op: Op, xs: list[Tensor], drop: _Drop) -> Tensor:
    names = {dim: index for index, dim in enumerate(op.dims)}
    one, two, out = ([names[d] for d in o.dims] for o in (*op.inputs, op.outputs[0]))
    return torch.einsum(xs[0], one, xs[1], two, out)


def _normed(op: Op, xs: list[Tensor], drop: _Drop) -> Tensor:
    epsilon = 1e-5
    shape = tuple(xs[1].shape)
    match op.kind:
        case OpKind.LAYER_NORM:
            return fn.layer_norm(xs[0], shape, xs[1], xs[2] if len(xs) > 2 else None, epsilon)
        case OpKind.GROUP_NORM:
            return fn.group_norm(xs[0], op.attrs["groups"], xs[1], xs[2], epsilon)
        case OpKind.BATCH_NORM:
            return fn.batch_norm(xs[0], None, None, xs[1], xs[2], training=True, eps=epsilon)
        case _:
            y = fn.rms_norm(xs[0], shape, xs[1], epsilon)
    if "only" not in op.attrs:
        return y
    dim, index = op.attrs["only"]
    axis = op.inputs[0].dims.index(dim)
    return torch.stack([(y if i == index else xs[0]).select(axis, i) for i in range(op.dims[dim].size)], dim=axis)


def _biased(op: Op, xs: list[Tensor]) -> Tensor:
    """The sum of all inputs; parameters are biases along the dims that they have."""
    dims = op.inputs[0].dims
    total = xs[0]
    for x, operand in zip(xs[1:], op.inputs[1:], strict=True):
        total = total + (
            x
            if operand.dims == dims
            else x.permute([operand.dims.index(d) for d in dims if d in operand.dims]).reshape(
                [length if d in operand.dims else 1 for d, length in zip(dims, total.shape, strict=True)]
            )
        )
    return total


def _activation(op: Op, xs: list[Tensor], drop: _Drop) -> Tensor:
    name = op.attrs["function"]
    if op.is_gated and len(xs) == 2:
        order = [op.inputs[1].dims.index(dim) for dim in op.inputs[0].dims]
        return (fn.silu(xs[0]) if name == "swiglu" else fn.gelu(xs[0])) * xs[1].permute(order)
    x = _biased(op, xs)
    if name in ("swiglu", "geglu"):
        axis = next(i for i, dim in enumerate(op.inputs[0].dims) if dim not in op.outputs[0].dims)
        gate, value = x.select(axis, 0), x.select(axis, 1)
        return (fn.silu(gate) if name == "swiglu" else fn.gelu(gate)) * value
    plain: Mapping[str, Callable[[Tensor], Tensor]] = {
        "gelu": fn.gelu, "relu": fn.relu, "relu2": lambda t: fn.relu(t) ** 2, "silu": fn.silu,
        "sigmoid": torch.sigmoid, "tanh": torch.tanh,
    }  # fmt: skip
    return plain[name](x)


def _rope(x: Tensor) -> Tensor:
    """Rotary positions as complex numbers: dim 1 is the position, pairs stand half the last dim apart."""
    half = x.shape[-1] // 2
    frequency = 1.0 / 10_000.0 ** (torch.arange(0, half, dtype=torch.float64) / half)
    turn = torch.polar(
        torch.ones(x.shape[1], half, dtype=torch.float64), torch.outer(torch.arange(x.shape[1]), frequency)
    )
    turned = torch.complex(x[..., :half], x[..., half:]) * turn.reshape(1, x.shape[1], *[1] * (x.dim() - 3), half)
    return torch.cat([turned.real, turned.imag], dim=-1)


def _attention(op: Op, xs: list[Tensor], drop: _Drop) -> Tensor:
    if op.attrs.get("form") == "qkv":
        return _attention_of_three(op, xs, drop)
    turn = _rope if op.attrs.get("rope") else (lambda x: x)
    if op.attrs.get("form") == "mla":
        q_nope, q_rope, k_nope, k_rope, v = xs
        q = torch.cat([q_nope, turn(q_rope)], -1)
        k_rope = turn(k_rope)[:, :, None].expand(-1, -1, k_nope.shape[2], -1)
        k = torch.cat([k_nope, k_rope], -1)
    else:
        k, v = xs[1].select(3, 0), xs[1].select(3, 1)
        q, k = turn(xs[0]), turn(k)
    batch, seq, heads, per, width = q.shape
    # batch, heads, seq, width; every key-value head serves `per` query heads
    q = q.permute(0, 2, 3, 1, 4).reshape(batch, heads * per, seq, width)
    k, v = (t.permute(0, 2, 1, 3).repeat_interleave(per, dim=1) for t in (k, v))
    scores = q @ k.mT / width**0.5
    if document := op.attrs.get("document"):
        of = torch.arange(seq) // document
        scores = scores.masked_fill(of[:, None] != of[None, :], -torch.inf)
    if op.attrs.get("causal"):
        scores = scores + torch.full_like(scores[0, 0], -torch.inf).triu(1)
    probs = scores.softmax(-1)
    if op.attrs.get("dropout"):
        dims = (*op.outputs[0].dims[:-1], "kv_seq")
        shaped = probs.reshape(batch, heads, per, seq, -1).permute(0, 3, 1, 2, 4)
        shaped = drop(shaped, dims, float(op.attrs["dropout"]))
        probs = shaped.permute(0, 2, 3, 1, 4).reshape(probs.shape)
    y = probs @ v
    return y.reshape(batch, heads, per, seq, -1).permute(0, 3, 1, 2, 4)


def _attention_of_three(op: Op, xs: list[Tensor], drop: _Drop) -> Tensor:
    turn = _rope if op.attrs.get("rope") else (lambda x: x)
    names = {dim: number for number, dim in enumerate(op.dims)}
    q_dims, k_dims, v_dims = ([names[dim] for dim in operand.dims] for operand in op.inputs)
    out = [names[dim] for dim in op.outputs[0].dims]
    square = (*(dim for dim in op.outputs[0].dims[:-1]), "kv_seq")
    q, k = turn(xs[0]), turn(xs[1])
    scores = torch.einsum(q, q_dims, k, k_dims, [names[dim] for dim in square]) / q.shape[-1] ** 0.5
    if op.attrs.get("causal"):
        ahead = torch.ones(op.dims["seq"].size, op.dims["kv_seq"].size, dtype=torch.bool).triu(1)
        shape = [op.dims[dim].size if dim in ("seq", "kv_seq") else 1 for dim in square]
        scores = scores.masked_fill(ahead.reshape(shape), -torch.inf)
    probs = scores.softmax(-1)
    if op.attrs.get("dropout"):
        probs = drop(probs, square, float(op.attrs["dropout"]))
    return torch.einsum(probs, [names[dim] for dim in square], xs[2], v_dims, out)


def _pool(op: Op, xs: list[Tensor], drop: _Drop) -> Tensor:
    largest = op.attrs["function"] == "max"
    if "kernel" not in op.attrs:
        return (fn.adaptive_max_pool2d(xs[0], 1) if largest else fn.adaptive_avg_pool2d(xs[0], 1)).flatten(1)
    pool = fn.max_pool2d if largest else fn.avg_pool2d
    return pool(xs[0], op.attrs["kernel"], op.attrs["stride"], op.attrs["padding"])


def _reshape(op: Op, xs: list[Tensor], drop: _Drop) -> Tensor:
    merge = op.attrs.get("merge", {})
    source, out = op.inputs[0].dims, op.outputs[0].dims
    order = [part for dim in out for part in merge.get(dim, (dim,))]
    shape = [-1 if dim == BATCH else op.dims[dim].size for dim in out]
    return xs[0].permute([source.index(dim) for dim in order]).reshape(shape)


def _concat(op: Op, xs: list[Tensor], drop: _Drop) -> Tensor:
    axis = op.outputs[0].dims.index(op.attrs["dim"])
    full = next(x for x in xs if x.dim() == len(op.outputs[0].dims))
    rows = [x if x.dim() == full.dim() else x.expand(*full.shape[:axis], 1, *full.shape[axis + 1 :]) for x in xs]
    return torch.cat(rows, axis)


def _interaction(op: Op, xs: list[Tensor], drop: _Drop) -> Tensor:
    features = [xs[0], *xs[1].unbind(1)]
    pairs = [(features[i] * features[j]).sum(-1) for i in range(len(features)) for j in range(i)]
    return torch.cat([xs[0], torch.stack(pairs, -1)], -1)


def _bag(op: Op, xs: list[Tensor], drop: _Drop) -> Tensor:
    return torch.stack([fn.embedding_bag(xs[0][:, t], xs[1][t], mode="sum") for t in range(len(xs[1]))], 1)


def _router(op: Op, xs: list[Tensor], drop: _Drop) -> Tensor:
    scores = fn.softmax(xs[0], -1) if op.attrs["function"] == "softmax" else torch.sigmoid(xs[0])
    ranked = scores + xs[1] if len(xs) > 1 else scores
    lowest = ranked.topk(op.attrs["topk"], -1).values[..., -1:]
    gates = torch.where(ranked >= lowest, scores, torch.zeros_like(scores))
    return gates / gates.sum(-1, keepdim=True) if op.attrs["normalize"] else gates


def _dispatch(op: Op, xs: list[Tensor], drop: _Drop) -> Tensor:
    tokens, gates = xs[0].flatten(0, 1), drop.full(xs[1]).flatten(0, 1)
    sent = torch.stack([tokens * (gates[:, e] > 0).unsqueeze(-1) for e in range(gates.shape[1])])
    return sent.reshape(-1, *xs[0].shape)  # every expert has room for all


def _combine(op: Op, xs: list[Tensor], drop: _Drop) -> Tensor:
    gates = drop.full(xs[1]).flatten(0, 1)
    y = sum(xs[0][e].flatten(0, 1) * gates[:, e].unsqueeze(-1) for e in range(gates.shape[1]))
    assert isinstance(y, Tensor)
    return y.reshape(*xs[1].shape[:2], -1)


def _map(op: Op, xs: list[Tensor], drop: _Drop) -> Tensor:
    names = {dim: number for number, dim in enumerate(op.dims)}
    out = [names[dim] for dim in op.outputs[0].dims]
    operands = [item for x, o in zip(xs, op.inputs, strict=True) for item in (x, [names[dim] for dim in o.dims])]
    y = torch.einsum(*operands, out)
    if op.attrs["function"] == "mean":
        y = y * (y.numel() / xs[0].numel())
    return y


def _loss(op: Op, xs: list[Tensor], drop: _Drop) -> Tensor:
    return fn.mse_loss(xs[0], xs[1]) if op.attrs["function"] == "mse" else fn.binary_cross_entropy(xs[0], xs[1])


_OPS: Mapping[OpKind, Callable[[Op, list[Tensor], _Drop], Tensor | tuple[Tensor, ...]]] = {
    OpKind.LINEAR: _linear,
    OpKind.MATMUL: _matmul,
    OpKind.EMBEDDING: lambda op, xs, drop: fn.embedding(xs[0], xs[1]),
    OpKind.POSITION: lambda op, xs, drop: xs[0] + xs[1][: xs[0].shape[1]],
    OpKind.ATTENTION: _attention,
    OpKind.LAYER_NORM: _normed,
    OpKind.RMS_NORM: _normed,
    OpKind.BATCH_NORM: _normed,
    OpKind.GROUP_NORM: _normed,
    OpKind.ACTIVATION: _activation,
    OpKind.DROPOUT: lambda op, xs, drop: drop(_biased(op, xs), op.outputs[0].dims, float(op.attrs["p"])),
    OpKind.ADD: lambda op, xs, drop: _biased(op, xs),
    OpKind.CONV2D: lambda op, xs, drop: fn.conv2d(
        xs[0], xs[1], None, op.attrs["stride"], op.attrs["padding"], 1, op.attrs.get("groups", 1)
    ),
    OpKind.POOL2D: _pool,
    OpKind.RESHAPE: _reshape,
    OpKind.CONCAT: _concat,
    OpKind.SELECT: lambda op, xs, drop: xs[0].select(op.inputs[0].dims.index(op.attrs["dim"]), op.attrs["index"]),
    OpKind.TAKE: lambda op, xs, drop: torch.stack([x[places] for x, places in zip(xs[0], xs[1], strict=True)]),
    OpKind.INTERACTION: _interaction,
    OpKind.EMBEDDING_BAG: _bag,
    OpKind.ROUTER: _router,
    OpKind.DISPATCH: _dispatch,
    OpKind.COMBINE: _combine,
    # the three reductions of a cross entropy, here by logsumexp: its maximum is no part of the function
    OpKind.MAX: lambda op, xs, drop: torch.zeros(xs[0].shape[:-1], dtype=torch.float64),
    OpKind.SUM_EXP: lambda op, xs, drop: xs[0].logsumexp(-1).exp(),
    OpKind.PICK: lambda op, xs, drop: xs[0].gather(-1, xs[1].unsqueeze(-1)).squeeze(-1),
    OpKind.CROSS_ENTROPY: lambda op, xs, drop: (xs[1].log() + xs[0] - xs[2]).mean(),
    OpKind.LOSS: _loss,
    OpKind.MAP: _map,
}
