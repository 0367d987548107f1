"""Memory-bound ops as passes over their tensors.

A kernel that only moves memory takes as long as its bytes: what it reads
plus what it writes, every tensor once.  The table of passes below counts
elements of the op's inputs (in) and outputs (out)::

    op             forward                 backward
    ACTIVATION     in + out                out + 2 in (a gate's product is a kernel of its own where not fused)
    ADD            in + out                nothing: the gradient is handed on (an adapter's is scaled: 2 out each way;
                                           a bias by expert: EXPERT_BIAS_BYTES)
    DROPOUT        in + out + mask         out + mask + in
    norms          in + out                out + 2 in (statistics are small)
    BATCH_NORM     2 in + out              2 out + 3 in: its statistics need a pass of their own
    EMBEDDING      rows, gathered          rows, scattered, into the table's gradient
    MAP            in + out                out + 2 in
    OPAQUE         in + out                out + 2 in, beside its FLOP
    TAKE           2 out, gathered         in, and 3 out, scattered
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from proteus.costs.precision import Precision
from proteus.costs.work import Access, Family, Phase, Work
from proteus.frameworks import Framework
from proteus.model.graph import BATCH, Op, Operand, OpKind

Sizes = Mapping[str, int]
#: bytes per element of fp32 and of a dropout mask
FP32_BYTES, MASK_BYTES = 4.0, 1.0
#: kernels of a router: softmax, top-k, normalise, one-hot, sums (Megatron-Core moe/router.py)
ROUTER_KERNELS = 8
#: Bytes per element that a norm written out in operators moves when it computes in fp32, and its kernels.
#: Forward: cast 2 -> 4, square 4 -> 4, mean 4, scale 4 -> 4, cast 4 -> 2, weight 2 -> 2.  Backward: weight's
#: two products and sum 16, casts 12, scale's two products and sum 28, mean and square 22, sum of both paths 8.
CHAIN_NORM_BYTES, CHAIN_NORM_KERNELS = (36.0, 86.0), (7, 14)
#: Sums along and across rows, and factors that are read once per row, are slower than copies.  linkedin/Liger-Kernel
#: benchmark/rms_norm_speed: Hugging Face's RMSNorm on 2048 rows of 32768 takes 1.9 and 5.1 ms on A100 and 4.26 ms
#: together on H100; its weight and result are fp32, which makes it 38 and 104 bytes: 1.42, 1.39 and 1.38 times a copy.
OPERATORS_SLOWER = 1.4
#: Bytes per element that operators move to add the biases of experts, weighted with the gates of their tokens, and the
#: kernels of that (Megatron-Core moe/experts.py, ``_apply_bias``).  Forward: weight 4, add 2 + 4 -> 4, join the experts
#: 4 -> 4, cast 4 -> 2.  Backward: cast 2 -> 4, gradients of the bias and of the gates by a product and a sum each 12,
#: cast 4 -> 2, join the experts 2 -> 2.
EXPERT_BIAS_BYTES, EXPERT_BIAS_KERNELS = (28.0, 40.0), (2, 2)
#: batch, channels, rows and columns
IMAGE_DIMS = 4
_NORMS = (OpKind.LAYER_NORM, OpKind.RMS_NORM, OpKind.GROUP_NORM)


def stream(moved_bytes: float, access: Access = Access.STREAM, *, kernels: int = 1) -> Work:
    """Kernels that move that many bytes.

    >>> stream(8.0).family
    <Family.MEMORY: 'memory'>
    """
    return Work(family=Family.MEMORY, bytes=float(moved_bytes), num_kernels=kernels, variant=access)


def memory_works(op: Op, sizes: Sizes, phase: Phase, precision: Precision, framework: Framework) -> tuple[Work, ...]:
    """The kernels of an op that has no GEMMs."""
    size = float(precision.activation_bytes)
    weight_like = {OpKind.EMBEDDING, OpKind.EMBEDDING_BAG, OpKind.POSITION}
    if phase is Phase.WEIGHT_GRAD and op.kind not in weight_like:
        # the gradient of a norm's weight is part of its backward kernel; a bias sums over the rows
        if op.kind in (OpKind.ADD, OpKind.DROPOUT, OpKind.ACTIVATION) and BATCH not in op.inputs[-1].dims:
            return (stream(_count(op.inputs[0], sizes) * size, Access.SOFTMAX),)
        return ()
    into = sum(_count(operand, sizes) for operand in op.inputs) * size
    first = _count(op.inputs[0], sizes) * size
    out = sum(_count(operand, sizes) for operand in op.outputs) * size
    forward = phase is Phase.FORWARD
    match op.kind:
        case OpKind.RESHAPE | OpKind.SELECT:
            return ()
        case OpKind.ACTIVATION if framework.fused_norm_activation and op.attrs.get("function") == "relu":
            return ()
        case OpKind.ACTIVATION:
            return _activation(op, into if op.is_gated else first, out, forward, framework)
        case OpKind.ADD if framework.fused_norm_activation and len(op.outputs[0].dims) == IMAGE_DIMS:
            return (stream(out),)  # the norm's kernel reads one operand more, and writes its gradient
        case OpKind.ADD if op.attrs.get("by_expert"):
            which = 0 if forward else 1
            moved = out / size * EXPERT_BIAS_BYTES[which]
            return (stream(moved, kernels=EXPERT_BIAS_KERNELS[which]),)
        case OpKind.ADD:
            # scaling is a kernel of its own unless a compiler fuses elementwise chains
            scale = (stream(2.0 * out),) if op.attrs.get("scaled") and not framework.fused_add_norm else ()
            return (*scale, stream(into + out)) if forward else scale
        case OpKind.DROPOUT:
            return _dropout(op, first, out, size, forward, framework)
        case OpKind.LAYER_NORM | OpKind.RMS_NORM | OpKind.GROUP_NORM:
            return _norm(first, out, size, forward, framework)
        case OpKind.BATCH_NORM:
            # with channels last a block reads whole lines of memory, whatever channels it sums
            access = Access.TUNED if framework.channels_last else Access.SOFTMAX
            return (stream(2.0 * first + out if forward else 2.0 * out + 3.0 * first, access),)
        case OpKind.POOL2D | OpKind.CONCAT:
            return (stream(first + out if op.kind is OpKind.POOL2D else 2.0 * out),)
        case OpKind.EMBEDDING | OpKind.EMBEDDING_BAG | OpKind.POSITION:
            return _embedding(op, sizes, phase, out, precision)
        case OpKind.TAKE:
            # backward: zeros for all of x, and the gradients of what was taken added to them
            return (
                (stream(2.0 * out, Access.GATHER),) if forward else (stream(first), stream(3.0 * out, Access.SCATTER))
            )
        case OpKind.ROUTER:
            return (stream(4.0 * (first + out), kernels=ROUTER_KERNELS),)
        case OpKind.DISPATCH | OpKind.COMBINE:
            slow = Access.GATHER if forward else Access.SCATTER
            return (stream(first + out, Access.STREAM if framework.fused_permute else slow, kernels=2),)
        case OpKind.MAP | OpKind.OPAQUE:
            return (stream(into + out if forward else out + 2.0 * into),)
        case _:
            return _loss(op, sizes, size, forward, framework)


def _count(operand: Operand, sizes: Sizes) -> int:
    return math.prod(sizes[dim] for dim in operand.dims)


def _activation(op: Op, first: float, out: float, forward: bool, framework: Framework) -> tuple[Work, ...]:
    if not framework.fused_bias_activation and first > out:
        # silu(gate) and its product with the value; backward: both factors' gradients, silu's, and their concatenation
        return (stream(5.0 * out, kernels=2) if forward else stream(13.0 * out, kernels=4),)
    if not framework.fused_bias_activation and op.attrs.get("function") == "relu2":
        return (stream(4.0 * out, kernels=2) if forward else stream(8.0 * out, kernels=3),)  # relu and square
    return (stream(first + out if forward else out + 2.0 * first),)


def _dropout(op: Op, first: float, out: float, size: float, forward: bool, framework: Framework) -> tuple[Work, ...]:
    if op.attrs.get("p", 0.0) == 0.0:
        return ()
    mask = out / size * MASK_BYTES
    if framework.fused_dropout_add and forward:
        return (stream(mask),)  # the add's kernel reads and writes the rest
    return (stream(first + out + mask),)


def _norm(first: float, out: float, size: float, forward: bool, framework: Framework) -> tuple[Work, ...]:
    if framework.norm == "chain":
        which = 0 if forward else 1
        moved = OPERATORS_SLOWER * CHAIN_NORM_BYTES[which] * out / size
        return (stream(moved, kernels=CHAIN_NORM_KERNELS[which]),)
    tuned = framework.norm == "tuned"
    if forward:
        read = 0.0 if framework.fused_add_norm else first  # the add before it has the values in registers
        return (stream(read + out, Access.TUNED if tuned else Access.NORM),)
    return (stream(out + 2.0 * first, Access.TUNED_GRAD if tuned else Access.NORM_GRAD, kernels=2),)


def _embedding(op: Op, sizes: Sizes, phase: Phase, out: float, precision: Precision) -> tuple[Work, ...]:
    if op.kind is OpKind.POSITION:
        if phase is Phase.INPUT_GRAD:
            return ()
        return (stream(2.0 * out) if phase is Phase.FORWARD else stream(out, Access.SOFTMAX),)
    rows = 1.0
    if op.kind is OpKind.EMBEDDING_BAG:
        rows = float(op.attrs.get("pooling", 1))  # rows summed per bag
    if phase is Phase.FORWARD:
        return (_lookup(out * (rows + 1.0), Access.GATHER),)
    if phase is Phase.WEIGHT_GRAD:
        # read the gradient, add to the rows of the table's gradient
        return (_lookup(out + 2.0 * rows * out / precision.activation_bytes * precision.grad_bytes, Access.SCATTER),)
    return ()


def _lookup(moved_bytes: float, access: Access) -> Work:
    return Work(family=Family.EMBEDDING, bytes=moved_bytes, num_kernels=1, variant=access)


def _loss_as_operators(logits: float, size: float) -> tuple[Work, ...]:
    """The framework's own cross entropy, forward: a cast to fp32 and a log-softmax."""
    return (stream(logits * (size + FP32_BYTES)), stream(2.0 * logits * FP32_BYTES, Access.SOFTMAX))


