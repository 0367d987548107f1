"""One simulated rank: the shards it holds, and which task wrote each of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from proteus.compiler.rank_plan import RankPlan
from proteus.verify.flat import FlatShard

#: (chunk, link of the chunk, copy of the link, micro-batch)
CopyKey = tuple[int, int, int, int]
#: what held from the beginning
BEGINNING = -1


@dataclass(slots=True)
class Cell:
    """A shard and the tasks that wrote it."""

    data: Tensor
    writers: tuple[int, ...]


@dataclass(slots=True)
class State:
    """A flat shard of a parameter, gradient or master copy, and the tasks that wrote it."""

    flat: FlatShard
    writers: tuple[int, ...]


@dataclass(slots=True)
class Rank:
    """What one device holds while a step runs.

    Parameters
    ----------
    device, place
        Its device, and its number in the mesh of its pipeline rank.
    forward, backward
        Values of every copy and micro-batch.  The backward sees only what the
        program keeps, so that recomputation and gathering again are needed.
    leaving, host
        Kept values on their way to the host, and those that are there.
    fetched
        (copy, phase) → the task that brought its parameters from the host.
    weights
        Parameters as they are kept between uses; None while the updated
        pieces have not been gathered.
    gathered
        Whole local parameters for one phase of one copy.
    pending
        Gradients of one micro-batch on their way through a reduction.
    """

    device: int
    place: int
    coordinate: tuple[int, ...]
    by_axis: dict[str, int]
    plan: RankPlan
    forward: dict[CopyKey, dict[int, Cell]] = field(default_factory=dict)
    backward: dict[CopyKey, dict[int, Cell]] = field(default_factory=dict)
    leaving: dict[CopyKey, dict[int, Cell]] = field(default_factory=dict)
    host: dict[CopyKey, dict[int, Cell]] = field(default_factory=dict)
    fetched: dict[tuple[CopyKey, int], int] = field(default_factory=dict)
    weights: dict[str, State | None] = field(default_factory=dict)
    masters: dict[str, State] = field(default_factory=dict)
    gradients: dict[str, State] = field(default_factory=dict)
    gathered: dict[tuple[CopyKey, int, str], Cell] = field(default_factory=dict)
    pending: dict[tuple[CopyKey, str], State] = field(default_factory=dict)
    losses: dict[int, Tensor] = field(default_factory=dict)
    final_gradients: dict[str, FlatShard] = field(default_factory=dict)
