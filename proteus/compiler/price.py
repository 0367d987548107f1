"""Prices of instructions: the kernels of every op on one rank, in seconds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from proteus.compiler.chain import op_sizes
from proteus.compiler.layout import local_chunk
from proteus.compiler.program import Accumulate, BlockProgram, Compute, Instruction, ProgramPhase
from proteus.costs.host import host_s, slowdown
from proteus.costs.lower import works
from proteus.costs.ops import Calibration, OpCosts
from proteus.costs.overlap import ComputeClass, compute_class
from proteus.costs.passes import stream
from proteus.costs.precision import NF4_BYTES, Precision
from proteus.costs.work import Access, Family, Phase, Work
from proteus.frameworks import Framework
from proteus.hardware import Gpu
from proteus.identity import ById


def local_numel(program: BlockProgram, value: int, coordinate: tuple[int, ...]) -> int:
    """Elements of a value on the rank at `coordinate`."""
    layout = program.values[value].layout
    return math.prod(
        local_chunk(dim, program.sizes[dim], layout, program.mesh, coordinate)[1] for dim in program.dims(value)
    )


#: the phase of an op that an instruction carries out
PHASE_OF = {
    ProgramPhase.FORWARD: Phase.FORWARD,
    ProgramPhase.RECOMPUTE: Phase.FORWARD,
    ProgramPhase.INPUT_GRAD: Phase.INPUT_GRAD,
    ProgramPhase.WEIGHT_GRAD: Phase.WEIGHT_GRAD,
}


#: prices that a pricer keeps before it starts anew
REMEMBERED_PRICES = 50_000


@dataclass(frozen=True, slots=True, order=True)
class Borrowed:
    """A family of kernels that another chip's, or another dtype's, curve stands in for."""

    family: Family
    gpu: str
    source: str

    def __str__(self) -> str:
        return f"{self.family} on {self.gpu}: {self.source}"


@dataclass(frozen=True, slots=True)
class Price:
    """One op on one rank.

    Parameters
    ----------
    time_s, host_s
        Time of the device and of the host [s].
    compute_class
        What bounds it.
    shared, own
        By compute class: what the curve of that class puts `time_s` off by, as
        a logarithm; all ops together, and each by itself.
    """

    time_s: float
    compute_class: ComputeClass
    host_s: float
    shared: tuple[float, ...]
    own: tuple[float, ...]
    flop: float
    borrowed: tuple[Borrowed, ...] = ()


class Pricer:
    """Prices for one kind of GPU, precision and framework."""

    def __init__(self, gpu: Gpu, precision: Precision, framework: Framework, costs: OpCosts | None = None) -> None:
        self.gpu = gpu
        self.precision = precision
        self.framework = framework
        self.costs = costs or OpCosts(gpu)
        self._prices: dict[tuple[int, int, tuple[int, ...]], tuple[Instruction, Price]] = {}

    def price(self, program: BlockProgram, instruction: Instruction, coordinate: tuple[int, ...]) -> Price:
        """The price of a computation (or a local move) on the rank at `coordinate`."""
        key = (id(program), id(instruction), coordinate)
        cached = self._prices.get(key)
        if cached is None or cached[0] is not instruction:
            if len(self._prices) >= REMEMBERED_PRICES:
                self._prices.clear()
            cached = self._prices[key] = (instruction, self._price(program, instruction, coordinate))
        return cached[1]

    def _price(self, program: BlockProgram, instruction: Instruction, coordinate: tuple[int, ...]) -> Price:
        kernels: tuple[Work, ...] = ()  # a slice is a view, a mask writes nothing
        match instruction:
            case Compute():
                sizes = op_sizes(program, instruction.op, instruction.cut, coordinate)
                if all(sizes.values()):  # where nothing of an uneven cut is left for the rank, nothing runs
                    kernels = works(instruction.op, sizes, PHASE_OF[instruction.phase], self.precision, self.framework)
                    kernels = (*self.unpacked(program, instruction, coordinate), *kernels)
            case Accumulate():
                kernels = (self.addition(program, instruction, coordinate),)
        return self.total(kernels)

    def unpacked(self, program: BlockProgram, compute: Compute, coordinate: tuple[int, ...]) -> tuple[Work, ...]:
        """Weights in 4 bits read and written in the activations' precision, before a GEMM that needs them."""
        values = {p.value for p in program.parameters if p.is_quantised and p.value in compute.inputs}
        numel = sum(local_numel(program, value, coordinate) for value in values)
        moved = numel * (NF4_BYTES + self.precision.activation_bytes)
        return (stream(moved, kernels=len(values)),) if values else ()

    def addition(self, program: BlockProgram, instruction: Accumulate, coordinate: tuple[int, ...]) -> Work:
        numel = local_numel(program, instruction.target, coordinate)
        adds = len(instruction.sources) - 1
        moved = 3.0 * adds * numel * self.precision.activation_bytes  # two reads, one write
        return Work(family=Family.MEMORY, bytes=moved, num_kernels=adds, variant=Access.STREAM)

    def total(self, kernels: tuple[Work, ...]) -> Price:
        """The price of kernels that run one after another."""
        time_s, flop = 0.0, 0.0
        shared, independent_s = [0.0] * len(ComputeClass), [0.0] * len(ComputeClass)
        longest, bound = -1.0, ComputeClass.MEMORY
        borrowed: dict[Borrowed, None] = {}
        for work in kernels:
            cost = self.costs.time(work)
            alone_s = cost.time_s * slowdown(self.framework, work)
            time_s += alone_s
            flop += work.flop
            own_class = compute_class(work.family)
            shared[own_class] += cost.spread.shared * alone_s
            independent_s[own_class] = math.hypot(independent_s[own_class], cost.spread.own * alone_s)
            if cost.assumed:
                borrowed[Borrowed(work.family, self.gpu.name, cost.source)] = None
            if alone_s > longest:
                longest, bound = alone_s, own_class
        return Price(
            time_s,
            bound,
            host_s(self.framework, kernels),
            tuple(off_s / time_s if time_s else 0.0 for off_s in shared),
            tuple(off_s / time_s if time_s else 0.0 for off_s in independent_s),
            flop,
            tuple(borrowed),
        )


@lru_cache(maxsize=64)
def _cached_pricer(
    gpu: ById[Gpu], precision: Precision, framework: Framework, calibration: Calibration | None
) -> Pricer:
    return Pricer(gpu.value, precision, framework, OpCosts(gpu.value, calibration))


def pricer(gpu: Gpu, precision: Precision, framework: Framework, calibration: Calibration | None = None) -> Pricer:
    """The pricer of a GPU, precision, framework and calibration, with what it has priced before."""
    return _cached_pricer(ById(gpu), precision, framework, calibration)
