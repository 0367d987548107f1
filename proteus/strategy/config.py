"""What a node of the strategy tree can say (the paper's section IV).

Every field may be None: the node says nothing and takes what its nearest
ancestor says, or what flows to it along the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from proteus import frameworks
from proteus.errors import StrategyError
from proteus.frameworks import Framework
from proteus.mesh import Mesh

TensorRole = Literal["parameter", "gradient", "optimizer", "activation"]
TENSOR_ROLES: tuple[TensorRole, ...] = ("parameter", "gradient", "optimizer", "activation")
Recompute = Literal["none", "selective", "full"]
RECOMPUTES: tuple[Recompute, ...] = ("none", "selective", "full")
Frozen = bool | Literal["nf4"]
#: what a node can say of training its parameters, in words
FREEZING: Mapping[Frozen, str] = {True: "frozen", False: "trained", "nf4": "frozen in 4 bits"}


@dataclass(frozen=True, slots=True)
class Memory:
    """How a kind of tensor is kept between its uses.

    Parameters
    ----------
    axes
        Mesh axes along which the tensor is cut (flat, in equal parts) while
        it is not in use.  Empty: as the computation leaves it.  ZeRO is this
        and nothing else: stage 1 cuts ``optimizer``, stage 2 ``gradient``
        too, stage 3 ``parameter`` as well.
    offload
        Kept in host memory and copied over PCIe for its use.
    """

    axes: tuple[str, ...] = ()
    offload: bool = False

    def __post_init__(self) -> None:
        given_axes: object = self.axes
        axes = (given_axes,) if isinstance(given_axes, str) else given_axes
        if not isinstance(axes, tuple | list) or not all(isinstance(axis, str) for axis in axes):
            raise StrategyError(f"axes={self.axes!r}; they are names of mesh axes, such as ('dp',)")
        if not isinstance(self.offload, bool):
            raise StrategyError(f"offload={self.offload!r}; it is True or False")
        object.__setattr__(self, "axes", tuple(axes))

    def __repr__(self) -> str:
        text = f"S({'×'.join(self.axes)})" if self.axes else "R"
        return f"{text}@host" if self.offload else text


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """The configs of one node.

    Parameters
    ----------
    partition
        Computation config: which mesh axes cut which dim of the op (or of
        every op below).  A dim that an op does not have is passed over.
    memory
        Memory config per kind of tensor.
    recompute
        Drop activations of the node and compute them again in the backward.
    exchange
        How attention meets keys and values that context parallelism cut.
    frozen
        The parameters of the node are not trained: they have no gradient and
        no optimizer state (``requires_grad=False``).  ``nf4`` keeps the
        weights of its GEMMs in 4 bits besides, and brings them to the
        activations' precision for each use (QLoRA, arXiv 2305.14314).
    """

    partition: Mapping[str, tuple[str, ...]] | None = None
    memory: Mapping[TensorRole, Memory] | None = None
    recompute: Recompute | None = None
    exchange: Literal["all_gather", "ring"] | None = None
    frozen: Frozen | None = None

    def over(self, below: NodeConfig) -> NodeConfig:
        """This config where it speaks, `below` where it is silent."""
        partition = below.partition if self.partition is None else {**(below.partition or {}), **self.partition}
        memory = below.memory if self.memory is None else {**(below.memory or {}), **self.memory}
        return NodeConfig(
            partition=partition,
            memory=memory,
            recompute=self.recompute if self.recompute is not None else below.recompute,
            exchange=self.exchange if self.exchange is not None else below.exchange,
            frozen=self.frozen if self.frozen is not None else below.frozen,
        )

    def key(self) -> tuple[Any, ...]:
        """A hashable form: equal configs, equal keys."""
        return (
            None if self.partition is None else tuple(sorted(self.partition.items())),
            None if self.memory is None else tuple(sorted((k, m.axes, m.offload) for k, m in self.memory.items())),
            self.recompute,
            self.exchange,
            self.frozen,
        )

    def __repr__(self) -> str:
        parts = []
        if self.partition is not None:
            parts.append(
                "{" + ", ".join(f"{dim}: {'×'.join(axes) or '-'}" for dim, axes in self.partition.items()) + "}"
            )
        if self.memory:
            parts.extend(f"{role}={memory!r}" for role, memory in self.memory.items())
        if self.recompute:
            parts.append(f"recompute={self.recompute}")
        if self.exchange:
            parts.append(f"exchange={self.exchange}")
        if self.frozen is not None:
            parts.append(FREEZING[self.frozen])
        return " ".join(parts) or "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleConfig:
    """How micro-batches pass through the stages.

    Parameters
    ----------
    name
        One of ``strategy.schedule.SCHEDULES``: gpipe, 1f1b, interleaved, zb-h1,
        zb-v, v-half, v-min, dualpipe.  `grid` goes before it.
    max_in_flight
        Most micro-batches of one stage whose backward has not ended; None is
        what the schedule itself holds.
    virtual_stages
        Chunks of the model per device.
    grid
        One row per pipeline rank of actions such as ``0F0 0B0``.
    """

    name: str = "1f1b"
    max_in_flight: int | None = None
    virtual_stages: int = 1
    grid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One chunk of the chain of blocks and the devices that run it.

    Parameters
    ----------
    blocks
        Half-open range in the chain of block copies (embedding 0, layers 1...).
    rank
        Pipeline rank; chunks of one rank share its devices.
    mesh
        The axes of its devices.
    first_device
        Its devices are ``first_device ... first_device + mesh.size - 1``.
    """

    blocks: tuple[int, int]
    rank: int
    mesh: Mesh
    first_device: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What is trained: batch sizes, precision, optimizer, framework.

    Parameters
    ----------
    micro_batch
        Samples of one micro-batch on one data-parallel rank.
    global_batch
        Samples of one step.
    bucket_bytes
        Gradients are reduced in buckets of about this size.
    overlap_gradients, overlap_parameters
        Reduce gradients while the backward goes on; gather parameters while
        the step before still computes.
    overlap_steps
        The optimizer of a rank waits for no other (its norm of gradients is
        checked afterwards), so each begins the next step when it has ended
        its own (post-validation, arXiv 2401.10241 section 4).
    framework
        The training framework, as it is for this plan.
    """

    micro_batch: int = 1
    global_batch: int = 1
    precision: str = "bf16"
    optimizer: str = "adam"
    bucket_bytes: float = 40e6 * 4
    overlap_gradients: bool = False
    overlap_parameters: bool = False
    overlap_steps: bool = False
    framework: Framework = field(default_factory=lambda: frameworks.load().given(precision="bf16"))

    def __post_init__(self) -> None:
        for name in ("micro_batch", "global_batch"):
            if getattr(self, name) < 1:
                raise StrategyError(f"{name}={getattr(self, name)}; it must be at least 1")


def plain(value: Any) -> Any:
    """A dataclass of this module as plain dicts and lists, Nones left out."""
    if isinstance(value, Mesh):
        return dict(value.axes)
    if isinstance(value, Framework):
        return value.text
    if hasattr(value, "__dataclass_fields__"):
        items = {f.name: plain(getattr(value, f.name)) for f in fields(value)}
        return {name: item for name, item in items.items() if item is not None and item != []}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value
