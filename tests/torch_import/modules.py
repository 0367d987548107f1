"""Modules as people write them, in plain PyTorch: the widths of every one can be small."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as fn
from torch import Tensor, nn

EPSILON = 1e-5


class WrittenNorm(nn.Module):
    """RMS norm in operators, with the casts of Hugging Face."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        dtype = x.dtype
        x = x.to(torch.promote_types(dtype, torch.float32))
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON)
        return self.weight * x.to(dtype)


def rotate_half(x: Tensor) -> Tensor:
    one, two = x.chunk(2, -1)
    return torch.cat((-two, one), -1)


def repeat_heads(x: Tensor, times: int) -> Tensor:
    batch, heads, seq, width = x.shape
    if times == 1:
        return x
    return x[:, :, None].expand(batch, heads, times, seq, width).reshape(batch, heads * times, seq, width)


class LlamaAttention(nn.Module):
    def __init__(self, hidden: int, heads: int, kv_heads: int, written: bool) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.width, self.written = heads, kv_heads, hidden // heads, written
        self.q_proj = nn.Linear(hidden, heads * self.width, bias=False)
        self.k_proj = nn.Linear(hidden, kv_heads * self.width, bias=False)
        self.v_proj = nn.Linear(hidden, kv_heads * self.width, bias=False)
        self.o_proj = nn.Linear(heads * self.width, hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, seq, _ = x.shape
        q = self.q_proj(x).view(batch, seq, self.heads, self.width).transpose(1, 2)
        k = self.k_proj(x).view(batch, seq, self.kv_heads, self.width).transpose(1, 2)
        v = self.v_proj(x).view(batch, seq, self.kv_heads, self.width).transpose(1, 2)
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        k, v = (repeat_heads(t, self.heads // self.kv_heads) for t in (k, v))
        if self.written:
            mask = torch.full((seq, seq), -torch.inf, device=x.device).triu(1)
            y = (q @ k.transpose(-1, -2) / math.sqrt(self.width) + mask).softmax(-1).to(q.dtype) @ v
        else:
            y = fn.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).contiguous().reshape(batch, seq, -1))


class GatedMlp(nn.Module):
    def __init__(self, hidden: int, ffn: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, ffn, bias=False)
        self.up_proj = nn.Linear(hidden, ffn, bias=False)
        self.down_proj = nn.Linear(ffn, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(fn.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(nn.Module):
    def __init__(self, hidden: int, heads: int, kv_heads: int, ffn: int, written: bool) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = WrittenNorm(hidden), WrittenNorm(hidden)
        self.self_attn, self.mlp = LlamaAttention(hidden, heads, kv_heads, written), GatedMlp(hidden, ffn)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Llama with everything written out: norms, rotary positions, repeated heads, and attention if asked."""

    def __init__(
        self, layers: int = 32, hidden: int = 4096, heads: int = 32, kv_heads: int = 8, ffn: int = 14336,
        vocab: int = 128256, *, written: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, hidden)
        self.layers = nn.ModuleList(LlamaLayer(hidden, heads, kv_heads, ffn, written) for _ in range(layers))
        self.norm, self.lm_head = WrittenNorm(hidden), nn.Linear(hidden, vocab, bias=False)
        self.width = hidden // heads

    def forward(self, ids: Tensor, labels: Tensor) -> Tensor:
        dtype = torch.promote_types(self.norm.weight.dtype, torch.float32)
        half = torch.arange(0, self.width, 2, device=ids.device, dtype=dtype)
        angle = torch.outer(
            torch.arange(ids.shape[1], device=ids.device, dtype=dtype), 10_000.0 ** (-half / self.width)
        )
        angle = torch.cat((angle, angle), -1)
        cos, sin = angle.cos(), angle.sin()
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        logits = self.lm_head(self.norm(x))
        return fn.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))


class Conv1D(nn.Module):
    """GPT-2's linear, its weight transposed."""

    def __init__(self, outputs: int, inputs: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(inputs, outputs)), nn.Parameter(torch.empty(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return y.view(*x.shape[:-1], self.weight.shape[1])


def written_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class GptLayer(nn.Module):
    def __init__(self, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.rate = heads, dropout
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.c_attn, self.attn_proj = Conv1D(3 * hidden, hidden), Conv1D(hidden, hidden)
        self.c_fc, self.c_proj = Conv1D(4 * hidden, hidden), Conv1D(hidden, 4 * hidden)
        self.attn_dropout, self.mlp_dropout = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        batch, seq, hidden = x.shape
        q, k, v = (
            part.view(batch, seq, self.heads, -1).transpose(1, 2) for part in self.c_attn(self.ln_1(x)).split(hidden, 2)
        )
        y = fn.scaled_dot_product_attention(q, k, v, dropout_p=self.rate, is_causal=True)
        x = x + self.attn_dropout(self.attn_proj(y.transpose(1, 2).reshape(batch, seq, hidden)))
        return x + self.mlp_dropout(self.c_proj(written_gelu(self.c_fc(self.ln_2(x)))))


class Gpt2(nn.Module):
    """GPT-2: learned positions, one product for q, k and v, a shared word embedding, shifted labels."""

    def __init__(
        self, layers: int = 12, hidden: int = 768, heads: int = 12, vocab: int = 50257, positions: int = 1024,
        dropout: float = 0.1,
    ) -> None:  # fmt: skip
        super().__init__()
        self.wte, self.wpe, self.drop = (
            nn.Embedding(vocab, hidden),
            nn.Embedding(positions, hidden),
            nn.Dropout(dropout),
        )
        self.h = nn.ModuleList(GptLayer(hidden, heads, dropout) for _ in range(layers))
        self.ln_f, self.lm_head = nn.LayerNorm(hidden), nn.Linear(hidden, vocab, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, ids: Tensor, labels: Tensor) -> Tensor:
        x = self.drop(self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device)[None]))
        for layer in self.h:
            x = layer(x)
        logits = self.lm_head(self.ln_f(x))
        return fn.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


class BertLayer(nn.Module):
    def __init__(self, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))
        self.dense, self.norm1, self.norm2 = nn.Linear(hidden, hidden), nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.intermediate, self.output = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.drop_probs, self.drop1, self.drop2 = (nn.Dropout(dropout) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        batch, seq, hidden = x.shape
        width = hidden // self.heads
        q, k, v = (f(x).view(batch, seq, self.heads, width).transpose(1, 2) for f in (self.query, self.key, self.value))
        probs = self.drop_probs(torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(width), dim=-1))
        y = (probs @ v).permute(0, 2, 1, 3).contiguous().view(batch, seq, hidden)
        x = self.norm1(self.drop1(self.dense(y)) + x)
        return self.norm2(self.drop2(self.output(fn.gelu(self.intermediate(x)))) + x)


class Bert(nn.Module):
    """BERT with its masked-LM head over all tokens; attention written out."""

    def __init__(
        self, layers: int = 12, hidden: int = 768, heads: int = 12, vocab: int = 30522, positions: int = 512,
        dropout: float = 0.1,
    ) -> None:  # fmt: skip
        super().__init__()
        self.word, self.position, self.types = (nn.Embedding(n, hidden) for n in (vocab, positions, 2))
        self.norm, self.drop = nn.LayerNorm(hidden), nn.Dropout(dropout)
        self.layer = nn.ModuleList(BertLayer(hidden, heads, dropout) for _ in range(layers))
        self.transform, self.transform_norm = nn.Linear(hidden, hidden), nn.LayerNorm(hidden)
        self.decoder = nn.Linear(hidden, vocab)
        self.decoder.weight = self.word.weight

    def forward(self, ids: Tensor, types: Tensor, labels: Tensor) -> Tensor:
        x = self.word(ids) + self.types(types) + self.position(torch.arange(ids.shape[1], device=ids.device))
        x = self.drop(self.norm(x))
        for layer in self.layer:
            x = layer(x)
        logits = self.decoder(self.transform_norm(fn.gelu(self.transform(x))))
        return fn.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))


class VitLayer(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.fc1, self.fc2 = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        batch, seq, hidden = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(batch, seq, 3, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        x = x + self.proj(fn.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, seq, hidden))
        return x + self.fc2(fn.gelu(self.fc1(self.norm2(x))))


class Vit(nn.Module):
    """ViT as timm writes it: returns logits."""

    def __init__(
        self,
        layers: int = 12,
        hidden: int = 768,
        heads: int = 12,
        image: int = 224,
        patch: int = 16,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        tokens = (image // patch) ** 2 + 1
        self.proj = nn.Conv2d(3, hidden, patch, patch)
        self.cls_token, self.pos_embed = (
            nn.Parameter(torch.zeros(1, 1, hidden)),
            nn.Parameter(torch.zeros(1, tokens, hidden)),
        )
        self.blocks = nn.ModuleList(VitLayer(hidden, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, classes)

    def forward(self, image: Tensor) -> Tensor:
        x = self.proj(image).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), 1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class Bottleneck(nn.Module):
    def __init__(self, channels: int, width: int, stride: int, *, shortcut: bool) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        conv = nn.Conv2d(channels, 4 * width, 1, stride, bias=False)
        self.downsample = nn.Sequential(conv, nn.BatchNorm2d(4 * width)) if shortcut else None

    def forward(self, x: Tensor) -> Tensor:
        same = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(x)))))
        x += same
        return self.relu(x)


