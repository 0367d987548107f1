"""Recipes: from a plan to the configs that a user could have written.

A recipe fills the root of the tree and a few leaves, nothing else; every node
can be overridden afterwards.

    batch    cut by dp
    seq      cut by cp everywhere, and by tp where sequence_parallel says so
    heads, ffn, vocab, ...   cut by tp, as Megatron does it
    experts  cut by ep, each by etp: the same devices divided anew (:mod:`axes`)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from proteus import frameworks
from proteus.costs import precision as precisions
from proteus.errors import StrategyError, context
from proteus.frameworks import Framework
from proteus.identity import ById
from proteus.mesh import Mesh
from proteus.model.graph import Block, Lora, Model, Op, OpKind, Role
from proteus.model.lora import RANK, TRAINED, with_lora
from proteus.strategy.axes import among_experts, copy_axes, mesh_axes, named
from proteus.strategy.config import TENSOR_ROLES, Memory, NodeConfig, ScheduleConfig, Stage, Training
from proteus.strategy.degrees import (
    TENSOR_DIMS,
    check_batch,
    check_context_degree,
    check_expert_degrees,
    check_tensor_degree,
    cut_dims,
    fewest_replicas,
    filled,
    num_experts,
    tensor_axes,
)
from proteus.strategy.plan import FILL, MAX, DecidedPlan, Plan, decide, specs
from proteus.strategy.schedule import SCHEDULES, placement
from proteus.strategy.select import check_selector
from proteus.strategy.stages import CUTS, split_chain

#: that of the tensor dims which the experts' own tensor parallelism cuts
EXPERT_DIM = "expert_ffn"
#: Megatron-LM's make_vocab_size_divisible_by
VOCAB_MULTIPLE = 128
#: chunks per rank of the interleaved schedule that says no number, the fewest that it takes
#: (torchtitan distributed/pipeline_parallel.py: two stages per rank for schedules of several)
INTERLEAVED_CHUNKS = 2
#: what ZeRO stage n shards over the data-parallel ranks (Rajbhandari et al. 2020, section 5)
ZERO_ROLES: tuple[tuple[str, ...], ...] = (
    (),
    ("optimizer",),
    ("optimizer", "gradient"),
    ("optimizer", "gradient", "parameter"),
)
#: what `recompute_modules` names (Megatron-Core's recompute_modules layernorm, mlp_act, moe_act)
_MODULES: dict[str, tuple[OpKind, ...]] = {
    "norm": (OpKind.LAYER_NORM, OpKind.RMS_NORM),
    "activation": (OpKind.ACTIVATION, OpKind.DROPOUT),
}
#: share of the GEMMs of a layer that torchtitan's per-op policy runs again: every second one
#: (torchtitan distributed/activation_checkpoint.py, ``_get_custom_policy``)
ALTERNATE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A plan applied to one model.

    Parameters
    ----------
    model
        The model that is trained: of the length asked for, with adapters, its vocabulary padded.
    decided
        Every field of the plan with its value and who set it.
    configs
        Configs by selector, in order.
    notes
        What was filled in, and what was said and changes nothing here.
    """

    model: Model
    decided: DecidedPlan
    mesh: Mesh
    stages: tuple[Stage, ...]
    schedule: ScheduleConfig
    training: Training
    configs: tuple[tuple[str, NodeConfig], ...]
    notes: tuple[str, ...]


class _Configs:
    """Configs that are being written."""

    def __init__(self) -> None:
        self.rows: dict[str, NodeConfig] = {}

    def say(self, selector: str, **fields: Any) -> None:
        self.rows[selector] = NodeConfig(**fields).over(self.rows.get(selector, NodeConfig()))


