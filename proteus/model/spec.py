"""The dims of a transformer, as one value; ``data/transformers.yaml`` holds the published ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from proteus.errors import ModelError, unknown

#: far above any model; what is larger is a slip or an attack, and its columns would fill the memory
MAX_LAYERS = 10_000
MAX_SIZE = 10**9

Head = Literal["lm", "pooler", "mlm", "pretraining", "classifier"]


#: whole numbers that may be zero; all others are at least 1
_MAY_BE_ZERO = ("token_types", "shared_ffn", "dense_layers")
#: shares of 1, which itself is excluded
_RATES = ("dropout", "attention_dropout")


@cache
def _kinds(of: type) -> Mapping[str, Any]:
    return get_type_hints(of)


def check_sizes(value: object, where: str) -> None:
    """Raise :class:`ModelError` where a field of a dataclass has not its type, or no model has such a size."""
    of: Any = type(value)
    for name, kind in _kinds(of).items():
        _check(getattr(value, name), name, kind, where)


def _check(value: Any, name: str, kind: Any, where: str) -> None:
    options = get_args(kind)
    if get_origin(kind) is Literal:
        if value not in options:
            raise ModelError(f"{where}: {unknown(name, str(value), options)}")
        return
    if NoneType in options:
        if value is None:
            return
        kind = next(option for option in options if option is not NoneType)
    shown = f"{where}: {name}={value!r}"
    if kind is int:
        minimum = 0 if name in _MAY_BE_ZERO else 1
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            raise ModelError(f"{shown}; it must be a whole number, at least {minimum}")
        largest = MAX_LAYERS if name in ("layers", "dense_layers") else MAX_SIZE
        if value > largest:
            raise ModelError(f"{shown}; it must be at most {largest}")
    elif kind is float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise ModelError(f"{shown}; it must be a number")
        if name in _RATES and not 0 <= value < 1:
            raise ModelError(f"{shown}; it must be from 0 to below 1")
        if name not in _RATES and not 0 < value <= MAX_SIZE:
            raise ModelError(f"{shown}; it must be above 0 and at most {MAX_SIZE}")
    elif not isinstance(value, kind):
        wanted = "true or false" if kind is bool else "a word" if kind is str else f"a value of {kind.__name__}"
        raise ModelError(f"{shown}; it must be {wanted}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434 section 2.1).

    `q_rank` None means that queries are not compressed (V2-Lite).
    """

    q_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    v_dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """The mixture of a sparse layer.

    `capacity_factor` is the number of slots over the balanced number;
    `dropless` gives every expert a slot for every token, empty where the
    router chose otherwise, so that no token is ever lost.
    """

    num: int
    topk: int
    ffn: int
    shared_ffn: int = 0
    router: Literal["softmax", "sigmoid"] = "softmax"
    normalize: bool = True
    score_bias: bool = False
    capacity_factor: float = 1.0
    dropless: bool = False
    dense_layers: int = 0

    def __post_init__(self) -> None:
        if self.dropless and self.capacity_factor != 1.0:
            raise ModelError(
                f"capacity_factor={self.capacity_factor} drops tokens and dropless=True drops none; give dropless=False"
            )

    def slots(self, tokens: int) -> int:
        """Slots of one expert for `tokens` tokens."""
        if self.dropless:
            return tokens
        return max(1, -(-int(tokens * self.topk * self.capacity_factor) // self.num))


@dataclass(frozen=True, slots=True, kw_only=True)
class Patches:
    """How a vision transformer cuts its image into tokens (plus a class token)."""

    image: int
    patch: int
    channels: int = 3

    @property
    def side(self) -> int:
        return self.image // self.patch


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerSpec:
    """Everything that distinguishes one transformer from another.

    Parameters
    ----------
    seq
        Tokens per sample.
    head_dim
        None means ``hidden / heads``.
    positions
        Rows of the learned position table; None where there is none.
    document
        Tokens of each document where several are packed into a sample and
        attention stays inside them; None is one document by sample.
    rope
        Whether attention rotates its queries and keys.
    norm_first
        Pre-norm (GPT) or post-norm (BERT).
    parallel_residual
        Attention and MLP both read the layer's input (GPT-NeoX, Falcon);
        with `shared_norm` through the same norm (Falcon-7B).
    head
        What stands after the layers: ``lm`` predicts every token; the BERT
        heads are ``pooler`` (the encoder as fine-tuned, a mean loss on its
        pooled output), ``mlm`` and ``pretraining`` (mlm plus next sentence);
        ``classifier`` reads the class token of a vision transformer.
    predictions
        Masked tokens of a sample that the BERT heads predict; None makes
        logits of every token, as Hugging Face and Megatron do.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int | None = None
    head_dim: int | None = None
    ffn: int
    vocab: int
    seq: int
    positions: int | None = None
    document: int | None = None
    rope: bool = False
    norm: Literal["layer_norm", "rms_norm"] = "rms_norm"
    norm_bias: bool = True
    norm_first: bool = True
    embedding_norm: bool = False
    final_norm: bool = True
    qk_norm: bool = False
    activation: Literal["gelu", "relu", "relu2", "silu", "swiglu", "geglu"] = "swiglu"
    qkv_bias: bool = False
    proj_bias: bool = False
    mlp_bias: bool = False
    tied: bool = False
    causal: bool = True
    dropout: float = 0.0
    attention_dropout: float = 0.0
    token_types: int = 0
    parallel_residual: bool = False
    shared_norm: bool = False
    head: Head = "lm"
    predictions: int | None = None
    latent: LatentAttention | None = None
    experts: Experts | None = None
    patches: Patches | None = None

    def __post_init__(self) -> None:
        check_sizes(self, self.name)
        for part in ("latent", "experts", "patches"):
            if getattr(self, part) is not None:
                check_sizes(getattr(self, part), f"{self.name}: {part}")
        if self.head_dim is None and self.hidden % self.heads:
            raise ModelError(
                f"{self.name}: hidden={self.hidden} is not a multiple of heads={self.heads}; give head_dim as well"
            )
        if self.heads % self.num_kv_heads:
            raise ModelError(f"{self.name}: heads={self.heads} is not a multiple of kv_heads={self.num_kv_heads}")
        if self.positions is not None and self.seq > self.positions:
            raise ModelError(
                f"{self.name}: seq={self.seq} is more than its {self.positions} learned positions; "
                f"choose seq at most {self.positions}"
            )
        if self.predictions is not None and self.predictions > self.seq:
            raise ModelError(
                f"{self.name}: predictions={self.predictions} of seq={self.seq} tokens; at most all of them"
            )
        if self.document is not None and self.latent is not None:
            raise ModelError(f"{self.name}: document={self.document} with latent attention; leave one of them out")
        if self.patches is not None and self.patches.side < 1:
            raise ModelError(f"{self.name}: patches of {self.patches.patch} px in an image of {self.patches.image} px")
        if self.experts is not None and self.experts.topk > self.experts.num:
            raise ModelError(f"{self.name}: topk={self.experts.topk} of {self.experts.num} experts")

    @property
    def num_kv_heads(self) -> int:
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def size_per_head(self) -> int:
        return self.hidden // self.heads if self.head_dim is None else self.head_dim

    @property
    def gated(self) -> bool:
        """Whether fc1 yields a gate and a value."""
        return self.activation in ("swiglu", "geglu")

    def dims(self) -> dict[str, int]:
        """Sizes of the dims that a layer uses, for one sample."""
        sizes = {
            "batch": 1,
            "seq": self.seq,
            "kv_seq": self.seq,
            "hidden": self.hidden,
            "kv_heads": self.num_kv_heads,
            "q_per_kv": self.heads // self.num_kv_heads,
            "two": 2,
            "head_dim": self.size_per_head,
            "ffn": self.ffn,
        }
        if self.latent is not None:
            latent = self.latent
            sizes |= {"nope_dim": latent.nope_dim, "rope_dim": latent.rope_dim, "v_dim": latent.v_dim}
            sizes |= {"kv_rank": latent.kv_rank, "q_rank": latent.q_rank or self.hidden}
        return sizes

    def facts(self) -> dict[str, Any]:
        """What a table or a message may want to say of the model."""
        facts: dict[str, Any] = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in ("latent", "experts", "patches", "name")
        }
        facts |= {"kv_heads": self.num_kv_heads, "head_dim": self.size_per_head, "family": "transformer"}
        if self.experts is not None:
            facts |= {"experts": self.experts.num, "topk": self.experts.topk, "expert_ffn": self.experts.ffn}
            facts |= {"shared_ffn": self.experts.shared_ffn, "dense_layers": self.experts.dense_layers}
        return facts
