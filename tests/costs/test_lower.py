"""From ops to kernels: shapes by hand on a small block, and totals on whole models."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from proteus import frameworks
from proteus.costs import precision
from proteus.costs.lower import COLUMN_COST, works
from proteus.costs.ops import OpCosts
from proteus.costs.work import Access, Family, Phase, Work
from proteus.errors import ModelError
from proteus.frameworks import Framework
from proteus.hardware import gpus
from proteus.model import zoo
from proteus.model.builder import BlockBuilder
from proteus.model.graph import Op, OpKind

MEGATRON, EAGER = frameworks.load("megatron"), frameworks.load("ddp")
BF16 = precision.kept_by(MEGATRON, "bf16")


def linear() -> Op:
    b = BlockBuilder("mlp", {"batch": 1, "seq": 8, "hidden": 16, "ffn": 64}, indexed=False)
    x, w = b.take("x", "batch seq hidden"), b.parameter("fc1.weight", "ffn hidden")
    y = b.op("fc1", OpKind.LINEAR, "batch seq ffn | hidden", [x, w], "batch seq ffn", saves=[x])
    return b.build([y]).ops[0]


def at(op: Op, **sizes: int) -> dict[str, int]:
    return op.sizes() | sizes


def gemms(op: Op, phase: Phase, sizes: dict[str, int]) -> list[Work]:
    return [w for w in works(op, sizes, phase, BF16, MEGATRON) if w.family is Family.GEMM]


def test_linear_permutes_rows_columns_and_depth() -> None:
    op = linear()
    sizes = at(op, batch=4)
    assert gemms(op, Phase.FORWARD, sizes)[0].shape == (1, 32, 64, 16)
    assert gemms(op, Phase.INPUT_GRAD, sizes)[0].shape == (1, 32, 16, 64)
    assert gemms(op, Phase.WEIGHT_GRAD, sizes)[0].shape == (1, 64, 16, 32)


def test_fp32_gradient_is_read_and_written() -> None:
    op = linear()
    work = gemms(op, Phase.WEIGHT_GRAD, at(op, batch=4))[0]
    assert work.bytes == 2 * (64 * 32 + 16 * 32) + 8 * 64 * 16


def test_unfused_accumulation_is_a_pass_of_its_own() -> None:
    op = linear()
    lowered = works(op, at(op), Phase.WEIGHT_GRAD, precision.kept_by(EAGER, "bf16"), EAGER)
    assert [w.family for w in lowered] == [Family.GEMM, Family.MEMORY]


def test_missing_size_names_the_dim() -> None:
    with pytest.raises(ModelError, match="fc1: dim 'ffn' has no local size"):
        works(linear(), {"batch": 1, "seq": 8, "hidden": 16}, Phase.FORWARD, BF16, MEGATRON)


@pytest.mark.parametrize("name", ["llama2-7b", "gpt2", "resnet50", "dlrm", "tiny-moe"])
def test_forward_flop_is_the_models(name: str) -> None:
    """Products of the kernels add up to the op's own count; causal attention counts its triangle."""
    model = zoo.load(name)
    for block in model.blocks:
        for op in block.ops:
            done = sum(w.flop for w in works(op, op.sizes(), Phase.FORWARD, BF16, MEGATRON))
            wanted = op.flop()
            if op.kind is OpKind.ATTENTION and op.attrs.get("causal"):
                assert done / wanted == pytest.approx((model.seq + 1) / (2 * model.seq))
            else:
                assert done == pytest.approx(wanted)


@pytest.mark.parametrize("name", ["llama2-7b", "resnet50"])
def test_backward_products_are_twice_the_forward(name: str) -> None:
    for block in zoo.load(name).blocks:
        for op in block.ops:
            if op.kind not in (OpKind.LINEAR, OpKind.CONV2D):
                continue
            flop = {p: sum(w.flop for w in works(op, op.sizes(), p, BF16, MEGATRON)) for p in Phase}
            assert flop[Phase.INPUT_GRAD] == flop[Phase.WEIGHT_GRAD] == pytest.approx(flop[Phase.FORWARD])


def attention() -> Op:
    ops = [op for b in zoo.load("llama2-7b").blocks for op in b.ops if op.kind is OpKind.ATTENTION]
    return ops[0]


