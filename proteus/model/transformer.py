"""Every transformer of the zoo, from one :class:`~proteus.model.spec.TransformerSpec`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from proteus.model.attention import add_attention
from proteus.model.builder import BlockBuilder
from proteus.model.graph import Block, Model, OpKind
from proteus.model.heads import HEADS
from proteus.model.layer import add_branch_end, add_dropout, add_mlp, add_norm, add_sum
from proteus.model.moe import add_experts
from proteus.model.patches import patch_embedding
from proteus.model.spec import TransformerSpec

_TOKENS = "batch seq hidden"


def transformer(spec: TransformerSpec) -> Model:
    """The model graph of `spec`.

    Examples
    --------
    >>> spec = TransformerSpec(name="small", layers=2, hidden=64, heads=4, ffn=256, vocab=100, seq=32)
    >>> transformer(spec)
    Model(small: 144.2 k parameters; embedding → layers×2 → head)
    """
    embedding = token_embedding(spec) if spec.patches is None else patch_embedding(spec, spec.patches)
    dense = spec.layers if spec.experts is None else min(spec.experts.dense_layers, spec.layers)
    layers = []
    if dense:
        layers.append(layer(spec, "layers" if spec.experts is None else "dense_layers", dense, sparse=False))
    if spec.layers > dense:
        layers.append(layer(spec, "layers", spec.layers - dense, sparse=True))
    blocks = (embedding, *layers, HEADS[spec.head](spec))
    facts = spec.facts() | {"active_params": active_params(spec, blocks)}
    model = Model(name=spec.name, blocks=blocks, seq=spec.seq, facts=facts)
    model.validate()
    return model


def active_params(spec: TransformerSpec, blocks: Sequence[Block]) -> int:
    """Parameters that one token meets: of the experts, only those it is sent to."""
    total = sum(block.num_params() * block.count for block in blocks)
    if spec.experts is None:
        return total
    asleep = 0
    for block in blocks:
        experts = [p.name for p in block.parameters() if {"experts", "expert_ffn"} <= set(p.dims)]
        routed = sum(math.prod(block.shape(name)) for name in experts)
        asleep += block.count * routed * (spec.experts.num - spec.experts.topk) // spec.experts.num
    return total - asleep


def token_embedding(spec: TransformerSpec) -> Block:
    """Words, and positions and token types where there are any."""
    sizes = spec.dims() | {"vocab": spec.vocab, "positions": spec.positions or 0, "types": spec.token_types}
    b = BlockBuilder("embedding", {dim: size for dim, size in sizes.items() if size}, indexed=False)
    tokens = b.data("tokens", "batch seq", dtype="int64")
    # a cut vocabulary looks up the ids it holds and yields zeros for the others: partial sums
    weight = b.parameter("word.weight", "vocab hidden")
    x = b.op("word", OpKind.EMBEDDING, f"{_TOKENS} | vocab", [tokens, weight], _TOKENS, saves=[tokens])
    if spec.positions is not None:
        table = b.parameter("position.weight", "positions hidden")
        x = b.op("position", OpKind.POSITION, f"{_TOKENS} | | positions", [x, table], _TOKENS)
    if spec.token_types:
        types = b.data("token_types", "batch seq", dtype="int64")
        table = b.parameter("token_type.weight", "types hidden")
        typed = b.op("token_type", OpKind.EMBEDDING, f"{_TOKENS} | types", [types, table], _TOKENS, saves=[types])
        x = add_sum(b, "sum", [x, typed])
    if spec.embedding_norm:
        x = add_norm(b, "norm", x, spec)
    if spec.dropout:
        x = add_dropout(b, "dropout", x, spec.dropout)
    return b.build([x])


def layer(spec: TransformerSpec, name: str, count: int, *, sparse: bool) -> Block:
    """`count` equal layers, dense or with experts."""
    experts = spec.experts if sparse else None
    sizes = spec.dims()
    if experts is not None:
        sizes |= {"experts": experts.num, "expert_ffn": experts.ffn}
        sizes |= {"slot_rows": sizes["batch"], "slots": experts.slots(spec.seq)}
        sizes |= {"shared_ffn": experts.shared_ffn} if experts.shared_ffn else {}
    derived = {"slot_rows": ("batch",), "slots": ("seq",)} if experts is not None else {}
    b = BlockBuilder(name, sizes, count=count, derived=derived)
    x = b.take("x", _TOKENS)

    def mlp(normed: str) -> tuple[str, str | None]:
        return add_mlp(b, normed, spec) if experts is None else add_experts(b, normed, spec, experts)

    if spec.parallel_residual:
        normed = add_norm(b, "attention.norm", x, spec)
        attended, first_bias = add_branch_end(b, "attention", *add_attention(b, normed, spec), spec)
        normed = normed if spec.shared_norm else add_norm(b, "mlp.norm", x, spec)
        branch, bias = add_branch_end(b, "mlp", *mlp(normed), spec)
        return b.build([add_sum(b, "mlp.residual", [x, attended, branch], first_bias, bias)])

    normed = add_norm(b, "attention.norm", x, spec) if spec.norm_first else x
    branch, bias = add_branch_end(b, "attention", *add_attention(b, normed, spec), spec)
    x = add_sum(b, "attention.residual", [x, branch], bias)
    if not spec.norm_first:
        x = add_norm(b, "attention.norm", x, spec)
    normed = add_norm(b, "mlp.norm", x, spec) if spec.norm_first else x
    branch, bias = add_branch_end(b, "mlp", *mlp(normed), spec)
    x = add_sum(b, "mlp.residual", [x, branch], bias)
    return b.build([x if spec.norm_first else add_norm(b, "mlp.norm", x, spec)])
