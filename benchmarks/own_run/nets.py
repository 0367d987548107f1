"""The two networks in PyTorch, op for op what the model graphs beside them say.

Tensor parallelism is Megatron's (Shoeybi et al., arXiv 1909.08053): columns,
then rows; one all_reduce per half layer in the forward and in the backward.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from proteus.model import zoo
from proteus.model.convnet import convnet
from proteus.model.graph import Model

TRANSFORMER = {"layers": 2, "hidden": 256, "heads": 8, "ffn": 1024, "vocab": 1024, "seq": 128, "positions": 128}
WIDE, IMAGE, COLOURS, CLASSES = 32, 32, 3, 64


def transformer_model() -> Model:
    """The transformer as Proteus sees it."""
    return zoo.load("tiny-gpt", **TRANSFORMER, tied=False, dropout=0.0, attention_dropout=0.0)


def cnn_model() -> Model:
    """The convolutional network as Proteus sees it."""
    plain = {"residual": [f"conv {WIDE} k3 p1", f"conv {WIDE} k3 p1 linear"]}
    down = {
        "residual": [f"conv {2 * WIDE} k3 s2 p1", f"conv {2 * WIDE} k3 p1 linear"],
        "shortcut": [f"conv {2 * WIDE} k1 s2 linear"],
    }
    blocks: list[dict[str, Any]] = [
        {"name": "stem", "steps": [f"conv {WIDE} k3 p1"]},
        {"name": "layer1", "count": 2, "indexed": True, "steps": [plain]},
        {"name": "layer2", "steps": [down]},
        {"name": "head", "steps": ["global"]},
    ]
    return convnet("small-cnn", image=IMAGE, channels=COLOURS, classes=CLASSES, norm="batch_norm", blocks=blocks)


class _Summed(torch.autograd.Function):
    """all_reduce of partial sums; every rank uses the whole, so its gradient passes unchanged."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.contiguous()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class _Shared(torch.autograd.Function):
    """What every rank reads whole: the parts of its gradient are summed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


def summed(x: Tensor, tp: int) -> Tensor:
    return _Summed.apply(x) if tp > 1 else x


def shared(x: Tensor, tp: int) -> Tensor:
    return _Shared.apply(x) if tp > 1 else x


def cross_entropy(logits: Tensor, labels: Tensor, tp: int, first: int) -> Tensor:
    """Mean cross entropy over classes of which this rank holds those from `first`."""
    top = logits.detach().amax(-1)
    if tp > 1:
        dist.all_reduce(top, op=dist.ReduceOp.MAX)
    total = summed((logits - top[..., None]).exp().sum(-1), tp)
    local = labels - first
    held = (local >= 0) & (local < logits.shape[-1])
    at_target = logits.gather(-1, local.clamp(0, logits.shape[-1] - 1)[..., None])[..., 0]
    picked = summed(torch.where(held, at_target, 0.0) if tp > 1 else at_target, tp)
    return (total.log() + top - picked).mean()


def _weight(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape) * 0.02)


class Layer(nn.Module):
    """One pre-norm layer, its heads and inner columns cut by `tp`."""

    def __init__(self, hidden: int, heads: int, ffn: int, tp: int) -> None:
        super().__init__()
        self.tp, self.heads, self.width = tp, heads // tp, hidden // heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.qkv_bias = _weight(3 * hidden // tp, hidden), _weight(3 * hidden // tp)
        self.proj, self.proj_bias = _weight(hidden, hidden // tp), _weight(hidden)
        self.fc1, self.fc1_bias = _weight(ffn // tp, hidden), _weight(ffn // tp)
        self.fc2, self.fc2_bias = _weight(hidden, ffn // tp), _weight(hidden)

    def forward(self, x: Tensor) -> Tensor:
        batch, seq, _ = x.shape
        y = F.linear(shared(self.norm1(x), self.tp), self.qkv, self.qkv_bias)
        q, k, v = y.view(batch, seq, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.transpose(1, 2).reshape(batch, seq, self.heads * self.width)
        x = x + summed(F.linear(y, self.proj), self.tp) + self.proj_bias
        y = F.gelu(F.linear(shared(self.norm2(x), self.tp), self.fc1, self.fc1_bias))
        return x + summed(F.linear(y, self.fc2), self.tp) + self.fc2_bias


class Transformer(nn.Module):
    """A small GPT; vocabulary, heads and inner columns cut by `tp`."""

    def __init__(self, tp: int, rank: int) -> None:
        super().__init__()
        hidden, vocab = TRANSFORMER["hidden"], TRANSFORMER["vocab"] // tp
        self.tp, self.first = tp, rank * vocab if tp > 1 else 0
        self.words, self.positions = _weight(vocab, hidden), _weight(TRANSFORMER["positions"], hidden)
        inner = [Layer(hidden, TRANSFORMER["heads"], TRANSFORMER["ffn"], tp) for _ in range(TRANSFORMER["layers"])]
        self.layers, self.norm, self.head = nn.ModuleList(inner), nn.LayerNorm(hidden), _weight(vocab, hidden)

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        x = summed(self._look_up(tokens), self.tp) + self.positions[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        logits = F.linear(shared(self.norm(x), self.tp), self.head)
        return cross_entropy(logits, labels, self.tp, self.first)

    def _look_up(self, tokens: Tensor) -> Tensor:
        if self.tp == 1:
            return F.embedding(tokens, self.words)
        local = tokens - self.first
        held = (local >= 0) & (local < len(self.words))
        return F.embedding(local.clamp(0, len(self.words) - 1), self.words) * held[..., None]


class Unit(nn.Module):
    """Two convolutions and what is added to them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        same = before == after and stride == 1
        self.side = None if same else nn.Conv2d(before, after, 1, stride, bias=False)
        self.side_norm = None if same else nn.BatchNorm2d(after)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        side = self.side_norm(self.side(x)) if self.side is not None and self.side_norm is not None else x
        return F.relu(y + side)


class Cnn(nn.Module):
    """A small residual network."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(COLOURS, WIDE, 3, 1, 1, bias=False), nn.BatchNorm2d(WIDE)
        self.units = nn.Sequential(Unit(WIDE, WIDE, 1), Unit(WIDE, WIDE, 1), Unit(WIDE, 2 * WIDE, 2))
        self.fc = nn.Linear(2 * WIDE, CLASSES)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        x = self.units(F.relu(self.stem_norm(self.stem(images))))
        return cross_entropy(self.fc(x.mean((2, 3))), labels, 1, 0)