def write(given: Model, plan: Plan, num_devices: int | None = None) -> Recipe:
    """Carry a plan out on a model.

    Parameters
    ----------
    num_devices
        Devices that ``dp="fill"`` fills where the plan says no number; None are as few as it can do with.

    Raises
    ------
    StrategyError
        A degree that the model or the batch cannot carry, with the possible ones.
    """
    model = given if plan.seq is None or plan.seq == given.seq else given.with_seq(plan.seq)
    decided = _decided(model, plan)
    model = adapted(model, decided)
    _check_said(plan, decided)
    value = decided.value
    tp, pp, cp, ep = value("tp"), value("pp"), value("cp"), value("ep")
    notes: list[str] = []
    pad_vocab = value("pad_vocab")
    if pad_vocab is None and any(block.dims.get("vocab", 0) % tp for block in model.blocks):
        pad_vocab = VOCAB_MULTIPLE
    if pad_vocab:
        model, padded = padded_vocab(model, pad_vocab * tp)
        notes += padded
    check_tensor_degree(model, tp)
    check_context_degree(model, cp)
    heads, per_head = tensor_axes(model, tp)
    dp = value("dp")
    if dp == FILL:
        room = plan.num_devices if plan.num_devices is not None else num_devices
        dp = (
            fewest_replicas(model, ep, value("etp"), value("shard"), cp=cp, tp=heads, tq=per_head)
            if room is None
            else filled(room, tp=tp, pp=pp, cp=cp)
        )
    etp = check_expert_degrees(model, ep, value("etp"), dp=dp, cp=cp, tp=heads, tq=per_head)
    micro_batch = value("micro_batch")
    global_batch = value("global_batch") or micro_batch * dp * pp
    check_batch(global_batch, micro_batch, dp)
    schedule, virtual_stages = _pipeline(model, decided, pp)
    shard = value("shard")
    mesh = Mesh(mesh_axes(dp=dp, shard=shard, cp=cp, tp=heads, tq=per_head, ep=ep, etp=etp))
    ranks = placement(schedule, pp, virtual_stages)
    layers = value("layers_per_stage")
    if layers is None:
        layers = CUTS[value("pipeline_cut")](_num_layers(model), len(ranks))
    stages = tuple(
        Stage(blocks=blocks, rank=rank, mesh=mesh, first_device=rank * mesh.size)
        for blocks, rank in zip(split_chain(model, len(ranks), layers), ranks, strict=True)
    )
    framework = decided.framework
    element_bytes = precisions.kept_by(framework, value("precision")).grad_bytes
    decided = decided.with_values(
        dp=dp, etp=etp if num_experts(model) else None, global_batch=global_batch,
        schedule=schedule, virtual_stages=virtual_stages, layers_per_stage=layers,
    ).with_values(
        "framework", attention=framework.attention,
        bucket_bytes=value("bucket_bytes") or framework.bucket_size_bytes(element_bytes, dp * cp),
        overlap_tensor=framework.overlaps_tensor, overlap_experts=framework.overlaps_experts,
    ).with_values("model", seq=model.seq if model.seq > 1 else None)  # fmt: skip
    value = decided.value
    training = Training(
        micro_batch=micro_batch,
        global_batch=global_batch,
        precision=value("precision"),
        optimizer=value("optimizer"),
        bucket_bytes=value("bucket_bytes"),
        overlap_gradients=value("overlap_gradients"),
        overlap_parameters=value("overlap_parameters"),
        overlap_steps=value("overlap_steps"),
        framework=framework,
    )
    return Recipe(
        model=model,
        decided=decided,
        mesh=Mesh((("pp", pp), *mesh.axes)),
        stages=stages,
        schedule=ScheduleConfig(name=schedule, virtual_stages=virtual_stages, max_in_flight=value("max_in_flight")),
        training=training,
        configs=tuple(_configs(model, decided, mesh, stages).rows.items()),
        notes=(*notes, *_without_effect(plan, decided)),
    )


# -- what is decided ---------------------------------------------------------------


