"""Deep learning recommendation models: embedding bags, two MLPs, pairwise products.

Naumov et al. 2019 (arXiv 1906.00091): dense features pass the bottom MLP,
each sparse feature its embedding table; the dot products of all pairs of
these vectors, after the dense vector itself, feed the top MLP.
"""

from __future__ import annotations

from collections.abc import Sequence

from proteus.errors import ModelError
from proteus.model.builder import BlockBuilder
from proteus.model.graph import Block, Model, OpKind


def dlrm(
    name: str, *, tables: int, rows: int, embedding_dim: int, lookups: int, bottom: Sequence[int], top: Sequence[int]
) -> Model:
    """A DLRM whose tables are of equal size.

    Parameters
    ----------
    tables, rows
        Embedding tables and rows of each.
    lookups
        Rows summed per table and sample.
    bottom, top
        Widths of the MLPs; ``bottom[0]`` is the number of dense features and
        ``bottom[-1]`` must be `embedding_dim`; ``top`` starts after the
        interaction.
    """
    if bottom[-1] != embedding_dim:
        raise ModelError(
            f"{name}: the bottom MLP ends in {bottom[-1]}, but embedding_dim={embedding_dim}; make them equal"
        )
    sizes = {"tables": tables, "rows": rows, "embedding_dim": embedding_dim, "lookups": lookups}
    facts = {"family": "dlrm", "bottom": tuple(bottom), "top": tuple(top)} | sizes
    sizes["batch"] = 1
    model = Model(name=name, blocks=(_features(sizes, bottom), _top(sizes, top)), facts=facts)
    model.validate()
    return model


def _add_mlp(b: BlockBuilder, part: str, x: str, dim: str, widths: Sequence[int], last: str, end: str) -> str:
    """Linear layers with relu between; the last output dim is `last`, its function `end`."""
    for i, width in enumerate(widths):
        is_last = i == len(widths) - 1
        name, out = f"{part}.{i}", last if is_last else f"{part}.{i}.features"
        b.dims[out] = width
        dims = f"batch {out}"
        weight, bias = b.parameter(f"{name}.weight", f"{out} {dim}"), b.parameter(f"{name}.bias", out)
        x = b.op(name, OpKind.LINEAR, f"{dims} | {dim}", [x, weight], dims, saves=[x])
        name, function = f"{name}.activation", end if is_last else "relu"
        x = b.op(name, OpKind.ACTIVATION, dims, [x, bias], dims, saves=[f"{name}.out"], attrs={"function": function})
        dim = out
    return x


def _features(sizes: dict[str, int], bottom: Sequence[int]) -> Block:
    """Embedding bags and the bottom MLP; all tables are one weight, so that cutting `tables` places them."""
    b = BlockBuilder("features", sizes | {"dense": bottom[0]}, indexed=False)
    ids = b.data("ids", "batch tables lookups", dtype="int64")
    weight = b.parameter("embedding.weight", "tables rows embedding_dim")
    bags = b.op(
        "embedding",
        OpKind.EMBEDDING_BAG,
        "batch tables embedding_dim | rows | lookups",
        [ids, weight],
        "batch tables embedding_dim",
        saves=[ids],
        attrs={"pooling": sizes["lookups"]},
    )
    dense = _add_mlp(b, "bottom", b.data("features", "batch dense"), "dense", bottom[1:], "embedding_dim", "relu")
    return b.build([dense, bags])


def _top(sizes: dict[str, int], top: Sequence[int]) -> Block:
    vectors = sizes["tables"] + 1
    more = {"features": vectors, "interactions": sizes["embedding_dim"] + vectors * (vectors - 1) // 2}
    b = BlockBuilder("top", sizes | more, indexed=False)
    dense = b.take("dense", "batch embedding_dim")
    bags = b.take("bags", "batch tables embedding_dim")
    x = b.op(
        "interaction",
        OpKind.INTERACTION,
        "batch | | tables embedding_dim features interactions",
        [dense, bags],
        "batch interactions",
        saves=[dense, bags],
    )
    score = _add_mlp(b, "top", x, "interactions", top, "scores", "sigmoid")
    target = b.data("target", "batch scores")
    roles = "| batch scores"
    loss = b.op(
        "loss",
        OpKind.LOSS,
        roles,
        [score, target],
        "",
        saves=[score],
        dtype="fp32",
        tensor="loss",
        attrs={"function": "mse"},
    )
    return b.build([loss])