class Resnet(nn.Module):
    """ResNet-50 as torchvision writes it."""

    def __init__(self, classes: int = 1000, units: tuple[int, ...] = (3, 4, 6, 3), width: int = 64) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        channels = width
        for stage, number in enumerate(units):
            inner = width * 2**stage
            stack = []
            for unit in range(number):
                stack.append(Bottleneck(channels, inner, 2 if stage and not unit else 1, shortcut=not unit))
                channels = 4 * inner
            setattr(self, f"layer{stage + 1}", nn.Sequential(*stack))
        self.num_stages = len(units)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(channels, classes)

    def forward(self, image: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(image))))
        for stage in range(self.num_stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(torch.flatten(self.avgpool(x), 1))


class MixerLayer(nn.Module):
    def __init__(self, tokens: int, hidden: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.token1, self.token2 = nn.Linear(tokens, 2 * tokens), nn.Linear(2 * tokens, tokens)
        self.fc1, self.fc2 = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.token2(fn.gelu(self.token1(self.norm1(x).transpose(1, 2)))).transpose(1, 2)
        return x + self.fc2(fn.gelu(self.fc1(self.norm2(x))))


class Mixer(nn.Module):
    """An MLP-Mixer."""

    def __init__(
        self, layers: int = 4, hidden: int = 512, patch: int = 16, image: int = 224, classes: int = 1000
    ) -> None:
        super().__init__()
        tokens = (image // patch) ** 2
        self.stem = nn.Conv2d(3, hidden, patch, patch)
        self.blocks = nn.Sequential(*[MixerLayer(tokens, hidden) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, classes)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.stem(image).flatten(2).transpose(1, 2))).mean(1))


class OneKeyHead(nn.Module):
    """Attention with norms of heads and one key-value head, its layers called by the module above them."""

    def __init__(self, layers: int = 2, hidden: int = 512, heads: int = 8, vocab: int = 1000) -> None:
        super().__init__()
        self.heads, width = heads, hidden // heads
        self.embed, self.out = nn.Embedding(vocab, hidden), nn.Linear(hidden, vocab, bias=False)
        self.layers = nn.ModuleList(
            nn.ModuleDict({
                "norm": nn.RMSNorm(hidden, EPSILON),
                "q_norm": nn.RMSNorm(width, EPSILON), "k_norm": nn.RMSNorm(width, EPSILON),
                "q": nn.Linear(hidden, hidden, bias=False), "k": nn.Linear(hidden, width, bias=False),
                "v": nn.Linear(hidden, width, bias=False), "o": nn.Linear(hidden, hidden, bias=False),
            }) for _ in range(layers)
        )  # fmt: skip

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        batch, seq, _ = x.shape
        for m in self.layers:
            y = m["norm"](x)
            q = m["q_norm"](m["q"](y).view(batch, seq, self.heads, -1)).transpose(1, 2)
            k = m["k_norm"](m["k"](y).view(batch, seq, 1, -1)).transpose(1, 2)
            v = m["v"](y).view(batch, seq, 1, -1).transpose(1, 2)
            y = fn.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = x + m["o"](y.transpose(1, 2).flatten(2))
        return self.out(x)


class TwoTowers(nn.Module):
    """A recommender with several inputs and a loss of its own."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(1000, width), nn.Embedding(5000, width)
        self.user, self.item = (
            nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)) for _ in range(2)
        )

    def forward(self, history: Tensor, item: Tensor, label: Tensor) -> Tensor:
        user, thing = self.user(self.users(history).mean(1)), self.item(self.items(item))
        return fn.binary_cross_entropy_with_logits((user * thing).sum(-1), label)


class EncoderDecoder(nn.Module):
    """nn.Transformer: packed projections, cross attention, two sequences."""

    def __init__(self, hidden: int = 256, vocab: int = 1000) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(vocab, hidden), nn.Linear(hidden, vocab)
        self.core = nn.Transformer(hidden, 4, 2, 2, 2 * hidden, dropout=0.1, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.out(self.core(self.embed(source), self.embed(target)))


class Recurrent(nn.Module):
    """Ops that Proteus knows by their cost alone."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.embed, self.conv = nn.Embedding(100, width), nn.Conv1d(width, width, 3, padding=1)
        self.gru, self.out = nn.GRU(width, width, batch_first=True), nn.Linear(width, 100)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.gru(self.conv(self.embed(ids).transpose(1, 2)).transpose(1, 2))[0])


