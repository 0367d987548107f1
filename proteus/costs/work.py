"""What a kernel has to do, in the terms that its time depends on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Phase(StrEnum):
    """A part of a step; a plain backward is INPUT_GRAD, then WEIGHT_GRAD."""

    FORWARD = "forward"
    INPUT_GRAD = "input_grad"
    WEIGHT_GRAD = "weight_grad"


class Family(StrEnum):
    """Kernels that one curve describes."""

    GEMM = "gemm"
    GROUPED_GEMM = "grouped_gemm"
    ATTENTION = "attention"
    CONV = "conv"
    MEMORY = "memory"
    EMBEDDING = "embedding"
    OPTIMIZER = "optimizer"


class Access(StrEnum):
    """How a memory-bound kernel walks its tensors, which sets its bandwidth."""

    STREAM = "stream"  # elementwise
    SOFTMAX = "softmax"  # a reduction per row held in registers
    NORM = "norm"  # two reductions per row, then elementwise
    NORM_GRAD = "norm_grad"  # reductions per row and per column
    TUNED = "tuned"  # the same by kernels written for the row length
    TUNED_GRAD = "tuned_grad"
    GATHER = "gather"  # whole rows by index
    SCATTER = "scatter"  # rows added by index, with sorting or atomics


#: a GEMM that reads a matrix once for a result too narrow to hide it
SERIAL = "serial"
#: a grouped GEMM that adds a bias of each group
BIASED = "biased"


class Direction(IntEnum):
    """Last entry of the shape of ATTENTION and CONV works."""

    FORWARD = 0
    BACKWARD = 1  # attention: all gradients; conv: the gradient of the input
    WEIGHT = 2  # conv only: the gradient of the weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One kernel, or a few that always come together.

    Parameters
    ----------
    flop
        Multiply-adds times two that are really done [FLOP]; causal attention
        counts its lower triangle only.
    bytes
        Traffic with device memory, each tensor once [bytes].
    dtype
        dtype of the arithmetic: the row of the GPU's peaks.
    shape
        ============= ====================================================
        GEMM          batch, m, n, k (GROUPED_GEMM: batch = groups)
        ATTENTION     batch, heads, kv_heads, seq_q, seq_kv, head_dim_qk,
                      head_dim_v, causal, direction
        CONV          batch, c_in, h, w, c_out, kh, kw, stride_h, stride_w,
                      pad_h, pad_w, groups, direction
        others        empty
        ============= ====================================================
    num_kernels
        Launches; each costs at least the GPU's floor and the host's launch.
    variant
        MEMORY: an :class:`Access`. ATTENTION: the library, e.g. ``flash2``.
        GEMM: SERIAL where its traffic is not hidden behind its arithmetic.
        GROUPED_GEMM: BIASED where every group has a bias.
    """

    family: Family
    flop: float = 0.0
    bytes: float = 0.0
    dtype: str = "fp32"
    shape: tuple[int, ...] = ()
    num_kernels: int = 1
    variant: str = ""
