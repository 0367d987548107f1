"""The numbers of one step: parameters, samples, and how the optimizer updates."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from proteus.errors import ModelError
from proteus.model.graph import BATCH, Block, Model, OpKind

#: functions of a MAP that have a numeric meaning in :mod:`ops` and :mod:`reference`
MAPS = ("mul", "sum", "mean")
#: gates that agree to so many decimals are equal: those of one token at two places are, but for rounding
GATE_DECIMALS = 11
#: learning rates that move every parameter visibly in one step [1]
SGD_RATE = 0.1
ADAM_RATE = 0.01
#: PyTorch's defaults of Adam
ADAM_BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is trained on what.

    Parameters
    ----------
    parameters
        Whole parameters by the full path of their owner.
    data
        Whole data-loader tensors of the step by (block, tensor), batch first.
    """

    model: Model
    global_batch: int
    seed: int
    parameters: Mapping[str, Tensor]
    data: Mapping[tuple[str, str], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenGroup:
    """Tokens of which one rank sends at most `capacity` to each expert: half-open ranges of samples and positions."""

    samples: tuple[int, int]
    positions: tuple[int, int]
    capacity: int


def make_problem(model: Model, global_batch: int, seed: int) -> Problem:
    """A problem with random numbers from `seed`; the same whatever the strategy."""
    parameters: dict[str, Tensor] = {}
    data: dict[tuple[str, str], Tensor] = {}
    for block in model.blocks:
        for index in range(block.count):
            for tensor in block.parameters():
                if tensor.tied_to is None:
                    path = f"{block.path(index)}.{tensor.name}"
                    parameters[path] = _weight(block.shape(tensor.name), f"{seed}/{path}")
        for tensor in block.tensors.values():
            if tensor.kind == "input":
                name = f"{seed}/{block.name}/{tensor.name}"
                shape = tuple(global_batch if dim == BATCH else block.dims[dim] for dim in tensor.dims)
                data[(block.name, tensor.name)] = (
                    torch.randint(_highest(block, tensor.name), shape, generator=_generator(name))
                    if tensor.dtype == "int64"
                    else torch.rand(shape, generator=_generator(name), dtype=torch.float64)
                )
    return Problem(model=model, global_batch=global_batch, seed=seed, parameters=parameters, data=data)


def _generator(name: str) -> torch.Generator:
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


def _weight(shape: tuple[int, ...], name: str) -> Tensor:
    """Matrices that keep the size of what they multiply, vectors near 1."""
    numbers = torch.randn(shape, generator=_generator(name), dtype=torch.float64)
    if len(shape) < 2:
        return 1.0 + 0.1 * numbers
    return numbers / math.sqrt(math.prod(shape[1:]))


def _highest(block: Block, tensor: str) -> int:
    """Ids of a data tensor run below the rows (or classes) that its op chooses from."""
    for op in block.ops:
        for place, operand in enumerate(op.inputs):
            if operand.tensor != tensor:
                continue
            if op.kind is OpKind.EMBEDDING:
                return op.dims[op.inputs[1].dims[0]].size
            if op.kind is OpKind.EMBEDDING_BAG:
                return op.dims[op.inputs[1].dims[1]].size
            if op.kind is OpKind.TAKE:
                return op.dims[op.inputs[0].dims[1]].size
            if op.kind is OpKind.PICK and place == 1:
                return op.dims[op.inputs[0].dims[-1]].size
    raise ModelError(f"{block.name}: nothing says how large the ids of {tensor} may be")


def check_divisible(model: Model, *, is_divided: bool) -> None:
    """Refuse models whose result depends on how a batch is divided, when it is, or on the order of experts' slots."""
    for block in model.blocks:
        for op in block.ops:
            if op.kind is OpKind.OPAQUE or (op.kind is OpKind.MAP and op.attrs["function"] not in MAPS):
                raise ModelError(
                    f"{block.name}.{op.name}: {op.attrs['function']} was imported by its cost alone and cannot be run; "
                    "verify a model without it"
                )
            if op.kind is OpKind.BATCH_NORM and is_divided:
                raise ModelError(
                    f"{block.name}.{op.name}: batch norm takes its statistics from the local batch, so a divided batch "
                    "trains another function; verify with one micro-batch on one data-parallel rank, or with group norm"
                )
            if op.kind is OpKind.DROPOUT and set(op.dims) & set(block.derived):
                raise ModelError(
                    f"{block.name}.{op.name}: dropout in the slots of experts falls on other tokens in the undivided "
                    "model, which keeps its tokens in order; verify without it (lora_dropout=0)"
                )


Update = Callable[[Tensor, Tensor], Tensor]


def sgd(weight: Tensor, gradient: Tensor) -> Tensor:
    """The weight after one step of plain SGD."""
    return weight - SGD_RATE * gradient


def adam(weight: Tensor, gradient: Tensor) -> Tensor:
    """The weight after the first step of Adam (Kingma and Ba, arXiv 1412.6980, algorithm 1)."""
    first, second = ADAM_BETAS
    mean = (1.0 - first) * gradient / (1.0 - first)
    variance = (1.0 - second) * gradient.square() / (1.0 - second)
    return weight - ADAM_RATE * mean / (variance.sqrt() + ADAM_EPSILON)


UPDATES: Mapping[str, Update] = {"sgd": sgd, "adam": adam}