class UNet(nn.Module):
    """Long skips, group norms, transposed convolutions."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.down1, self.down2, self.middle = (
            self.unit(3, width),
            self.unit(width, 2 * width),
            self.unit(2 * width, 4 * width),
        )
        self.rise2, self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), self.unit(4 * width, 2 * width)
        self.rise1, self.up1 = nn.ConvTranspose2d(2 * width, width, 2, 2), self.unit(2 * width, width)
        self.out = nn.Conv2d(width, 5, 1)

    @staticmethod
    def unit(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.SiLU())

    def forward(self, image: Tensor) -> Tensor:
        one = self.down1(image)
        two = self.down2(fn.max_pool2d(one, 2))
        x = self.up2(torch.cat([self.rise2(self.middle(fn.max_pool2d(two, 2))), two], 1))
        return self.out(self.up1(torch.cat([self.rise1(x), one], 1)))


class DenseExperts(nn.Module):
    """Every token through every expert, weighted: grouped products by einsum."""

    def __init__(self, hidden: int = 64, experts: int = 4, ffn: int = 128) -> None:
        super().__init__()
        self.router = nn.Linear(hidden, experts, bias=False)
        self.w1 = nn.Parameter(torch.zeros(experts, hidden, ffn))
        self.w2 = nn.Parameter(torch.zeros(experts, ffn, hidden))

    def forward(self, x: Tensor) -> Tensor:
        gates = self.router(x).softmax(-1)
        y = fn.gelu(torch.einsum("bsh,ehf->bsef", x, self.w1))
        return (torch.einsum("bsef,efh->bseh", y, self.w2) * gates[..., None]).sum(2)


class RoutedExperts(nn.Module):
    """Experts that are run where the data says so."""

    def __init__(self, hidden: int = 64) -> None:
        super().__init__()
        self.router, self.experts = nn.Linear(hidden, 2), nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        chosen, out = self.router(x).argmax(-1), torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            if (chosen == number).any():
                out[chosen == number] = expert(x[chosen == number])
        return out
