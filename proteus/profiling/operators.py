"""Seconds of ops: every call of a demand is run as PyTorch runs it, forward and backward apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from proteus.costs.ops import OpCosts
from proteus.costs.work import Phase, Work
from proteus.profiling.demand import Demand, Habits, OpCall, OptimizerStep, Sum
from proteus.profiling.kernels import DTYPES, Kernel, kernel
from proteus.profiling.timing import Clock

#: of the measured optimizer; its time does not depend on them
LEARNING_RATE, MOMENTUM = 1e-6, 0.9
#: side of the square GEMM, and elements of the copy, that tell a device's peaks
PEAK_SIDE, COPY_ELEMENTS = 1024, 2**24


@dataclass(frozen=True, slots=True)
class Measured:
    """One measured thing: the kernels that it stands for, how often it runs, its time [s]."""

    kernels: tuple[Work, ...]
    count: float
    time_s: float


def measure_ops(demand: Demand, clock: Clock, before_each: Callable[[], None]) -> list[Measured | None]:
    """Times of all computations of a demand, in its order; None where PyTorch has no one call for an op.

    `before_each` lets the processes of one machine start every measurement
    together: they share caches and memory.
    """
    measured: list[Measured | None] = []
    for call in demand.calls.values():
        before_each()
        measured.append(_call(call, clock))
    for step in demand.optimizers:
        before_each()
        measured.append(Measured(step.kernels, step.count, _optimizer_s(step, clock)))
    for add in demand.sums:
        before_each()
        measured.append(Measured((add.work,), add.count, _sum_s(add, clock)))
    return measured


def _call(call: OpCall, clock: Clock) -> Measured | None:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = call.habits.tf32
    made = kernel(call, clock.device)
    if made is None:
        return None
    run = runner(made, call)
    return Measured(call.kernels, call.count, clock.median_s(run) if run is not None else 0.0)


def runner(made: Kernel, call: OpCall) -> Callable[[], object] | None:
    """What to time: the forward, or one part of its backward; None where the part has nothing to do."""
    if call.phase is Phase.FORWARD:
        return made.forward
    wanted: Sequence[Tensor] = made.activations if call.phase is Phase.INPUT_GRAD else made.parameters
    if call.phase is Phase.INPUT_GRAD and call.alone:
        wanted = (*made.activations, *made.parameters)
    if not wanted:
        return None
    out = made.forward()
    if not out.requires_grad:
        return None
    gradient = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, wanted, gradient, retain_graph=True, allow_unused=True)


def _optimizer_s(step: OptimizerStep, clock: Clock) -> float:
    parameters = [torch.randn(shape, device=clock.device).requires_grad_() for shape in step.shapes]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    return clock.median_s(optimizer(parameters, step.habits).step)


def optimizer(parameters: Iterable[Tensor], habits: Habits) -> torch.optim.Optimizer:
    """PyTorch's optimizer of that name, in the implementation that the framework runs."""
    fused, foreach = habits.optimizer_kind == "fused", habits.optimizer_kind == "foreach"
    if habits.optimizer.startswith("adam"):
        return torch.optim.Adam(parameters, lr=LEARNING_RATE, fused=fused, foreach=foreach)
    momentum = 0.0 if habits.optimizer == "sgd-plain" else MOMENTUM
    return torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=momentum, fused=fused, foreach=foreach)


def _sum_s(add: Sum, clock: Clock) -> float:
    dtype = DTYPES[add.dtype]
    elements = int(add.work.bytes / 3 / add.work.num_kernels / dtype.itemsize)
    a, b = (torch.ones(max(elements, 1), dtype=dtype, device=clock.device) for _ in range(2))
    return clock.median_s(lambda: a.add_(b)) * add.work.num_kernels


def shared_out(measured: Iterable[Measured], model: OpCosts) -> dict[Work, float]:
    """Seconds of every kernel, so that the total over all measured things is what was measured.

    An op may be several kernels: its time is shared out as the cost model
    expects.  One kernel may stand in several ops (a relu and a gelu move the
    same bytes): it gets the mean over all that ran.

    >>> from proteus.hardware import gpus
    >>> from proteus.costs.passes import stream
    >>> one = stream(1e6)
    >>> both = shared_out([Measured((one,), 1.0, 2.0), Measured((one,), 3.0, 4.0)], OpCosts(gpus.load("a100")))
    >>> both[one]
    3.5
    """
    total: dict[Work, float] = {}
    count: dict[Work, float] = {}
    for item in measured:
        expected = [model.time(work).time_s for work in item.kernels]
        whole = sum(expected)
        for work, part in zip(item.kernels, expected, strict=True):
            share = part / whole if whole else 1.0 / len(expected)
            total[work] = total.get(work, 0.0) + item.count * item.time_s * share
            count[work] = count.get(work, 0.0) + item.count
    return {work: total[work] / count[work] for work in total}


def peaks(clock: Clock, dtypes: Iterable[str]) -> Mapping[str, float]:
    """Rates of a large GEMM by dtype [FLOP/s], and under ``memory`` that of a copy [B/s]."""
    rates: dict[str, float] = {}
    for name in dtypes:
        dtype = DTYPES[name]
        a = torch.randn(PEAK_SIDE, PEAK_SIDE, device=clock.device).to(dtype)
        rates[name] = 2.0 * PEAK_SIDE**3 / clock.median_s(lambda a=a: a @ a)  # type: ignore[misc]
    source = torch.ones(COPY_ELEMENTS, device=clock.device)
    target = torch.empty_like(source)
    rates["memory"] = 2.0 * source.nbytes / clock.median_s(lambda: target.copy_(source))
    return rates


def dispatch(clock: Clock) -> tuple[float, float]:
    """Host time of one launch, and what a module under autograd adds to it [s]."""
    x = torch.ones(8, 8, device=clock.device)
    out = torch.empty_like(x)
    launch_s = clock.issue_s(lambda: torch.add(x, x, out=out))
    module = torch.nn.Linear(8, 8, device=clock.device)
    return launch_s, max(clock.issue_s(lambda: module(x)) - launch_s, 0.0)
