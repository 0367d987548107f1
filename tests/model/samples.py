"""Small transformers of every kind, drawn by Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from proteus.model.spec import Experts, LatentAttention, TransformerSpec

_POWERS = st.sampled_from([1, 2, 4, 8])


@st.composite
def latents(draw: st.DrawFn) -> LatentAttention:
    ranks = st.integers(1, 8)
    return LatentAttention(
        q_rank=draw(st.none() | ranks),
        kv_rank=draw(ranks),
        nope_dim=draw(ranks),
        rope_dim=draw(ranks),
        v_dim=draw(ranks),
    )


@st.composite
def mixtures(draw: st.DrawFn, layers: int) -> Experts:
    num, dropless = draw(st.integers(1, 8)), draw(st.booleans())
    return Experts(
        num=num,
        topk=draw(st.integers(1, num)),
        ffn=draw(st.integers(1, 9)),
        shared_ffn=draw(st.integers(0, 9)),
        score_bias=draw(st.booleans()),
        capacity_factor=1.0 if dropless else draw(st.sampled_from([1.0, 1.25, 2.0])),
        dropless=dropless,
        dense_layers=draw(st.integers(0, layers)),
    )


@st.composite
def specs(draw: st.DrawFn) -> TransformerSpec:
    kv_heads, per_kv, layers = draw(_POWERS), draw(_POWERS), draw(st.integers(1, 5))
    seq = draw(st.integers(1, 12))
    flag = st.booleans()
    return TransformerSpec(
        name="drawn",
        layers=layers,
        hidden=8 * kv_heads * per_kv,
        heads=kv_heads * per_kv,
        kv_heads=kv_heads,
        head_dim=draw(st.none() | st.integers(1, 9)),
        ffn=draw(st.integers(1, 40)),
        vocab=draw(st.integers(1, 50)),
        seq=seq,
        positions=draw(st.none() | st.integers(seq, 20)),
        rope=draw(flag),
        norm=draw(st.sampled_from(["layer_norm", "rms_norm"])),
        norm_bias=draw(flag),
        norm_first=draw(flag),
        embedding_norm=draw(flag),
        final_norm=draw(flag),
        qk_norm=draw(flag),
        activation=draw(st.sampled_from(["gelu", "swiglu", "geglu", "relu2"])),
        qkv_bias=draw(flag),
        proj_bias=draw(flag),
        mlp_bias=draw(flag),
        tied=draw(flag),
        causal=draw(flag),
        dropout=draw(st.sampled_from([0.0, 0.1])),
        attention_dropout=draw(st.sampled_from([0.0, 0.1])),
        token_types=draw(st.integers(0, 3)),
        parallel_residual=draw(flag),
        shared_norm=draw(flag),
        head=draw(st.sampled_from(["lm", "pooler", "mlm", "pretraining"])),
        latent=draw(st.none() | latents()),
        experts=draw(st.none() | mixtures(layers)),
    )
