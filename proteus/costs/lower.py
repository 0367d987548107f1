"""From an op and its local sizes to the kernels that a framework runs.

GEMMs are here; kernels that only move memory are in ``passes``.

A LINEAR is one GEMM per phase, with rows m, columns n, depth k::

    FORWARD      y[m, n]  = x[m, k]  w[n, k]
    INPUT_GRAD   dx[m, k] = dy[m, n] w[n, k]
    WEIGHT_GRAD  dw[n, k] = dy[m, n] x[m, k]

m are the dims of x and y that no weight has, n those of y and the weight, k
those of x and the weight, and dims in all three (experts) make it a grouped
GEMM.  Several weights on one x (query, key and value) are one GEMM
with the columns of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from proteus.costs.attention import attention_flop
from proteus.costs.conv import conv_flop, out_size
from proteus.costs.passes import memory_works, stream
from proteus.costs.precision import Precision
from proteus.costs.work import BIASED, SERIAL, Access, Direction, Family, Phase, Work
from proteus.errors import ModelError
from proteus.frameworks import Framework
from proteus.model.graph import Op, Operand, OpKind

Sizes = Mapping[str, int]
#: bytes per element of half precision
HALF_BYTES = 2
#: bytes per element of fp32 scores, statistics and main gradients
FP32_BYTES = 4
#: What the rows of operands of tensor cores are aligned to (NVIDIA, Matrix Multiplication Background User's Guide,
#: "Tensor Core Requirements").  Batched GEMMs of heads that are not: BigScience's log of layouts on A100
#: (bigscience train/tr11-176B-ml/chronicles-prequel.md, "NHEADs comparison") has 34 % and 38 % longer steps with heads
#: of 108 than of 144, which makes 11 TFLOPS of each of the eight GEMMs of a layer.
ROW_BYTES = 16


def works(op: Op, sizes: Sizes, phase: Phase, precision: Precision, framework: Framework) -> tuple[Work, ...]:
    """The kernels of one op in one phase on one device.

    Parameters
    ----------
    sizes
        Local sizes of all dims of the op, the batch included.
    phase
        FORWARD, or a part of the backward.  Ops without a parameter have all
        of their backward in INPUT_GRAD; fused attention too.

    Raises
    ------
    ModelError
        Where a dim of the op has no local size.
    """
    missing = [dim for dim in op.dims if dim not in sizes]
    if missing:
        raise ModelError(f"{op.name}: dim {missing[0]!r} has no local size; sizes are given for {sorted(sizes)}")
    lower = _PRODUCTS.get(op.kind)
    if lower is None:
        return memory_works(op, sizes, phase, precision, framework)
    return lower(op, sizes, phase, precision, framework)


def _count(operand: Operand, sizes: Sizes) -> int:
    return math.prod(sizes[dim] for dim in operand.dims)


def gemm(
    batch: int,
    m: int,
    n: int,
    k: int,
    dtype: str,
    in_bytes: float,
    out_bytes: float,
    *,
    grouped: bool = False,
    biased: bool = False,
) -> Work:
    """A (grouped) GEMM; `out_bytes` counts the result's traffic per element."""
    return Work(
        family=Family.GROUPED_GEMM if grouped else Family.GEMM,
        flop=2.0 * batch * m * n * k,
        bytes=batch * ((m * k + k * n) * in_bytes + m * n * out_bytes),
        dtype=dtype,
        shape=(batch, m, n, k),
        variant=BIASED if grouped and biased else "",
    )