def _decided(model: Model, plan: Plan) -> DecidedPlan:
    """The plan filled in by the framework as it is for these facts; rules may depend on what its defaults say."""
    framework = framework_of(plan)
    first = decide(plan, framework)
    # a rule sees the framework's own defaults; as a fact they would hide what an earlier rule makes of them
    facts: dict[str, Any] = {"precision": first.value("precision"), "compile": plan.compile}
    facts["cuda_graphs"] = plan.cuda_graphs
    facts |= {"experts": num_experts(model) > 0, "lora": plan.lora is not None or model.lora is not None}
    if first.value("pp") > 1:
        facts["virtual_stages"] = plan.virtual_stages if isinstance(plan.virtual_stages, int) else None
    # what the text of a framework says of the run is the user's word
    framework = framework.given(**{**facts, **dict(framework.facts)})
    decided = decide(plan, framework)
    changes = {
        field: value
        for name, field in (
            ("attention", "attention"), ("overlap_tensor", "overlaps_tensor"), ("overlap_experts", "overlaps_experts"),
        )
        if (value := decided.value(name)) is not None
    }  # fmt: skip
    return DecidedPlan(dict(decided), framework.but(**changes)) if changes else decided


def framework_of(plan: Plan) -> Framework:
    """The framework that a plan names, or Proteus's default."""
    framework = plan.framework if plan.framework is not None else specs()["framework"].default
    return framework if isinstance(framework, Framework) else frameworks.load(framework)


