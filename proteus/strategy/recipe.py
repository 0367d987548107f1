"""Recipes: the usual strategies, written as configs that a user could write.

``parallelize`` fills the root of the tree and a few leaves, nothing else;
every node can be overridden afterwards.

    batch    cut by dp
    seq      cut by cp everywhere, and by tp where sequence_parallel says so
    heads, ffn, vocab, ...   cut by tp, as Megatron does it
    experts  cut by ep, each by etp: the same devices divided anew (:mod:`axes`)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from proteus import frameworks
from proteus.costs import precision as precisions
from proteus.errors import StrategyError, unknown
from proteus.frameworks import Framework
from proteus.identity import Same
from proteus.mesh import Mesh
from proteus.model.graph import Block, Lora, Model, Op, Role
from proteus.model.lora import RANK, TRAINED, with_lora
from proteus.strategy.axes import among_experts, copy_axes, folded, mesh_axes, named
from proteus.strategy.config import RECOMPUTES, TENSOR_ROLES, Memory, Stage, Training
from proteus.strategy.stages import split_chain

if TYPE_CHECKING:
    from proteus.strategy.tree import StrategyTree

#: dims that tensor parallelism cuts, in the order in which an op's first match wins
TENSOR_DIMS = ("kv_heads", "heads", "ffn", "expert_ffn", "shared_ffn", "vocab")
#: that of them which the experts' own tensor parallelism cuts
EXPERT_DIM = "expert_ffn"
#: Megatron-LM's make_vocab_size_divisible_by
VOCAB_MULTIPLE = 128
#: how context parallelism meets attention
CONTEXTS = ("all_gather", "ring", "all_to_all")
#: what ZeRO stage n cuts over the data-parallel ranks (Rajbhandari et al. 2020, section 5)
ZERO_ROLES: tuple[tuple[str, ...], ...] = (
    (),
    ("optimizer",),
    ("optimizer", "gradient"),
    ("optimizer", "gradient", "parameter"),
)


def parallelize(
    tree: StrategyTree,
    *,
    dp: int = 1,
    tp: int = 1,
    pp: int = 1,
    cp: int = 1,
    ep: int = 1,
    etp: int | None = None,
    micro_batch: int = 1,
    global_batch: int | None = None,
    schedule: str = "1f1b",
    virtual_stages: int = 1,
    max_in_flight: int | None = None,
    layers_per_stage: Sequence[int] | None = None,
    zero: int = 0,
    shard: int | None = None,
    sequence_parallel: bool = False,
    context: Literal["all_gather", "ring", "all_to_all"] = "all_gather",
    recompute: str = "none",
    recompute_layers: int | None = None,
    precision: str = "bf16",
    optimizer: str = "adam",
    bucket_bytes: float | None = None,
    overlap_gradients: bool = True,
    overlap_steps: bool = False,
    framework: str | Framework | None = None,
    offload: Iterable[str] = (),
    pad_vocab: int | None = None,
    lora: int | None = None,
    lora_targets: Iterable[str] = (),
    lora_dropout: float = 0.0,
    lora_base: Literal["exact", "nf4"] = "exact",
    freeze: Iterable[str] = (),
) -> StrategyTree:
    """A new tree with the configs of a usual recipe; configs set before are dropped.

    Parameters
    ----------
    dp, tp, pp, cp, ep
        Data, tensor, pipeline, context and expert degree.  The ranks number
        dp × tp × pp × cp.
    etp
        Tensor degree of the experts; tp when not given.  Experts divide the
        dp × cp × tp ranks of a stage anew, into copies × ep × etp.
    micro_batch, global_batch
        Samples of a micro-batch on one data-parallel rank, and of a step
        (default: one micro-batch per pipeline stage and rank).
    schedule, virtual_stages, max_in_flight, layers_per_stage
        The pipeline; `layers_per_stage` lists the layers that each chunk
        holds: copies of the main block, or of all kinds of layers.
    zero
        0 to 3: optimizer state, gradients, parameters cut over dp and cp.
    shard
        Cut them over groups of so many data-parallel ranks only, and keep
        copies between the groups (FSDP's hybrid shard); None is all of them.
    sequence_parallel
        Norms, dropouts and residuals cut along seq by tp (Korthikanti et al.).
    context
        How cp meets attention: gather keys and values, pass them round a ring
        beside the computation, or all_to_all to heads.
    recompute, recompute_layers
        none, selective or full; only in the first `recompute_layers` copies
        of every stage when given.
    bucket_bytes, overlap_gradients, overlap_steps
        How gradients are reduced, and whether ranks wait for each other before
        the next step; see :class:`Training`.
    offload
        Tensor roles kept in host memory: optimizer, parameter, activation.
    pad_vocab
        Grow the vocabulary to a multiple of this times tp.  None does so with
        Megatron's 128 where tp does not divide it; 0 never does, and cuts it
        unevenly as DTensor does.
    lora
        Rank of low-rank adapters beside the products of the layers; all else
        is frozen.  None keeps the adapters that the model has.
    lora_targets
        Products that get one: ops (``attention.qkv``), modules (``mlp``) or
        outputs (``attention.qkv.q``); all of the layers when not given.
    lora_dropout
        Rate of the dropout before an adapter.
    lora_base
        ``nf4`` keeps the frozen products of the layers in 4 bits (QLoRA).
    freeze
        Nodes whose parameters are not trained, such as ``embedding`` or ``layers.0-11``.

    Raises
    ------
    StrategyError
        A degree that the model or the batch cannot carry, with the possible ones.
    """
    from proteus.strategy.schedule import SCHEDULES, placement

    model = adapted(tree.model, lora, tuple(lora_targets), lora_dropout, lora_base)
    if schedule == "1f1b" and virtual_stages > 1:
        schedule = "interleaved"  # as Megatron reads virtual stages
    for name, value in {
        "dp": dp,
        "tp": tp,
        "pp": pp,
        "cp": cp,
        "ep": ep,
        "virtual_stages": virtual_stages,
        "etp": tp if etp is None else etp,
    }.items():
        if not isinstance(value, int) or value < 1:
            raise StrategyError(f"{name}={value!r}; a degree is a whole number of at least 1")
    if schedule not in SCHEDULES:
        raise StrategyError(unknown("schedule", schedule, SCHEDULES))
    if recompute not in RECOMPUTES:
        raise StrategyError(unknown("recompute", recompute, RECOMPUTES))
    if not 0 <= zero <= 3:
        raise StrategyError(f"zero={zero}; possible: 0, 1, 2, 3")
    bad = [role for role in offload if role not in TENSOR_ROLES]
    if bad:
        raise StrategyError(unknown("tensor role to offload", bad[0], TENSOR_ROLES))
    assumed: list[str] = []
    if pad_vocab is None and any(block.dims.get("vocab", 0) % tp for block in model.blocks):
        pad_vocab = VOCAB_MULTIPLE
    if pad_vocab:
        model, note = padded_vocab(model, pad_vocab * tp)
        assumed += note
    check_tensor_degree(model, tp)
    check_context_degree(model, cp)
    heads, per_head = tensor_axes(model, tp)
    etp = check_expert_degrees(model, ep, etp, dp=dp, cp=cp, tp=heads, tq=per_head)
    batch = micro_batch * dp
    global_batch = global_batch if global_batch is not None else batch * pp
    check_batch(global_batch, micro_batch, dp)

    stage_mesh = Mesh(mesh_axes(dp=dp, shard=shard, cp=cp, tp=heads, tq=per_head, ep=ep, etp=etp))
    ranks = placement(schedule, pp, virtual_stages)
    chunks = split_chain(model, len(ranks), layers_per_stage)
    stages = tuple(
        Stage(blocks=blocks, rank=rank, mesh=stage_mesh, first_device=rank * stage_mesh.size)
        for blocks, rank in zip(chunks, ranks, strict=True)
    )

    axes = stage_mesh.names
    data, context_axes, tensor = named(axes, "dp"), named(axes, "cp"), named(axes, "tp", "tq")
    partition: dict[str, tuple[str, ...]] = {"batch": data}
    dims = _dims(model)
    if context_axes and "seq" in dims:
        partition["seq"] = context_axes
    if tp > 1:
        for dim in TENSOR_DIMS:
            if dim in dims:
                partition[dim] = named(axes, "tp") if dim == "kv_heads" and per_head > 1 else tensor
        if per_head > 1:
            partition["q_per_kv"] = named(axes, "tq")
    if EXPERT_DIM in dims:
        partition.pop(EXPERT_DIM, None)
        if etp > 1:
            partition[EXPERT_DIM] = among_experts(axes, "tensor")
    if ep > 1:
        partition["experts"] = among_experts(axes, "expert")

    runs = framework if isinstance(framework, Framework) else frameworks.load(framework or frameworks.DEFAULT)
    facts = {"precision": precision, "experts": num_experts(model) > 0, "lora": model.lora is not None}
    if pp > 1:
        facts["virtual_stages"] = virtual_stages
    runs = runs.given(**{**facts, **dict(runs.facts)})  # what its text says of the run is the user's word
    new = tree.on(model).with_mesh(Mesh((("pp", pp), *stage_mesh.axes)), stages)
    new = new.with_schedule(name=schedule, virtual_stages=virtual_stages, max_in_flight=max_in_flight)
    training = Training(
        micro_batch=micro_batch,
        global_batch=global_batch,
        precision=precision,
        optimizer=optimizer,
        overlap_gradients=overlap_gradients,
        overlap_steps=overlap_steps,
        framework=runs,
        assumed=tuple(assumed),
    )
    if bucket_bytes is None:
        bucket_bytes = runs.bucket_size_bytes(precisions.kept_by(runs, precision).grad_bytes, dp * cp)
    training = replace(training, bucket_bytes=bucket_bytes)
    new = new.with_training(**{name: getattr(training, name) for name in Training.__dataclass_fields__})
    state_axes = tuple(name for name in copy_axes(stage_mesh) if name == "shard" or not shard)
    memory: dict[str, Memory] = {
        role: Memory(axes=state_axes if role in ZERO_ROLES[zero] else (), offload=role in set(offload))
        for role in TENSOR_ROLES
        if role in ZERO_ROLES[zero] or role in set(offload)
    }
    new = new.set("", partition=partition, memory=memory or None, recompute="none")
    if model.lora is not None:
        new = new.set("", frozen=True)
        for block in model.blocks if model.lora.base == "nf4" else ():
            if block.indexed:  # never the embedding or the head
                new = new.set(block.name, frozen="nf4")
        for selector in _adapters(model):
            new = new.set(selector, frozen=False)
    for selector in freeze:
        new = new.set(selector, frozen=True)
    if recompute != "none" and not recompute_layers:
        for block in model.blocks:
            if block.indexed:  # frameworks checkpoint layers, never the embedding or the loss
                new = new.set(block.name, recompute=recompute)
    if sequence_parallel and tp > 1:
        sequence = {"seq": (*context_axes, *tensor)}
        # tokens that tensor ranks share are sent to the experts that these ranks share
        to_experts = {**sequence, "experts": ()} if set(tensor) & set(partition.get("experts", ())) else sequence
        for selector, op in _sequence_parallel_ops(model):
            new = new.set(selector, partition=to_experts if "experts" in op.dims else sequence)
    if context not in CONTEXTS:
        raise StrategyError(unknown("context", context, CONTEXTS))
    if context == "ring" and cp > 1:
        for selector in _attention_cores(model):
            new = new.set(selector, exchange="ring")
    if context == "all_to_all" and cp > 1:
        for selector in _attention_cores(model):
            new = new.set(selector, partition={"seq": (), "kv_heads": (*context_axes, *partition.get("kv_heads", ()))})
    if recompute_layers:
        for block, copies in _first_copies(model, stages, recompute_layers):
            new = new.set(f"{block.name}.{block.first + copies[0]}-{block.first + copies[-1]}", recompute=recompute)
    return _undo_to(new, tree)


def adapted(
    model: Model, rank: int | None, targets: tuple[str, ...], dropout: float, base: Literal["exact", "nf4"]
) -> Model:
    """The model with the adapters that are asked for; as it is where none are."""
    if rank is not None:
        return _with_lora(Same(model), Lora(rank=rank, targets=targets, dropout=dropout, base=base))
    said = {"lora_targets": targets, "lora_dropout": dropout, "lora_base": base != "exact"}
    if any(said.values()):
        first = next(name for name, value in said.items() if value)
        raise StrategyError(f"{first} says nothing without lora; give the rank of the adapters")
    return model


@lru_cache(maxsize=32)
def _with_lora(same: Same[Model], lora: Lora) -> Model:
    return same.value if same.value.lora == lora else with_lora(same.value, lora)


def _adapters(model: Model) -> list[str]:
    """Selectors of the ops that hold the parameters of adapters."""
    return [
        _selector(block, op)
        for block in model.blocks
        for op in block.ops
        if op.name.rpartition(".")[2] in TRAINED and RANK in op.dims
    ]


def _undo_to(new: StrategyTree, before: StrategyTree) -> StrategyTree:
    """`new` with `before` as the one tree that undo goes back to."""
    from proteus.strategy.tree import StrategyTree

    return StrategyTree(new.model, _state=new._state, _previous=before)


def _dims(model: Model) -> set[str]:
    return {dim for block in model.blocks for op in block.ops for dim in op.dims}


def cut_dims(op: Op) -> set[str]:
    """The dims of an op that tensor parallelism cuts."""
    return {dim for dim in (*TENSOR_DIMS, "q_per_kv") if dim in op.dims and op.dims[dim].role is not Role.INDIVISIBLE}


def _selector(block: Block, op: Op) -> str:
    return f"{block.name}.*.{op.name}" if block.indexed else f"{block.name}.{op.name}"


def _sequence_parallel_ops(model: Model) -> list[tuple[str, Op]]:
    """Ops that tensor parallelism leaves whole and that run per token."""
    return [
        (_selector(block, op), op)
        for block in model.blocks
        for op in block.ops
        if not cut_dims(op) and "seq" in op.dims and op.dims["seq"].role is Role.PARALLEL
    ]


def _attention_cores(model: Model) -> list[str]:
    return [_selector(block, op) for block in model.blocks for op in block.ops if "kv_seq" in op.dims]


def _first_copies(model: Model, stages: tuple[Stage, ...], first: int) -> list[tuple[Block, range]]:
    found = []
    at = 0
    for block in model.blocks:
        for stage in stages:
            lo, hi = max(stage.blocks[0] - at, 0), min(stage.blocks[1] - at, block.count)
            if block.indexed and lo < hi:
                found.append((block, range(lo, min(lo + first, hi))))
        at += block.count
    return found


def padded_vocab(model: Model, multiple: int) -> tuple[Model, list[str]]:
    """The model with its vocabulary grown to a multiple, and what to say about it."""
    sizes = {block.dims["vocab"] for block in model.blocks if "vocab" in block.dims}
    if len(sizes) != 1:
        return model, []
    size = next(iter(sizes))
    grown = -(-size // multiple) * multiple
    if grown == size:
        return model, []
    return _resized(Same(model), grown), [f"vocabulary padded from {size} to {grown}"]


@lru_cache(maxsize=32)
def _resized(same: Same[Model], vocab: int) -> Model:
    return same.value.resized("vocab", vocab)


# -- what degrees a model can carry --------------------------------------------


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
    what = (
        f"{kv * per} attention heads"
        if kv and kv * per % tp
        else (f"{kv} key-value heads of {per} queries each" if kv else "the dims that tensor parallelism cuts")
    )
    raise StrategyError(f"tp={tp} does not divide {what}; possible: {', '.join(map(str, possible))}")


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
    """Raise unless the global batch is a whole number of micro-batches."""
    unit = micro_batch * dp
    if global_batch >= 1 and micro_batch >= 1 and global_batch % unit == 0:
        return
    below = global_batch // unit * unit
    near = [str(b) for b in (below, below + unit) if b > 0]
    raise StrategyError(
        f"global_batch={global_batch} is not a multiple of micro_batch × dp = {micro_batch} × {dp} = {unit}; "
        f"nearest: {', '.join(near)}"
    )