def plain_attention() -> Op:
    """BERT's, without its dropout: no mask, no rotary embedding."""
    ops = [op for b in zoo.load("bert-large").blocks for op in b.ops if op.kind is OpKind.ATTENTION]
    return replace(ops[0], attrs={**ops[0].attrs, "dropout": 0.0})


def test_fused_attention_is_one_kernel_with_heads() -> None:
    work = works(attention(), at(attention(), batch=2), Phase.FORWARD, BF16, MEGATRON)[-1]
    assert work.family is Family.ATTENTION
    assert work.shape == (2, 32, 32, 4096, 4096, 128, 128, 1, 0)
    assert work.variant == "flash2"


@pytest.mark.parametrize("phase", [Phase.FORWARD, Phase.INPUT_GRAD])
def test_a_rank_of_a_cut_sequence_has_its_share_of_the_triangle(phase: Phase) -> None:
    def times(seq: int) -> tuple[float, float]:
        lowered = [
            w for w in works(attention(), at(attention(), seq=seq, kv_seq=32768), phase, BF16, MEGATRON) if w.flop
        ]
        costs = OpCosts(gpus.load("a100-80gb"))
        return sum(w.flop for w in lowered), sum(costs.time(w).time_s for w in lowered)

    (flop, time_s), (whole_flop, whole_s) = times(8192), times(32768)
    assert flop == pytest.approx(whole_flop / 4, rel=0.01)
    assert time_s == pytest.approx(whole_s / 4, rel=0.15)