def _pipeline(model: Model, decided: DecidedPlan, pp: int) -> tuple[str, int]:
    """(schedule, virtual stages); either one can imply the other."""
    schedule, virtual = str(decided.value("schedule")), decided.value("virtual_stages")
    if pp == 1 and decided["virtual_stages"].who != "you":
        virtual = None
    if virtual == MAX:
        virtual = max(1, _num_layers(model) // pp)
    if virtual is None:
        return schedule, INTERLEAVED_CHUNKS if SCHEDULES[schedule].shape == "loop" else 1
    return ("interleaved" if schedule == "1f1b" and virtual > 1 else schedule), int(virtual)


def _num_layers(model: Model) -> int:
    return sum(block.count for block in model.blocks if block.indexed) or model.num_blocks


def _check_said(plan: Plan, decided: DecidedPlan) -> None:
    """Refuse words that need another one to mean anything."""
    if plan.recompute_layers is not None and decided.value("recompute") not in ("selective", "full"):
        raise StrategyError(
            f"recompute_layers={plan.recompute_layers} says where to recompute, and recompute="
            f"{decided.value('recompute')} says not to; give recompute='full' or 'selective'"
        )
    if plan.shard is not None and not decided.value("zero"):
        raise StrategyError(f"shard={plan.shard} has no effect with zero=0; give zero=1, 2 or 3")
    if plan.num_devices is not None and decided.value("dp") != FILL:
        raise StrategyError(f"num_devices={plan.num_devices} is for dp='fill'; dp is {decided.value('dp')}")
    if plan.layers_per_stage is not None and plan.pipeline_cut is not None:
        raise StrategyError("layers_per_stage and pipeline_cut both split the layers; give one of them")


def _without_effect(plan: Plan, decided: DecidedPlan) -> Iterator[str]:
    """Words of the user that change nothing while a degree is 1."""
    for name, degree in (("sequence_parallel", "tp"), ("overlap_tensor", "tp"), ("context", "cp")):
        value = getattr(plan, name)
        if value not in (None, False, "none") and decided.value(degree) == 1:
            yield f"{name}={value} changes nothing: {degree} is 1"
    if plan.schedule == "1f1b" and decided.value("schedule") == "interleaved":
        yield f"schedule=1f1b with virtual_stages={plan.virtual_stages} is the interleaved schedule"
    if plan.pipeline_cut is not None and decided.value("pp") == 1:
        yield f"pipeline_cut={plan.pipeline_cut} changes nothing: pp is 1"


# -- what is trained -----------------------------------------------------------------


def adapted(model: Model, decided: DecidedPlan) -> Model:
    """The model with the requested adapters; unchanged if none are requested."""
    rank = decided.value("lora")
    if rank is not None:
        lora = Lora(
            rank=rank,
            targets=decided.value("lora_targets"),
            dropout=decided.value("lora_dropout"),
            base=decided.value("lora_base"),
        )
        return with_adapters(model, lora)
    for name in ("lora_targets", "lora_dropout", "lora_base"):
        if decided[name].who == "you" and decided.value(name) != specs()[name].default:
            raise StrategyError(f"{name} has no effect without lora; give the rank of the adapters")
    return model


def with_adapters(model: Model, lora: Lora) -> Model:
    """The model with these adapters; the same object for the same model, so that what was compiled is found again."""
    return _with_lora(ById(model), lora)


@lru_cache(maxsize=32)
def _with_lora(same: ById[Model], lora: Lora) -> Model:
    return same.value if same.value.lora == lora else with_lora(same.value, lora)


def padded_vocab(model: Model, multiple: int) -> tuple[Model, list[str]]:
    """The model with its vocabulary grown to a multiple, and what to say about it."""
    sizes = {block.dims["vocab"] for block in model.blocks if "vocab" in block.dims}
    if len(sizes) != 1:
        return model, []
    size = next(iter(sizes))
    grown = -(-size // multiple) * multiple
    if grown == size:
        return model, []
    return _resized(ById(model), grown), [f"vocabulary padded from {size} to {grown}"]


@lru_cache(maxsize=32)
def _resized(same: ById[Model], vocab: int) -> Model:
    return same.value.resized("vocab", vocab)


# -- configs --------------------------------------------------------------------------


def _configs(model: Model, decided: DecidedPlan, mesh: Mesh, stages: tuple[Stage, ...]) -> _Configs:
    value = decided.value
    configs = _Configs()
    partition = _partition(model, decided, mesh)
    zero, offload = ZERO_ROLES[value("zero")], set(value("offload"))
    state_axes = tuple(name for name in copy_axes(mesh) if name == "shard" or not value("shard"))
    memory = {
        role: Memory(axes=state_axes if role in zero else (), offload=role in offload)
        for role in TENSOR_ROLES
        if role in zero or role in offload
    }
    configs.say("", partition=partition, memory=memory or None, recompute="none")
    _freeze(configs, model, value("freeze"))
    _recompute(configs, model, decided, stages)
    axes = mesh.names
    if value("sequence_parallel") and value("tp") > 1:
        _shard_sequence(configs, model, axes, partition)
    if value("cp") > 1:
        for selector in _attention_cores(model):
            if value("context") == "ring":
                configs.say(selector, exchange="ring")
            elif value("context") == "all_to_all":
                heads = (*named(axes, "cp"), *partition.get("kv_heads", ()))
                configs.say(selector, partition={"seq": (), "kv_heads": heads})
    return configs


def _partition(model: Model, decided: DecidedPlan, mesh: Mesh) -> dict[str, tuple[str, ...]]:
    """What the root says: which axes cut which dims of every op."""
    axes, dims = mesh.names, _dims(model)
    partition: dict[str, tuple[str, ...]] = {"batch": named(axes, "dp")}
    if named(axes, "cp") and "seq" in dims:
        partition["seq"] = named(axes, "cp")
    tp = decided.value("tp")
    if tp > 1:
        _, per_head = tensor_axes(model, tp)
        tensor = named(axes, "tp", "tq")
        for dim in TENSOR_DIMS:
            if dim in dims:
                partition[dim] = named(axes, "tp") if dim == "kv_heads" and per_head > 1 else tensor
        if per_head > 1:
            partition["q_per_kv"] = named(axes, "tq")
    if EXPERT_DIM in dims:
        partition.pop(EXPERT_DIM, None)
        if (decided.value("etp") or 1) > 1:
            partition[EXPERT_DIM] = among_experts(axes, "tensor")
    if decided.value("ep") > 1:
        partition["experts"] = among_experts(axes, "expert")
    return partition


def _freeze(configs: _Configs, model: Model, selectors: tuple[str, ...]) -> None:
    if model.lora is not None:
        configs.say("", frozen=True)
        for block in model.blocks if model.lora.base == "nf4" else ():
            if block.indexed:  # never the embedding or the head
                configs.say(block.name, frozen="nf4")
        for selector in _adapters(model):
            configs.say(selector, frozen=False)
    for selector in selectors:
        with context("freeze"):
            check_selector(selector, model)
        configs.say(selector, frozen=True)


def _recompute(configs: _Configs, model: Model, decided: DecidedPlan, stages: tuple[Stage, ...]) -> None:
    recompute, layers = decided.value("recompute"), decided.value("recompute_layers")
    if recompute in ("selective", "full"):
        if layers is None:
            for block in model.blocks:
                if block.indexed:  # frameworks checkpoint layers, never the embedding or the loss
                    configs.say(block.name, recompute=recompute)
        else:
            for block, copies in _first_copies(model, stages, layers):
                first, last = block.first + copies[0], block.first + copies[-1]
                configs.say(f"{block.name}.{first}-{last}", recompute=recompute)
    kinds = {kind for module in decided.value("recompute_modules") for kind in _MODULES[module]}
    if recompute == "op":
        kinds |= {kind for row in _MODULES.values() for kind in row}
    for selector, _ in _ops_of_layers(model, lambda op: op.kind in kinds):
        configs.say(selector, recompute="full")
    if recompute == "op":
        _recompute_second_gemms(configs, model)


def _recompute_second_gemms(configs: _Configs, model: Model) -> None:
    """Every second GEMM of a layer runs again, as in torchtitan's selective per-op checkpointing.

    The GEMMs of a layer are fewer here (query, key and value are one), so the
    projections run again in every layer and the wide GEMM before the
    activation in every second: the same share of the FLOP.
    """
    for block in model.blocks:
        attended = {out.tensor for op in block.ops if op.kind is OpKind.ATTENTION for out in op.outputs}
        for op in block.ops:
            is_gemm = op.kind is OpKind.LINEAR and RANK not in op.dims
            if block.indexed and is_gemm and op.inputs[0].tensor in attended:
                configs.say(_selector(block, op), recompute="full")
    for block in model.blocks:
        last = block.count // ALTERNATE - 1
        active = {item.tensor for op in block.ops if op.kind is OpKind.ACTIVATION for item in op.inputs}
        if block.indexed and last >= 0:
            for op in block.ops:
                feeds = op.kind is OpKind.LINEAR and any(out.tensor in active for out in op.outputs)
                if feeds or op.name.endswith((".gate_up", ".fc1")):  # adapters stand between the two
                    first = block.first
                    configs.say(f"{block.name}.{first}-{first + last}.{op.name}", recompute="full")


def _shard_sequence(
    configs: _Configs, model: Model, axes: tuple[str, ...], partition: dict[str, tuple[str, ...]]
) -> None:
    tensor = named(axes, "tp", "tq")
    sequence = {"seq": (*named(axes, "cp"), *tensor)}
    # tokens that tensor ranks share are sent to the experts that these ranks share
    to_experts = {**sequence, "experts": ()} if set(tensor) & set(partition.get("experts", ())) else sequence
    for selector, op in _sequence_parallel_ops(model):
        configs.say(selector, partition=to_experts if "experts" in op.dims else sequence)


# -- ops of a model -------------------------------------------------------------------


def _dims(model: Model) -> set[str]:
    return {dim for block in model.blocks for op in block.ops for dim in op.dims}


def _selector(block: Block, op: Op) -> str:
    return f"{block.name}.*.{op.name}" if block.indexed else f"{block.name}.{op.name}"


def _ops_of_layers(model: Model, wanted: Callable[[Op], bool]) -> list[tuple[str, Op]]:
    return [(_selector(block, op), op) for block in model.blocks if block.indexed for op in block.ops if wanted(op)]


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


def _adapters(model: Model) -> list[str]:
    """Selectors of the ops that hold the parameters of adapters."""
    return [
        _selector(block, op)
        for block in model.blocks
        for op in block.ops
        if op.name.rpartition(".")[2] in TRAINED and RANK in op.dims
    ]


def _first_copies(model: Model, stages: tuple[Stage, ...], first: int) -> list[tuple[Block, range]]:
    """The first copies of every block in every stage."""
    copies = []
    at = 0
    for block in model.blocks:
        for stage in stages:
            lo, hi = max(stage.blocks[0] - at, 0), min(stage.blocks[1] - at, block.count)
            if block.indexed and lo < hi:
                copies.append((block, range(lo, min(lo + first, hi))))
        at += block.count
    return copies
