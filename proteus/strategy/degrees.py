"""Degrees that a model and a batch can carry, and what to say of those that they cannot."""

from __future__ import annotations

import math

from proteus.errors import StrategyError
from proteus.model.graph import Model, Op, Role
from proteus.strategy.axes import folded

#: dims that tensor parallelism cuts, in the order in which an op's first match wins
TENSOR_DIMS = ("kv_heads", "heads", "ffn", "expert_ffn", "shared_ffn", "vocab")


def cut_dims(op: Op) -> set[str]:
    """The dims of an op that tensor parallelism cuts."""
    return {dim for dim in (*TENSOR_DIMS, "q_per_kv") if dim in op.dims and op.dims[dim].role is not Role.INDIVISIBLE}


def _heads(model: Model) -> tuple[int, int]:
    """Key-value heads and query heads per key-value head of the model; (0, 0) without attention."""
    kv, per = 0, 1
    for block in model.blocks:
        for op in block.ops:
            if "kv_seq" in op.dims:
                kv = math.gcd(kv, op.dims["kv_heads"].size)
                per = op.dims["q_per_kv"].size if "q_per_kv" in op.dims else per
    return kv, per


def tensor_axes(model: Model, tp: int) -> tuple[int, int]:
    """`tp` as (part that cuts key-value heads, part that cuts the queries of a head).

    Grouped-query attention with more ranks than key-value heads keeps copies
    of keys and values, as Megatron does; the copies are the second part.
    """
    kv, _ = _heads(model)
    if not kv:
        return tp, 1
    first = math.gcd(tp, kv)
    return first, tp // first


def possible_tensor_degrees(model: Model) -> list[int]:
    """Tensor degrees that divide the heads (or the cut channels) of the model."""
    kv, per = _heads(model)
    if kv:
        heads = kv * per
        return [t for t in range(1, heads + 1) if heads % t == 0 and per % (t // math.gcd(t, kv)) == 0]
    sizes = {op.dims[d].size for block in model.blocks for op in block.ops for d in cut_dims(op)}
    if not sizes:
        return [1]
    common = math.gcd(*sizes)
    return [t for t in range(1, common + 1) if common % t == 0]


def check_tensor_degree(model: Model, tp: int) -> None:
    possible = possible_tensor_degrees(model)
    if tp in possible:
        return
    kv, per = _heads(model)
    divided = (
        f"{kv * per} attention heads"
        if kv and kv * per % tp
        else (f"{kv} key-value heads of {per} queries each" if kv else "the dims that tensor parallelism cuts")
    )
    raise StrategyError(f"tp={tp} does not divide {divided}; possible: {', '.join(map(str, possible))}")


def check_context_degree(model: Model, cp: int) -> None:
    if cp > 1 and model.seq % (2 * cp):
        possible = [c for c in range(1, 65) if c == 1 or model.seq % (2 * c) == 0]
        raise StrategyError(
            f"cp={cp} needs seq={model.seq} to be a multiple of 2·cp={2 * cp} "
            f"(each rank takes an early and a late part); possible: {', '.join(map(str, possible))}"
        )


def num_experts(model: Model) -> int:
    return max((op.dims["experts"].size for b in model.blocks for op in b.ops if "experts" in op.dims), default=0)


def check_expert_degrees(model: Model, ep: int, etp: int | None, *, dp: int, cp: int, tp: int, tq: int) -> int:
    """The experts' tensor degree, `etp` or that of all else; raises unless the experts can be cut so."""
    ranks = dp * cp * tp * tq
    degree = tp * tq if etp is None else etp
    experts = num_experts(model)
    if not experts:
        for name, value in (("ep", ep), ("etp", etp or 1)):
            if value > 1:
                raise StrategyError(f"{name}={value} does not fit a model without experts; possible: 1")
        return tp * tq

    def fits(ep: int, etp: int) -> bool:
        return experts % ep == 0 and folded(dp=dp, cp=cp, tp=tp, tq=tq, ep=ep, etp=etp) is not None

    if fits(ep, degree):
        return degree
    on = f"{experts} experts on dp={dp} × cp={cp} × tp={tp * tq}"
    if not fits(1, degree):
        possible = ", ".join(str(e) for e in range(1, ranks + 1) if fits(1, e))
        raise StrategyError(f"etp={degree} does not fit {on}; possible: {possible}")
    possible = ", ".join(str(e) for e in range(1, experts + 1) if fits(e, degree))
    raise StrategyError(f"ep={ep} does not fit {on} with etp={degree}; possible: {possible}")


def check_batch(global_batch: int, micro_batch: int, dp: int) -> None:
    """Raise unless the global batch is a whole number of micro-batches on every replica."""
    unit = micro_batch * dp
    if global_batch % unit == 0:
        return
    below = global_batch // unit * unit
    near = " or ".join(str(b) for b in (below, below + unit) if b > 0)
    per_replica = [d for d in range(1, dp + 1) if global_batch % (micro_batch * d) == 0]
    alternative = f"; with this batch dp could be {per_replica[-1]}" if per_replica else ""
    raise StrategyError(
        f"global_batch={global_batch} is not a multiple of micro_batch × dp = {micro_batch} × {dp} = {unit}; "
        f"nearest: {near}{alternative}"
    )


def filled(num_devices: int, *, tp: int, pp: int, cp: int) -> int:
    """The data-parallel degree that fills the devices which the other degrees leave.

    >>> filled(32, tp=4, pp=2, cp=1)
    4
    """
    others = tp * pp * cp
    if others > num_devices:
        raise StrategyError(f"tp × pp × cp = {tp} × {pp} × {cp} = {others} devices, there are {num_devices}")
    return num_devices // others


def fewest_replicas(model: Model, ep: int, etp: int | None, shard: int | None, *, cp: int, tp: int, tq: int) -> int:
    """The data-parallel degree of a plan that fills a number of devices not known yet.

    It is the least that the experts and the shards need; where none will do,
    the checks that follow say why.
    """
    step = shard or 1
    most = step * min(ep, max(1, num_experts(model)))
    for dp in range(step, most + 1, step):
        sizes = folded(dp=dp, cp=cp, tp=tp, tq=tq, ep=ep, etp=tp * tq if etp is None else etp)
        if sizes is not None and sizes.get("dp", 1) % step == 0:
            return dp
    return step
