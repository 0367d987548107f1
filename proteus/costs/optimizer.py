"""The optimizer's step as passes over its states."""

from __future__ import annotations

from proteus.costs.precision import Precision, num_moments
from proteus.costs.work import Family, Work
from proteus.frameworks import Framework

#: parameters that one multi-tensor launch updates (apex: 320 blocks of 2**16 elements)
PARAMS_BY_LAUNCH = 320 * 2**16
#: kernels of one foreach Adam or SGD step (lerp, mul, addcmul, sqrt, div, add, addcdiv; mul, add, add)
FOREACH_KERNELS = {"adam": 7, "adamw": 8, "lamb": 12, "sgd": 3, "sgd-plain": 1}
#: passes of one foreach step over fp32 states: each kernel reads and writes its operands
FOREACH_PASSES = {"adam": 19.0, "adamw": 21.0, "lamb": 28.0, "sgd": 9.0, "sgd-plain": 3.0}

#: optimizers with a cost
OPTIMIZERS = tuple(FOREACH_KERNELS)


def optimizer_works(num_params: float, optimizer: str, precision: Precision, framework: Framework) -> tuple[Work, ...]:
    """The kernels that update `num_params` parameters on one device.

    A fused step reads the gradient, reads and writes master and moments, and
    writes the parameter of the run's precision.  Not fused, every arithmetic
    step is a pass of its own.

    Parameters
    ----------
    num_params
        Parameters that this device updates (its shard, under ZeRO).

    >>> from proteus import frameworks
    >>> from proteus.costs import precision
    >>> optimizer_works(1e9, "adam", precision.load("bf16"), frameworks.load("deepspeed"))[0].bytes / 1e9
    28.0
    """
    moments = num_moments(optimizer)
    if num_params <= 0:
        return ()
    # with a master copy the update reads and writes it, and writes the parameter besides
    stored = precision.param_bytes + 2.0 * precision.master_bytes
    if precision.master_bytes == 0.0:
        stored = 2.0 * precision.param_bytes
    fused_bytes = precision.grad_bytes + stored + 2.0 * moments * precision.moment_bytes
    kernels = max(1, round(num_params / PARAMS_BY_LAUNCH))
    if framework.optimizer_kernels == "fused":
        moved = fused_bytes
    else:
        extra = precision.param_bytes + precision.grad_bytes if precision.master_bytes else 0.0
        moved = FOREACH_PASSES[optimizer] * precision.moment_bytes + extra
        kernels *= FOREACH_KERNELS[optimizer]
    return (Work(family=Family.OPTIMIZER, bytes=num_params * moved, num_kernels=kernels, variant="stream"),)