def test_attention_within_documents_is_that_of_more_and_shorter_samples() -> None:
    def work(**changes: int) -> Work:
        model = zoo.load("llama3-8b", **changes)
        op = next(op for op in model.blocks[1].ops if op.kind is OpKind.ATTENTION)
        lowered = works(op, op.sizes() | {"batch": 8192 // changes["seq"]}, Phase.FORWARD, BF16, MEGATRON)
        return next(work for work in lowered if work.family is Family.ATTENTION)

    packed, apart = work(seq=8192, document=256), work(seq=256)
    assert (packed.flop, packed.shape) == (apart.flop, apart.shape)


def test_biases_of_experts_are_added_by_operators() -> None:
    op = next(op for op in zoo.load("tiny-moe", mlp_bias=True).blocks[1].ops if op.name == "mlp.experts.bias")
    elements = math.prod(op.sizes()[dim] for dim in op.outputs[0].dims)
    forward, backward = (works(op, op.sizes(), phase, BF16, MEGATRON) for phase in (Phase.FORWARD, Phase.INPUT_GRAD))
    assert (forward[0].bytes, backward[0].bytes) == (28.0 * elements, 40.0 * elements)


def test_unfused_attention_moves_the_scores() -> None:
    old = frameworks.load("megatron-lm@2")
    lowered = works(attention(), at(attention()), Phase.FORWARD, BF16, old)
    assert [w.family for w in lowered if w.family is Family.GEMM] == [Family.GEMM] * 2
    scores = 32 * 4096 * 4096
    softmax = [w.bytes for w in lowered if w.family is Family.MEMORY and w.variant == Access.SOFTMAX]
    assert softmax == [4 * scores]  # read and written


@pytest.mark.parametrize(("dim", "dtype"), [(144, "bf16"), (108, "fp32"), (150, "fp32")])
def test_tensor_cores_read_rows_of_16_bytes(dim: int, dtype: str) -> None:
    op = plain_attention()
    sizes = at(op, kv_heads=16, head_dim=dim)
    for phase, products in ((Phase.FORWARD, 2), (Phase.INPUT_GRAD, 4)):
        lowered = [
            w for w in works(op, sizes, phase, BF16, frameworks.load("megatron-lm@2")) if w.family is Family.GEMM
        ]
        assert [w.dtype for w in lowered] == [dtype] * products
        assert all(w.dtype == "bf16" or w.bytes < 4 * w.flop / dim for w in lowered)  # operands stay narrow
    assert [w.dtype for w in works(op, sizes, Phase.FORWARD, BF16, MEGATRON)][-1] == "bf16"  # flash attention pads


def test_products_of_misaligned_heads_take_as_long_as_measured() -> None:
    """64 heads of 108 on an A100: eight products of a layer are 40 ms longer than those of heads of 96 to 144.

    BigScience's log (bigscience, tr11-176B-ml/chronicles-prequel.md, "NHEADs comparison" and "Another round"): steps of
    162.7 and 147.4 s for 124.8 and 107.1 s, 13 and 7 layers by stage, 69 and 139 slots of a pipeline.
    """
    op, costs = plain_attention(), OpCosts(gpus.load("a100-80gb"))

    def products_s(dim: int) -> float:
        sizes = at(op, batch=1, seq=2048, kv_seq=2048, kv_heads=64, head_dim=dim)
        phases = (Phase.FORWARD, Phase.FORWARD, Phase.INPUT_GRAD)  # full recomputation
        kernels = [w for phase in phases for w in works(op, sizes, phase, BF16, frameworks.load("megatron-lm@2"))]
        return sum(costs.time(w).time_s for w in kernels if w.family is Family.GEMM)

    assert products_s(108) - products_s(112) == pytest.approx(40e-3, rel=0.2)


def test_unfused_attention_turns_heads_and_tokens_around() -> None:
    """q, k, v and the result read and written, 16 elements by token and head dimension; and scale, mask, softmax."""
    op, old = plain_attention(), frameworks.load("apex-bert")
    scores, one = 16 * 512 * 512, 16 * 512 * 64
    # a mask has no gradient; the gradients of three products are summed by two kernels of three operands
    for phase, by_score, summed in ((Phase.FORWARD, 2 + 2 + 2, 0), (Phase.INPUT_GRAD, 2 + 3, 2 * 3)):
        lowered = works(op, at(op), phase, BF16, old)
        moved = sum(w.bytes for w in lowered if w.family is Family.MEMORY)
        assert moved == 2 * (by_score * scores + (4 * 2 + summed) * one)


@pytest.mark.parametrize(
    ("dim", "seq", "measured"), [(64, 2048, 43), (64, 4096, 45), (64, 8192, 46), (128, 2048, 76), (128, 4096, 79)]
)
def test_standard_attention_takes_as_long_as_measured(dim: int, seq: int, measured: int) -> None:
    """PyTorch's on A100, forward and backward, no mask: bars of FlashAttention-2's figure [TFLOP/s]."""
    op = plain_attention()
    sizes = at(op, batch=16384 // seq, seq=seq, kv_seq=seq, kv_heads=2048 // dim, head_dim=dim)
    costs, old = OpCosts(gpus.load("a100-80gb")), frameworks.load("megatron-lm@2")
    kernels = [w for phase in (Phase.FORWARD, Phase.INPUT_GRAD) for w in works(op, sizes, phase, BF16, old)]
    took_s = sum(costs.time(work).time_s for work in kernels)
    assert took_s == pytest.approx(14 * 16384 * seq * 2048 / (measured * 1e12), rel=0.04)


def test_a_sum_after_a_batch_norm_is_one_operand_more_of_its_kernel() -> None:
    ops = {
        op.kind: op for b in zoo.load("resnet50").blocks for op in b.ops if op.kind in (OpKind.ADD, OpKind.ACTIVATION)
    }
    add, fused = ops[OpKind.ADD], frameworks.load("mxnet")
    image = math.prod(add.sizes()[dim] for dim in add.outputs[0].dims)
    for phase, apart in ((Phase.FORWARD, 3), (Phase.INPUT_GRAD, 0)):
        for frame, passes in ((EAGER, apart), (fused, 1)):
            assert sum(w.bytes for w in works(add, add.sizes(), phase, BF16, frame)) == 2 * passes * image
    relu = ops[OpKind.ACTIVATION]
    assert works(relu, relu.sizes(), Phase.FORWARD, BF16, fused) == ()


def test_metrics_compute_the_loss_again() -> None:
    """A cast to fp32 and a log-softmax each: 14 bytes by logit, forward only."""
    (op, *_) = (op for block in zoo.load("gpt2").blocks for op in block.ops if op.kind is OpKind.SUM_EXP)
    logits = math.prod(op.sizes()[dim] for dim in op.inputs[0].dims)
    for phase, more in ((Phase.FORWARD, 28.0 * logits), (Phase.INPUT_GRAD, 0.0)):
        plain, watched = (
            sum(w.bytes for w in works(op, op.sizes(), phase, BF16, EAGER.but(loss_metrics=number)))
            for number in (0, 2)
        )
        assert watched - plain == more


def test_a_softmax_of_an_fp32_copy_moves_28_bytes_per_score() -> None:
    """Cast 2 -> 4, mask 4 -> 4, softmax 4 -> 4, cast 4 -> 2; backward the softmax reads one operand more."""
    slow, op = MEGATRON.but(attention="unfused_fp32"), plain_attention()
    scores = 16 * 512 * 512
    for phase, each in ((Phase.FORWARD, 28), (Phase.INPUT_GRAD, 32)):
        lowered = works(op, at(op), phase, BF16, slow)
        moved = sum(w.bytes for w in lowered if w.family is Family.MEMORY)
        assert moved == each * scores


def test_attention_has_no_weight_gradient() -> None:
    assert works(attention(), at(attention()), Phase.WEIGHT_GRAD, BF16, MEGATRON) == ()


def test_a_norm_in_operators_takes_as_long_as_measured() -> None:
    """Hugging Face's RMSNorm, 2048 rows of 32768 in bf16 (linkedin/Liger-Kernel benchmark/rms_norm_speed) [ms]."""
    b = BlockBuilder("norm", {"batch": 1, "seq": 2048, "hidden": 32768}, indexed=False)
    x, w = b.take("x", "batch seq hidden"), b.parameter("norm.weight", "hidden")
    op = b.build([b.op("norm", OpKind.RMS_NORM, "batch seq hidden", [x, w], "batch seq hidden", saves=[x])]).ops[0]
    chain = EAGER.but(norm="chain")
    fp32_weight = {Phase.FORWARD: 38 / 36, Phase.INPUT_GRAD: 104 / 86}  # bytes of what was measured over those of bf16
    for gpu, measured in (("a100-80gb", (1.9, 5.1)), ("h100-sxm", (4.26,))):
        costs = OpCosts(gpus.load(gpu))
        found = [
            sum(costs.time(work).time_s for work in works(op, op.sizes(), phase, BF16, chain)) * factor * 1e3
            for phase, factor in fp32_weight.items()
        ]
        assert (found if len(measured) == 2 else [sum(found)]) == pytest.approx(list(measured), rel=0.05)


def test_compiled_norm_saves_a_read() -> None:
    op = next(op for b in zoo.load("llama2-7b").blocks for op in b.ops if op.kind is OpKind.RMS_NORM)
    compiled = frameworks.load("ddp, compile=true")
    one = sum(w.bytes for w in works(op, op.sizes(), Phase.FORWARD, BF16, compiled))
    two = sum(w.bytes for w in works(op, op.sizes(), Phase.FORWARD, BF16, MEGATRON))
    assert one < two


def test_fp8_products_and_their_casts() -> None:
    op = linear()
    fp8 = precision.kept_by(MEGATRON, "fp8")
    cast, product = works(op, at(op, batch=4), Phase.FORWARD, fp8, MEGATRON)
    assert cast.family is Family.MEMORY
    assert product.dtype == "fp8"
    assert precision.load("fp8").activation == "bf16"


@pytest.mark.parametrize(
    ("model", "elements"),
    # gate and value of twice the width in, its product out: fused 2 in + 1 out and 1 out + 2 x 2 in; else
    # silu 1 + 1 and product 2 + 1, and backward 3 + 3 for both factors, 3 for silu, 2 + 2 to join their gradients
    [
        ("llama3-8b", {"megatron": (3, 5), "ddp": (5, 13)}),
        ("gpt2", {"megatron": (2, 3), "ddp": (2, 3)}),
    ],
)
def test_an_activation_of_several_kernels_moves_more(model: str, elements: dict[str, tuple[int, int]]) -> None:
    op = next(op for block in zoo.load(model).blocks for op in block.ops if op.kind is OpKind.ACTIVATION)
    sizes = at(op, batch=1)
    out = 1
    for dim in op.outputs[0].dims:
        out *= sizes[dim]
    for name, moved in elements.items():
        for phase, count in zip((Phase.FORWARD, Phase.INPUT_GRAD), moved, strict=True):
            lowered = works(op, sizes, phase, BF16, frameworks.load(name))
            assert sum(work.bytes for work in lowered) == 2 * count * out


def test_convolutions_in_half_precision_turn_images_that_lie_channels_first() -> None:
    block = next(b for b in zoo.load("tiny-cnn").blocks if any(op.kind is OpKind.CONV2D for op in b.ops))
    op = next(op for op in block.ops if op.kind is OpKind.CONV2D)
    sizes = {dim: 4 if dim == "batch" else block.dims[dim] for dim in op.dims}
    first = frameworks.load("ddp")
    x, y = (4 * math.prod(block.dims[d] for d in o.dims if d != "batch") for o in (op.inputs[0], op.outputs[0]))
    for phase in Phase:
        conv, turned = works(op, sizes, phase, BF16, first)
        assert (turned.family, turned.bytes) == (Family.MEMORY, 2 * 2 * (x + y))
        assert works(op, sizes, phase, BF16, first.but(channels_last=True)) == (conv,)
        assert len(works(op, sizes, phase, precision.load("tf32"), first)) == 1


def test_what_an_adapter_adds_is_scaled_in_a_pass_of_its_own() -> None:
    b = BlockBuilder("sum", {"batch": 1, "seq": 8, "hidden": 16}, indexed=False)
    dims = "batch seq hidden"
    x, y = b.take("x", dims), b.take("y", dims)
    plain = b.op("plain", OpKind.ADD, dims, [x, y], dims)
    b.op("scaled", OpKind.ADD, dims, [plain, y], dims, attrs={"scaled": True})
    add, scaled = b.build().ops
    one = 8 * 16 * 2.0
    compiled = frameworks.load("ddp, compile=true")

    def moved(op: Op, phase: Phase, how: Framework) -> float:
        return sum(work.bytes for work in works(op, op.sizes(), phase, BF16, how))

    assert moved(add, Phase.FORWARD, EAGER) == 3 * one
    assert moved(scaled, Phase.FORWARD, EAGER) == 5 * one
    assert moved(scaled, Phase.INPUT_GRAD, EAGER) == 2 * one
    assert moved(scaled, Phase.FORWARD, compiled) == 3 * one


def test_nvfp4_products_and_their_casts() -> None:
    """Three kernels read the operand: largest magnitude, rows, transformed columns; two of them write."""
    op, four = linear(), precision.kept_by(MEGATRON, "nvfp4")
    cast, product = works(op, at(op, batch=4), Phase.FORWARD, four, MEGATRON)
    element = 0.5 + 1 / 16
    assert (cast.num_kernels, cast.bytes) == (3, 4 * 8 * 16 * (3 * 2.0 + 2 * element))
    assert product.dtype == "nvfp4"
    assert product.bytes == (4 * 8 * 16 + 64 * 16) * element + 4 * 8 * 64 * 2.0


def test_scales_by_row_are_found_twice_and_multiplied_in_after_gradients() -> None:
    op, by_row, by_tensor = linear(), precision.kept_by(MEGATRON, "fp8-rowwise"), precision.kept_by(MEGATRON, "fp8")
    sizes = at(op, batch=4)
    cast, product = works(op, sizes, Phase.FORWARD, by_row, MEGATRON)
    assert cast.bytes == 4 * 8 * 16 * (3.0 + COLUMN_COST * 5.0)  # bf16 to fp8: rows once, columns twice
    assert product == works(op, sizes, Phase.FORWARD, by_tensor, MEGATRON)[1]
    dx, dw = 4 * 8 * 16, 64 * 16
    for phase, elements in ((Phase.INPUT_GRAD, dx), (Phase.WEIGHT_GRAD, dw)):
        more = works(op, sizes, phase, by_row, MEGATRON)
        assert len(more) == len(works(op, sizes, phase, by_tensor, MEGATRON)) + 1
        assert more[-1].bytes == elements * 4.0


def test_logits_and_routers_are_not_quantised() -> None:
    four = precision.kept_by(MEGATRON, "nvfp4")
    for block, name in ((-1, "head"), (1, "mlp.router")):
        op = next(op for op in zoo.load("mixtral-8x7b", layers=1).blocks[block].ops if op.name == name)
        (product,) = (w for w in works(op, op.sizes(), Phase.FORWARD, four, MEGATRON))
        assert product.dtype == "bf16"


def test_taking_tokens_moves_what_is_taken_and_scatters_into_zeros() -> None:
    take = next(
        op for op in zoo.load("bert-base-pretraining", seq=128, predictions=20).blocks[-1].ops if op.kind is OpKind.TAKE
    )
    row = 768 * 2.0
    (forward,) = works(take, take.sizes(), Phase.FORWARD, BF16, EAGER)
    zeros, added = works(take, take.sizes(), Phase.INPUT_GRAD, BF16, EAGER)
    assert (forward.bytes, zeros.bytes, added.bytes) == (2 * 20 * row, 128 * row, 3 * 20 * row)