def _loss(op: Op, sizes: Sizes, size: float, forward: bool, framework: Framework) -> tuple[Work, ...]:
    """Cross entropy over a (sharded) vocabulary, op by op.

    Unfused, as Megatron's vocab_parallel_cross_entropy: logits are cast to
    fp32 and every step reads and writes them; fused, one kernel reads them
    twice forward and once backward and writes the gradient.
    """
    logits = float(_count(op.inputs[0], sizes))
    fused = framework.fused_cross_entropy
    match op.kind:
        case OpKind.MAX:
            passes = size if fused else OPERATORS_SLOWER * (size + 2.0 * FP32_BYTES)
            return (stream(logits * passes, Access.SOFTMAX),) if forward else ()
        case OpKind.SUM_EXP:
            if forward:
                passes = size if fused else OPERATORS_SLOWER * 5.0 * FP32_BYTES  # subtract, exp, sum
                loss_work = stream(logits * passes, kernels=1 if fused else 3)
                return (loss_work, *_loss_as_operators(logits, size) * framework.loss_metrics)
            # scale the saved softmax by the gradient, cast it to the logits' dtype
            passes = 2.0 * size if fused else OPERATORS_SLOWER * (5.0 * FP32_BYTES + size)
            return (stream(logits * passes, kernels=1 if fused else 3),)
        case OpKind.PICK:
            return (stream(_count(op.outputs[0], sizes) * FP32_BYTES, kernels=1),)
        case OpKind.CROSS_ENTROPY:
            return (stream(4.0 * logits * FP32_BYTES, kernels=3),)
        case _:
            return (stream(2.0 * logits * FP32_BYTES, kernels=2),)
