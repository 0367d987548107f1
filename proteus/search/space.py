"""The strategies that a search looks at.

A *shape* fixes the degrees, the micro-batch and the schedule.  For each shape
there is a ladder of ways to save memory, each slower than the one before::

    zero=1                      optimizer state cut over the data-parallel ranks
    zero=1, selective           attention's core computed again
    zero=3                      parameters gathered for each use (no pipeline)
    zero=1, full                whole blocks computed again
    zero=3, full

The first that fits is the one to take, so the others are never played.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from proteus.cluster import Cluster
from proteus.errors import StrategyError
from proteus.model.graph import Model
from proteus.strategy.axes import folded
from proteus.strategy.degrees import num_experts, possible_tensor_degrees, tensor_axes

#: fewer tokens than this on a context-parallel rank are slower than whole sequences: attention's kernels become small
#: and keys and values are gathered for little work
MIN_TOKENS = 4096
#: largest micro-batches looked at, of sequences and of single samples; kernels are as fast as they get before
MAX_MICRO_BATCH, MAX_SINGLE = 16, 1024
#: chunks per rank of the interleaved schedule that are looked at
VIRTUAL_STAGES = (2, 3, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Degrees, micro-batch and schedule of a strategy, in terms of ``parallelize``."""

    dp: int
    tp: int
    pp: int
    cp: int
    ep: int
    etp: int | None = None
    micro_batch: int
    schedule: str
    virtual_stages: int
    global_batch: int

    @property
    def num_micro_batches(self) -> int:
        return self.global_batch // (self.micro_batch * self.dp)

    def settings(self) -> dict[str, Any]:
        """As arguments of ``parallelize``, without how memory is saved."""
        settings = asdict(self)
        if self.tp > 1:
            settings["sequence_parallel"] = True  # the same bytes moved, less kept
        return settings


def divisors(number: int) -> list[int]:
    """
    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    return [d for d in range(1, number + 1) if number % d == 0]


def shapes(model: Model, cluster: Cluster, global_batch: int, schedules: tuple[str, ...]) -> list[Shape]:
    """Every shape that uses all devices and breaks no rule.

    Raises
    ------
    StrategyError
        There is none; the message says which rule leaves nothing.
    """
    every_shape = list(_shapes(model, cluster, global_batch, schedules))
    if not every_shape:
        raise StrategyError(
            f"no strategy distributes global_batch={global_batch} over {cluster.num_devices} devices; "
            f"use a global batch with more divisors, or a multiple of {cluster.num_devices}"
        )
    return every_shape


def _shapes(model: Model, cluster: Cluster, global_batch: int, schedules: tuple[str, ...]) -> Iterator[Shape]:
    devices, per_host = cluster.num_devices, cluster.devices_per_host
    layers = max(block.count for block in model.blocks)
    experts = num_experts(model)
    largest = MAX_MICRO_BATCH if model.seq > 1 else MAX_SINGLE
    # tensor parallelism communicates after every GEMM, so it never pays off across hosts
    for tp in possible_tensor_degrees(model):
        if tp > per_host or devices % tp or per_host % tp:
            continue
        for pp in divisors(devices // tp):
            if pp > layers or layers % pp:
                continue
            for cp in divisors(devices // (tp * pp)):
                if cp > 1 and (model.seq % (2 * cp) or model.seq // cp < MIN_TOKENS):
                    continue
                dp = devices // (tp * pp * cp)
                if global_batch % dp:
                    continue
                for ep, etp in _expert_degrees(experts, dp, cp, *tensor_axes(model, tp)):
                    for micro_batch in divisors(global_batch // dp):
                        if micro_batch > largest:
                            continue
                        count = global_batch // (dp * micro_batch)
                        for schedule, chunks in _schedules(pp, count, layers, schedules):
                            yield Shape(
                                dp=dp, tp=tp, pp=pp, cp=cp, ep=ep, etp=etp, micro_batch=micro_batch,
                                schedule=schedule, virtual_stages=chunks, global_batch=global_batch,
                            )  # fmt: skip


def _expert_degrees(experts: int, dp: int, cp: int, heads: int, per_head: int) -> Iterator[tuple[int, int | None]]:
    """Pairs of ep and etp: experts cut by tp as all else is, or whole ones shared by the tensor ranks, too."""
    if not experts:
        yield 1, None
        return
    tp = heads * per_head
    for etp in (None, 1) if tp > 1 else (None,):
        for ep in divisors(experts):
            if etp and ep % tp:
                continue  # tensor ranks would hold copies of experts
            if folded(dp=dp, cp=cp, tp=heads, tq=per_head, ep=ep, etp=etp or tp) is not None:
                yield ep, etp


def _schedules(pp: int, micro_batches: int, layers: int, schedules: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    if pp == 1:
        yield "1f1b", 1
        return
    if micro_batches < pp:
        return  # most of the step would be bubble
    for name in schedules:
        if name == "interleaved":
            if micro_batches % pp == 0:
                yield from ((name, chunks) for chunks in VIRTUAL_STAGES if layers % (pp * chunks) == 0)
        elif name in ("zb-v", "v-half", "v-min", "dualpipe"):
            if layers % (2 * pp) == 0:
                yield name, 2
        else:
            yield name, 1


def savings(shape: Shape) -> Iterator[dict[str, Any]]:
    """Ways to save memory, each slower than the one before."""
    zero = 1 if shape.dp * shape.cp > 1 else 0
    yield {"zero": zero, "recompute": "none"}
    yield {"zero": zero, "recompute": "selective"}
    if zero and shape.pp == 1:
        yield {"zero": 3, "recompute": "none"}
    yield {"zero": zero, "recompute": "full"}
    if zero and shape.pp == 1:
        yield {"zero": 3, "recompute": "full"}
