"""Random strategies of tiny models: any mesh, any partition of any node, any memory config."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from hypothesis import strategies as st

from proteus.mesh import Mesh
from proteus.model import zoo
from proteus.model.graph import Lora, Model, Op, Role
from proteus.model.lora import with_lora
from proteus.strategy import Memory, StrategyTree
from proteus.strategy.config import RECOMPUTES, Stage
from proteus.strategy.schedule import SCHEDULES, placement

_SMALL = {"layers": 2, "seq": 4, "hidden": 12, "heads": 4, "ffn": 10, "vocab": 11, "head_dim": 4}
_LATENT = {"q_rank": 5, "kv_rank": 6, "nope_dim": 4, "rope_dim": 2, "v_dim": 3}
#: models with sizes that most degrees do not divide
MODELS = {
    "llama": ("tiny-llama", _SMALL | {"kv_heads": 2, "qk_norm": True}),
    "gpt": ("tiny-gpt", _SMALL | {"dropout": 0.2, "attention_dropout": 0.2, "positions": 5}),
    "mla": ("tiny-llama", _SMALL | {"kv_heads": 4, "latent": _LATENT, "parallel_residual": True, "activation": "gelu"}),
    "bert": ("tiny-gpt", _SMALL | {"norm_first": False, "causal": False, "token_types": 2, "head": "pretraining"}),
    "masked": ("tiny-gpt", _SMALL | {"norm_first": False, "causal": False, "head": "mlm", "predictions": 3}),
    "vit": ("tiny-gpt", {k: v for k, v in _SMALL.items() if k != "seq"} | {"patches": {"image": 4, "patch": 2}}
            | {"seq": 5, "positions": 5, "head": "classifier", "tied": False}),
    "moe": ("tiny-moe", _SMALL | {"kv_heads": 2, "experts": {
        "num": 4, "topk": 2, "ffn": 6, "dropless": True, "shared_ffn": 5, "dense_layers": 1}}),
    "capacity": ("tiny-moe", _SMALL | {"kv_heads": 2, "experts": {
        "num": 4, "topk": 2, "ffn": 6, "dropless": False, "capacity_factor": 0.9}}),
    "cnn": ("tiny-cnn", {}),
    "dlrm": ("tiny-dlrm", {"tables": 5, "rows": 7, "embedding_dim": 6, "bottom": [4, 8, 6], "top": [6, 3]}),
}  # fmt: skip
#: and models of them with adapters
ADAPTED = {
    "lora": ("moe", Lora(rank=3)),
    "lora-gpt": ("gpt", Lora(rank=2, targets=("attention.qkv.q", "attention.proj", "mlp"), dropout=0.2)),
}
_SHAPES = [(2,), (3,), (4,), (2, 2), (2, 3), (3, 2), (2, 2, 2), (4, 2), (5,), (6,), (8,)]
_MAX_RANKS = 8


@cache
def model(name: str) -> Model:
    if name in ADAPTED:
        base, lora = ADAPTED[name]
        return with_lora(model(base), lora)
    base, changes = MODELS[name]
    return zoo.load(base, **changes)


@st.composite
def meshes(draw: st.DrawFn, maximum: int) -> Mesh:
    shape = draw(st.sampled_from([s for s in _SHAPES if _product(s) <= maximum]))
    return Mesh(tuple(zip("xyz", shape)))


@st.composite
def trees(draw: st.DrawFn, name: str) -> StrategyTree:
    """A strategy of the model `name`; some contradict themselves and are refused when compiled."""
    chosen = model(name)
    tree, batch_axes = draw(_pipelines(chosen))
    data = {"batch": batch_axes} if batch_axes or draw(st.booleans()) else {}
    tree = tree.edit("", partition=data, memory=draw(_memories(tree)), recompute=draw(st.sampled_from(RECOMPUTES)))
    for _ in range(draw(st.integers(0, 5))):
        selector, ops = draw(_nodes(chosen))
        tree = draw(_configured(tree, selector, ops))
    for selector, _ in draw(st.lists(_nodes(chosen), max_size=2)):
        tree = tree.edit(selector, recompute=draw(st.sampled_from(RECOMPUTES)))
    if draw(st.integers(0, 2)) == 0:
        tree = tree.edit("", frozen=draw(st.booleans()))
        for selector, _ in draw(st.lists(_nodes(chosen), min_size=1, max_size=3)):
            tree = tree.edit(selector, frozen=draw(st.booleans()))
    return tree


@st.composite
def _pipelines(draw: st.DrawFn, chosen: Model) -> tuple[StrategyTree, tuple[str, ...]]:
    """Stages, their meshes (of different degree now and then), schedule and batch sizes."""
    schedule = draw(st.sampled_from(sorted(SCHEDULES)))
    pp = draw(st.sampled_from([1, 1, 2, 2, 3])) if SCHEDULES[schedule].shape == "line" else draw(st.integers(1, 2))
    ranks = placement(schedule, pp, 2 if SCHEDULES[schedule].shape == "loop" else 1)
    if len(ranks) > chosen.num_blocks:
        schedule, pp, ranks = "1f1b", 1, (0,)
    edges = [0, *sorted(draw(_cuts(chosen.num_blocks, len(ranks) - 1))), chosen.num_blocks]
    same = draw(meshes(_MAX_RANKS // pp))
    differ = draw(st.booleans()) and not any(p.tied_to for b in chosen.blocks for p in b.parameters())
    per_rank = [draw(meshes(_MAX_RANKS // pp)) if differ else same for _ in range(pp)]
    first = [sum(mesh.size for mesh in per_rank[:rank]) for rank in range(pp)]
    stages = tuple(
        Stage(blocks=(a, b), rank=rank, mesh=per_rank[rank], first_device=first[rank])
        for a, b, rank in zip(edges, edges[1:], ranks)
    )
    names = {mesh.names for mesh in per_rank}
    common = [axis for axis in "xyz" if all(axis in axes for axes in names)]
    batch_axes = tuple(axis for axis in common if draw(st.booleans()))
    micro = draw(st.integers(1, 3))
    num_micro = 2 * pp * draw(st.integers(1, 1)) if schedule in ("interleaved", "dualpipe") else draw(st.integers(1, 3))
    samples = micro * stages[0].mesh.degree(batch_axes)
    tree = StrategyTree(chosen).with_mesh(Mesh((("pp", pp), *same.axes)), stages)
    tree = tree.with_schedule(name=schedule, virtual_stages=len(ranks) // pp)
    tree = tree.with_training(
        micro_batch=micro,
        global_batch=samples * num_micro,
        optimizer=draw(st.sampled_from(["sgd", "adam"])),
        bucket_bytes=draw(st.sampled_from([1.0, 500.0, 1e9])),
        overlap_gradients=draw(st.booleans()),
        overlap_parameters=draw(st.booleans()),
    )
    return tree, batch_axes


@st.composite
def _cuts(draw: st.DrawFn, num_blocks: int, count: int) -> Sequence[int]:
    return draw(st.lists(st.integers(1, num_blocks - 1), min_size=count, max_size=count, unique=True)) if count else []


def _axes_of(tree: StrategyTree) -> list[str]:
    return sorted({axis for stage in tree.stages for axis in stage.mesh.names})


@st.composite
def _memories(draw: st.DrawFn, tree: StrategyTree) -> dict[str, Memory] | None:
    """Nested cuts: what keeps a gradient cut keeps the optimizer state cut too."""
    axes = _axes_of(tree)
    optimizer = tuple(axis for axis in axes if draw(st.booleans()))
    gradient = tuple(axis for axis in optimizer if draw(st.booleans()))
    parameter = tuple(axis for axis in axes if draw(st.integers(0, 2)) == 0)
    host = {role: draw(st.integers(0, 7)) == 0 for role in ("optimizer", "parameter", "activation")}
    return {
        "optimizer": Memory(optimizer, offload=host["optimizer"]),
        "gradient": Memory(gradient),
        "parameter": Memory(parameter, offload=host["parameter"]),
        "activation": Memory(offload=host["activation"]),
    }


@st.composite
def _nodes(draw: st.DrawFn, chosen: Model) -> tuple[str, list[Op]]:
    """A node of the tree: an op, a module or a block, in one copy or in all."""
    block = draw(st.sampled_from(chosen.blocks))
    head = block.name
    if block.indexed:
        copy = draw(st.sampled_from(["*", *(str(block.first + i) for i in range(block.count))]))
        head = f"{head}.{copy}"
    op = draw(st.sampled_from(block.ops))
    steps = op.name.split(".")
    steps = steps[: draw(st.integers(0, len(steps)))]
    selector = ".".join([head, *steps])
    # what an op needs whole, nothing may cut by its name, whatever stands below it
    own = [o for o in block.ops if o.name == ".".join(steps)]
    return selector, own or [o for o in block.ops if o.name.split(".")[: len(steps)] == steps]


@st.composite
def _configured(draw: st.DrawFn, tree: StrategyTree, selector: str, ops: list[Op]) -> StrategyTree:
    dims = sorted({dim for op in ops for dim, d in op.dims.items() if d.role is not Role.INDIVISIBLE})
    if not dims:
        return tree
    partition: dict[str, tuple[str, ...]] = {}
    for axis in _axes_of(tree):
        dim = draw(st.sampled_from([None, *dims]))
        if dim is not None:
            partition[dim] = (*partition.get(dim, ()), axis)
    if not partition:
        partition = {draw(st.sampled_from(dims)): ()}
    memory = draw(st.none() | _memories(tree))
    return tree.edit(selector, partition=partition, memory=memory)


def _product(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