def _linear(op: Op, sizes: Sizes, phase: Phase, precision: Precision, framework: Framework) -> tuple[Work, ...]:
    x, weights, ys = op.inputs[0], op.inputs[1 : 1 + len(op.outputs)], op.outputs
    in_x, in_w = set(x.dims), {dim for weight in weights for dim in weight.dims}
    in_y = {dim for y in ys for dim in y.dims}
    batch = math.prod(sizes[d] for d in op.dims if d in in_x and d in in_w and d in in_y)
    m = math.prod(sizes[d] for d in op.dims if d in in_x and d in in_y and d not in in_w)
    k = math.prod(sizes[d] for d in op.dims if d in in_x and d in in_w and d not in in_y)
    n = 0
    for weight, y in zip(weights, ys, strict=True):
        n += math.prod(sizes[d] for d in weight.dims if d in y.dims and d not in in_x)
    grouped = batch > 1 or any(d in in_x and d in in_w and d in in_y for d in op.dims)
    biased = len(op.inputs) > 1 + len(op.outputs)
    product = partial(gemm, grouped=grouped, biased=biased)
    # the head and other small GEMMs may stay in the activation's dtype
    dtype = precision.compute if op.attrs.get("quantised", True) else precision.activation
    wide = precision.activation_bytes
    narrow = precision.compute_bytes if dtype in _CASTS else wide
    by_row = precision.row_scales and dtype in _CASTS
    cast = casts(batch * m * (k if phase is Phase.FORWARD else n), dtype, wide, narrow, by_row=by_row)
    if phase is Phase.FORWARD:
        return (*cast, product(batch, m, n, k, dtype, narrow, wide))
    # gradients are summed exactly, by a GEMM without scales: a kernel of its own multiplies them in
    scale = (stream(batch * k * (m if phase is Phase.INPUT_GRAD else n) * 2.0 * wide),) if by_row else ()
    if phase is Phase.INPUT_GRAD:
        return (*cast, product(batch, m, k, n, dtype, narrow, wide), *scale)
    accumulate = framework.fused_grad_accumulation
    out = 2.0 * precision.grad_bytes if accumulate else wide
    pass_works = [product(batch, n, k, m, dtype, narrow, out), *scale]
    if not accumulate:
        # grad += new: read the new one, read and write the sum
        pass_works.append(stream(batch * n * k * (wide + 2.0 * precision.grad_bytes)))
    if biased:
        pass_works.append(stream(batch * m * n * wide, Access.SOFTMAX))  # the bias sums dy over its rows
    return tuple(pass_works)


#: Kernels that quantise an operand, each of which reads it; together they write it and its transpose.  fp8: one.
#: nvfp4 (Transformer Engine's NVFP4Quantizer): the largest magnitude, with and without the random Hadamard transform;
#: the rows; the columns, transformed, for the GEMM of the weight's gradient.
_CASTS = {"fp8": 1, "nvfp4": 3}


#: Time of kernels that find and apply scales by column over that of elementwise ones: Llama 3 8B on 8 H100 makes 6,412
#: tokens/s per GPU with scales per row and 7,186 with one per tensor (pytorch/torchtitan, commit 7a04053, Jan. 2025).
COLUMN_COST = 2.5


def casts(elements: float, dtype: str, wide: float, narrow: float, *, by_row: bool = False) -> tuple[Work, ...]:
    """Quantise one operand and its transpose; nothing for a dtype that needs no scales.

    Parameters
    ----------
    wide, narrow
        Bytes per element before and after, scales included.
    by_row
        A kernel finds and applies the scales of rows; two do so for columns.
    """
    if dtype not in _CASTS:
        return ()
    if by_row:
        columns = COLUMN_COST * (2.0 * wide + narrow)
        return (stream(elements * (wide + narrow + columns), kernels=3),)
    kernels = _CASTS[dtype]
    return (stream(elements * (kernels * wide + 2.0 * narrow), kernels=kernels),)


def _matmul(op: Op, sizes: Sizes, phase: Phase, precision: Precision, framework: Framework) -> tuple[Work, ...]:
    a, b, y = set(op.inputs[0].dims), set(op.inputs[1].dims), set(op.outputs[0].dims)
    batch = math.prod(sizes[d] for d in op.dims if d in a and d in b and d in y)
    m = math.prod(sizes[d] for d in op.dims if d in a and d in y and d not in b)
    n = math.prod(sizes[d] for d in op.dims if d in b and d in y and d not in a)
    k = math.prod(sizes[d] for d in op.dims if d in a and d in b and d not in y)
    return _bmm(phase, batch, m, n, k, precision)


def _bmm(
    phase: Phase, batch: int, m: int, n: int, k: int, precision: Precision, *, aligned: bool = True
) -> tuple[Work, ...]:
    """A GEMM of two activations, whose two gradients both belong to INPUT_GRAD.

    Parameters
    ----------
    aligned
        Whether rows begin where tensor cores can read them; else the vector units multiply.
    """
    dtype, size = precision.activation, precision.activation_bytes
    dtype = precision.compute if dtype == "fp32" else dtype  # tf32 GEMMs of fp32 activations
    dtype = dtype if aligned else "fp32"
    if phase is Phase.FORWARD:
        return (gemm(batch, m, n, k, dtype, size, size),)
    if phase is Phase.INPUT_GRAD:
        return (gemm(batch, m, k, n, dtype, size, size), gemm(batch, k, n, m, dtype, size, size))
    return ()


