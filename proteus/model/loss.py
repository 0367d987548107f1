"""Cross entropy over a dim that may be cut, as three reductions and a mean.

``loss = mean(log(sum exp(logits - max)) + max - logits[label])``: every
reduction over the classes is an op of its own, so that a cut of the classes
costs three small all_reduces and never gathers the logits (Megatron-LM,
arXiv 1909.08053 section 3).
"""

from __future__ import annotations

from proteus.model.builder import BlockBuilder
from proteus.model.graph import OpKind


def add_cross_entropy(
    b: BlockBuilder,
    logits: str,
    *,
    tokens: str = "batch seq",
    classes: str = "vocab",
    part: str = "loss",
    labels: str = "labels",
    tensor: str = "loss",
) -> str:
    """Mean cross entropy of ``logits[tokens, classes]``; returns the scalar, named `tensor`."""
    labels = b.data(labels, tokens, dtype="int64")
    # the backward needs the softmax, kept in fp32 as Megatron-LM does
    softmax = b.saved(f"{part}.softmax", f"{tokens} {classes}", dtype="fp32")
    roles = f"{tokens} | {classes}"
    top = b.op(f"{part}.max", OpKind.MAX, roles, [logits], tokens, dtype="fp32")
    total = b.op(f"{part}.sum_exp", OpKind.SUM_EXP, roles, [logits, top], tokens, saves=[softmax], dtype="fp32")
    picked = b.op(f"{part}.pick", OpKind.PICK, roles, [logits, labels], tokens, saves=[labels], dtype="fp32")
    return b.op(
        f"{part}.cross_entropy",
        OpKind.CROSS_ENTROPY,
        f"| {tokens}",
        [top, total, picked],
        "",
        saves=[total],
        dtype="fp32",
        tensor=tensor,
    )
