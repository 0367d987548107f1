"""What a framework adds to kernels: the host's time to issue them, and kernels that are slow in it."""

from __future__ import annotations

from collections.abc import Iterable

from proteus.costs.work import BIASED, Family, Work
from proteus.frameworks import Framework

#: dtypes in which a bias of every group slows a grouped GEMM
_SIXTEEN_BITS = ("bf16", "fp16")


def host_s(framework: Framework, works: Iterable[Work]) -> float:
    """Host time to issue the kernels of one op in one phase [s]."""
    launches = experts = 0
    for work in works:
        launches += work.num_kernels
        experts += work.shape[0] if work.family is Family.GROUPED_GEMM else 0
    return framework.op_s + launches * framework.launch_s + experts * framework.expert_s if launches else 0.0


def slowdown(framework: Framework, work: Work) -> float:
    """Time of a kernel in this framework over that of the kernel alone."""
    return framework.biased_products if work.variant == BIASED and work.dtype in _SIXTEEN_BITS else 1.0