def _attention(op: Op, sizes: Sizes, phase: Phase, precision: Precision, framework: Framework) -> tuple[Work, ...]:
    if phase is Phase.WEIGHT_GRAD:
        return ()
    out = op.outputs[0]
    queries = op.queries()
    dim_qk, dim_v = sum(sizes[q.dims[-1]] for q in queries), sizes[out.dims[-1]]
    batch, seq_kv = sizes["batch"], sizes["kv_seq"]
    seq_q = sizes["seq"]
    heads = _count(out, sizes) // (batch * seq_q * dim_v)
    key = op.inputs[len(queries)]
    kv_heads = math.prod(sizes[d] for d in key.dims[:-1] if d in out.dims and d not in ("batch", "seq"))
    causal = bool(op.attrs.get("causal", False))
    size = precision.activation_bytes
    rope = _rope(op, batch, seq_q, seq_kv, heads, kv_heads, dim_qk, size, framework)
    document = int(op.attrs.get("document", seq_kv))
    if document < seq_kv and framework.flash:
        # as many samples as there are documents; a last one that is shorter costs its share of a whole one
        batch, seq_q, seq_kv = max(1, round(batch * seq_q / document)), document, document
    if not framework.flash:
        core = _unfused_attention(
            phase,
            batch * heads,
            seq_q,
            seq_kv,
            dim_qk,
            dim_v,
            bool(op.attrs.get("dropout")),
            precision,
            framework,
        )
        return (*rope, *core)
    backward = phase is Phase.INPUT_GRAD
    parts = 1
    if causal and seq_q < seq_kv:
        # Under context parallelism a rank holds an early and a late piece, so that all ranks have equal work: two
        # kernels, whose keys are together those of the whole and of one piece (TransformerEngine
        # attention/dot_product_attention/context_parallel.py, AttnFuncWithCPAndKVAllGather; arXiv 2407.21783, 3.3.2)
        parts, seq_q, seq_kv = 2, -(-seq_q // 2), seq_kv // 2 + -(-seq_q // 4)
    moved = batch * size * (heads * seq_q + kv_heads * seq_kv) * (dim_qk + dim_v)
    work = Work(
        family=Family.ATTENTION,
        flop=attention_flop(batch, heads, seq_q, seq_kv, dim_qk, dim_v, causal, backward),
        bytes=moved * (2.5 if backward else 1.0),
        dtype=precision.compute if precision.activation == "fp32" else precision.activation,
        shape=(batch, heads, kv_heads, seq_q, seq_kv, dim_qk, dim_v, int(causal), int(Direction(int(backward)))),
        num_kernels=3 if backward else 1,  # row sums of dO * O, the kernel, dQ from fp32
        variant=framework.attention,
    )
    return (*rope, *(work,) * parts)


def _rope(
    op: Op, batch: int, seq_q: int, seq_kv: int, heads: int, kv_heads: int, dim: int, size: int, framework: Framework
) -> tuple[Work, ...]:
    if not op.attrs.get("rope"):
        return ()
    moved = 2.0 * batch * size * dim * (heads * seq_q + kv_heads * min(seq_q, seq_kv))
    if framework.fused_rope:
        return (stream(moved, kernels=2),)
    # per tensor: split, negate and concat, two products with cos and sin, one sum
    return (stream(4.0 * moved, kernels=10),)


def _unfused_attention(
    phase: Phase,
    batch: int,
    rows: int,
    cols: int,
    dim_qk: int,
    dim_v: int,
    dropout: bool,
    precision: Precision,
    framework: Framework,
) -> tuple[Work, ...]:
    """Two batched GEMMs and the passes over the score matrix between them.

    GEMMs that read the scores do not hide it behind their arithmetic:
    standard attention of PyTorch on A100 (FlashAttention-2's benchmark, 2,048
    to 8,192 tokens) takes 20 to 23 ps by score, forward and backward, of which
    the softmax takes 8, and such a GEMM 1.9 with heads of 64 and 2.4 with
    128, where its traffic alone is 1.2.

    Heads that are no multiple of 16 bytes wide keep tensor cores from reading
    their rows, and cuBLAS takes kernels of the vector units for them.
    """
    size = precision.activation_bytes
    scores = float(batch) * rows * cols
    fused = framework.attention == "fused_softmax"
    wide = FP32_BYTES if framework.attention == "unfused_fp32" else float(size)
    # forward reads scores and writes shares; backward reads shares and their gradient, writes that of scores
    middle = [stream(scores * wide * (2.0 if phase is Phase.FORWARD else 3.0), Access.SOFTMAX)]
    if wide > size:  # mask and the casts to and from fp32
        middle.append(stream(scores * (2.0 * wide + 2.0 * (FP32_BYTES + size)), kernels=3))
    elif not fused:  # scale and mask; a mask has no gradient
        kernels = 2 if phase is Phase.FORWARD else 1
        middle.append(stream(scores * 2.0 * kernels * wide, kernels=kernels))
    if dropout:
        middle.append(stream((2.0 * size + 1.0) * scores))
    first, second = (
        tuple(work if work.shape[1:3] == (rows, cols) else replace(work, variant=SERIAL) for work in works)
        for works in (
            _bmm(phase, batch, rows, cols, dim_qk, precision, aligned=dim_qk * size % ROW_BYTES == 0),
            _bmm(phase, batch, rows, dim_v, cols, precision, aligned=dim_v * size % ROW_BYTES == 0),
        )
    )
    # The GEMMs want heads before tokens: q, k, v and the result are copied into that order and back, their gradients
    # too (DeepLearningExamples BERT modeling.py; PyTorch: permute, then a matmul of four dimensions and contiguous();
    # TensorFlow: tf.transpose).  Megatron's GEMMs take the strides as they are.
    # There q, k and v are GEMMs of their own, and two sums make one of the three gradients of what they read.
    turned = 2.0 * size * batch * (rows + cols) * (dim_qk + dim_v)
    turns: tuple[Work, ...] = (stream(turned, kernels=4),) if framework.attention == "unfused" else ()
    if turns and phase is Phase.INPUT_GRAD:
        turns += (stream(2.0 * 3.0 * size * batch * rows * dim_qk, kernels=2),)
    return (*first, *middle, *second, *turns) if phase is Phase.FORWARD else (*turns, *second, *middle, *first)


def _conv(op: Op, sizes: Sizes, phase: Phase, precision: Precision, framework: Framework) -> tuple[Work, ...]:
    x, y = op.inputs[0], op.outputs[0]
    batch, c_in, h, w = (sizes[dim] for dim in x.dims)
    c_out = sizes[y.dims[1]]
    kh, kw = op.attrs["kernel"]
    stride_h, stride_w = op.attrs.get("stride", (1, 1))
    pad_h, pad_w = op.attrs.get("padding", (0, 0))
    groups = int(op.attrs.get("groups", 1))
    direction = (Direction.FORWARD, Direction.BACKWARD, Direction.WEIGHT)[tuple(Phase).index(phase)]
    size = precision.activation_bytes
    out_h, out_w = out_size(h, kh, stride_h, pad_h), out_size(w, kw, stride_w, pad_w)
    moved = size * (batch * (c_in * h * w + c_out * out_h * out_w) + c_out * c_in // groups * kh * kw)
    work = Work(
        family=Family.CONV,
        flop=conv_flop(batch, c_in, c_out, out_h, out_w, kh, kw, groups),
        bytes=float(moved),
        dtype=precision.compute if precision.activation == "fp32" else precision.activation,
        shape=(batch, c_in, h, w, c_out, kh, kw, stride_h, stride_w, pad_h, pad_w, groups, int(direction)),
    )
    if framework.channels_last or size > HALF_BYTES:
        return (work,)  # the kernels of TF32 read either layout
    turned = 2.0 * size * batch * (c_in * h * w + c_out * out_h * out_w)  # read and written, both images
    return (work, stream(turned, kernels=2))


def _interaction(op: Op, sizes: Sizes, phase: Phase, precision: Precision, framework: Framework) -> tuple[Work, ...]:
    features, dim, batch = sizes["features"], sizes["embedding_dim"], sizes["batch"]
    pairs = stream(2.0 * precision.activation_bytes * batch * features * (features - 1) / 2.0)
    return (*_bmm(phase, batch, features, features, dim, precision), *((pairs,) if phase != Phase.WEIGHT_GRAD else ()))


def _opaque(op: Op, sizes: Sizes, phase: Phase, precision: Precision, framework: Framework) -> tuple[Work, ...]:
    """FLOP as a GEMM of the output's rows and columns (its depth follows), beside the traffic.

    The backward of a product has twice its FLOP, all of them counted with the input gradient.
    """
    moved = memory_works(op, sizes, phase, precision, framework)
    flop, out = op.flop(sizes), op.outputs[0].dims
    if not flop or phase is Phase.WEIGHT_GRAD or not out:
        return moved
    columns, size = sizes[out[-1]], precision.activation_bytes
    rows = math.prod(sizes[dim] for dim in out[:-1])
    depth = max(1, round(flop / (2.0 * rows * columns)))
    product = gemm(1, rows, columns, depth, precision.compute, size, size)
    return (*moved, *(product,) * (1 if phase is Phase.FORWARD else 2))


_Lower = Callable[[Op, Sizes, Phase, Precision, Framework], tuple[Work, ...]]
_PRODUCTS: Mapping[OpKind, _Lower] = {
    OpKind.LINEAR: _linear,
    OpKind.MATMUL: _matmul,
    OpKind.ATTENTION: _attention,
    OpKind.CONV2D: _conv,
    OpKind.INTERACTION: _interaction,
    OpKind.OPAQUE: _opaque,
}
