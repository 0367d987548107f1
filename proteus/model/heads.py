"""What stands after the layers of a transformer: a projection and a loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from proteus.model.builder import BlockBuilder
from proteus.model.graph import Block, OpKind
from proteus.model.layer import add_norm
from proteus.model.loss import add_cross_entropy
from proteus.model.spec import TransformerSpec

_TOKENS = "batch seq hidden"
#: The GEMM that makes logits stays in 16 bits: Megatron-LM builds it of its own parallel layer and not of
#: Transformer Engine's, torchtitan's recipes leave ``output`` out of float8.
_EXACT = {"quantised": False}
#: full path of the word embedding, to which an output projection may be tied
WORDS = "embedding.word.weight"


def _builder(spec: TransformerSpec, **more: int) -> BlockBuilder:
    masked = {} if spec.predictions is None else {"masked": spec.predictions}
    return BlockBuilder("head", spec.dims() | {"vocab": spec.vocab} | masked | more, indexed=False)


def _add_logits(b: BlockBuilder, x: str, spec: TransformerSpec, *, bias: bool = False) -> str:
    operands = [x, b.parameter("head.weight", "vocab hidden", tied_to=WORDS if spec.tied else None)]
    if bias:
        operands.append(b.parameter("head.bias", "vocab"))
    reduction = "| | hidden" if bias else "| hidden"
    roles = f"batch seq vocab {reduction}"
    return b.op("head", OpKind.LINEAR, roles, operands, "batch seq vocab", saves=[x], attrs=_EXACT)


def lm_head(spec: TransformerSpec) -> Block:
    """Logits of every token and their cross entropy."""
    b = _builder(spec)
    x = b.take("x", _TOKENS)
    if spec.final_norm:
        x = add_norm(b, "final_norm", x, spec)
    return b.build([add_cross_entropy(b, _add_logits(b, x, spec))])


def _add_first_token(b: BlockBuilder, x: str) -> str:
    return b.op("first", OpKind.SELECT, "batch hidden | | seq", [x], "batch hidden", attrs={"dim": "seq", "index": 0})


def _add_pooler(b: BlockBuilder, x: str) -> str:
    """BERT's pooler: tanh of a square projection of the first token."""
    first = _add_first_token(b, x)
    # the output dim of a square weight needs a name of its own
    weight, bias = b.parameter("pooler.weight", "pooled hidden"), b.parameter("pooler.bias", "pooled")
    out = b.op("pooler", OpKind.LINEAR, "batch pooled | hidden", [first, weight], "batch pooled", saves=[first])
    name = "pooler.activation"
    dims = "batch pooled"
    return b.op(name, OpKind.ACTIVATION, dims, [out, bias], dims, saves=[f"{name}.out"], attrs={"function": "tanh"})


def pooler_head(spec: TransformerSpec) -> Block:
    """The encoder as it is fine-tuned: a mean loss on the pooled first token."""
    b = _builder(spec, pooled=spec.hidden)
    pooled = _add_pooler(b, b.take("x", _TOKENS))
    target = b.data("target", "batch pooled")
    loss = b.op(
        "loss",
        OpKind.LOSS,
        "| batch pooled",
        [pooled, target],
        "",
        saves=[pooled],
        dtype="fp32",
        tensor="loss",
        attrs={"function": "mse"},
    )
    return b.build([loss])


def _masked(spec: TransformerSpec) -> str:
    """Dims of the tokens that a masked-LM head predicts."""
    return "batch seq" if spec.predictions is None else "batch masked"


def _add_masked_lm(b: BlockBuilder, x: str, spec: TransformerSpec) -> str:
    """BERT's masked-LM head: the masked tokens, a square projection, gelu, norm, and the word embedding."""
    tokens = _masked(spec)
    if spec.predictions is not None:
        places = b.data("masked_positions", tokens, dtype="int64")
        dims = f"{tokens} hidden"
        # a cut sequence yields the tokens that it holds and zeros for the others: partial sums
        x = b.op("masked", OpKind.TAKE, f"{dims} | seq", [x, places], dims, saves=[places])
    weight, bias = b.parameter("transform.weight", "transformed hidden"), b.parameter("transform.bias", "transformed")
    dims = f"{tokens} transformed"
    out = b.op("transform", OpKind.LINEAR, f"{dims} | hidden", [x, weight], dims, saves=[x])
    out = b.op(
        "transform.activation", OpKind.ACTIVATION, dims, [out, bias], dims, saves=[out], attrs={"function": "gelu"}
    )
    out = add_norm(b, "transform.norm", out, spec, dims)
    operands = [out, b.parameter("head.weight", "vocab transformed", tied_to=WORDS), b.parameter("head.bias", "vocab")]
    roles = f"{tokens} vocab | | transformed"
    return b.op("head", OpKind.LINEAR, roles, operands, f"{tokens} vocab", saves=[out], attrs=_EXACT)


def mlm_head(spec: TransformerSpec) -> Block:
    """BERT's masked-LM head and its cross entropy."""
    b = _builder(spec, transformed=spec.hidden)
    logits = _add_masked_lm(b, b.take("x", _TOKENS), spec)
    return b.build([add_cross_entropy(b, logits, tokens=_masked(spec))])


def pretraining_head(spec: TransformerSpec) -> Block:
    """Masked LM plus next-sentence prediction; the loss is the sum of both."""
    b = _builder(spec, transformed=spec.hidden, pooled=spec.hidden, classes=2)
    x = b.take("x", _TOKENS)
    words = add_cross_entropy(b, _add_masked_lm(b, x, spec), tokens=_masked(spec), tensor="loss.words")
    pooled = _add_pooler(b, x)
    weight, bias = b.parameter("next.weight", "classes pooled"), b.parameter("next.bias", "classes")
    roles = "batch classes | | pooled"
    logits = b.op("next", OpKind.LINEAR, roles, [pooled, weight, bias], "batch classes", saves=[pooled])
    following = add_cross_entropy(
        b, logits, tokens="batch", classes="classes", part="next_loss", labels="next_labels", tensor="loss.next"
    )
    return b.build([b.op("loss.sum", OpKind.ADD, "", [words, following], "", dtype="fp32", tensor="loss")])


def classifier_head(spec: TransformerSpec) -> Block:
    """A vision transformer's: norm, class token, linear classifier."""
    b = _builder(spec)
    x = add_norm(b, "final_norm", b.take("x", _TOKENS), spec)
    first = _add_first_token(b, x)
    weight, bias = b.parameter("head.weight", "vocab hidden"), b.parameter("head.bias", "vocab")
    logits = b.op("head", OpKind.LINEAR, "batch vocab | | hidden", [first, weight, bias], "batch vocab", saves=[first])
    return b.build([add_cross_entropy(b, logits, tokens="batch")])


HEADS: Mapping[str, Callable[[TransformerSpec], Block]] = {
    "lm": lm_head,
    "pooler": pooler_head,
    "mlm": mlm_head,
    "pretraining": pretraining_head,
    "classifier": classifier_head,
}
