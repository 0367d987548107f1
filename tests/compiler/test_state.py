"""Memory configs and gradient layouts give the collectives of data parallelism."""

from __future__ import annotations

import pytest

import proteus as pt
from proteus.compiler.chain import Link, chain
from proteus.compiler.compile import compile_tree
from proteus.compiler.state import copy_moves, reduction_steps, states
from proteus.errors import StrategyError
from proteus.strategy import Memory, StrategyTree

LLAMA = pt.models.load("tiny-llama", layers=1, seq=8)
GPT = pt.models.load("tiny-gpt", layers=1, seq=8)


def layer(tree: StrategyTree) -> Link:
    (chunk,) = chain(tree, element_bytes=2.0, fused_attention=True)
    return chunk.links[1]


@pytest.mark.parametrize(
    ("zero", "gathered", "reduced", "updated"),
    [(0, [], [], ()), (1, [], [], ("dp",)), (2, [], ["reduce_scatter"], ("dp",)),
     (3, ["all_gather"], ["reduce_scatter"], ())],
)  # fmt: skip
def test_zero(zero: int, gathered: list[str], reduced: list[str], updated: tuple[str, ...]) -> None:
    link = layer(pt.StrategyTree(LLAMA).parallelize(dp=4, zero=zero))
    assert [m.kind for m, _ in copy_moves(link, has_gathers=True, has_reductions=False)] == gathered
    assert [m.kind for m, _ in copy_moves(link, has_gathers=False, has_reductions=True)] == reduced
    assert {s.updated_axes for s in states(link)} == {updated}


def test_large_parameters_are_gathered_apart() -> None:
    link = layer(pt.StrategyTree(pt.models.load("llama2-7b", layers=1)).parallelize(dp=8, zero=3))
    ((whole, numel),) = copy_moves(link, has_gathers=True, has_reductions=False)
    moves = copy_moves(link, has_gathers=True, has_reductions=False, apart=True)
    names = [[item[3].parameter.name for item in move.items] for move, _ in moves]
    assert all(len(each) == 1 for each in names[:-1])
    assert names[-1] == ["attention.norm.weight", "mlp.norm.weight"]
    assert sum(of for _, of in moves) == numel
    assert sorted(name for each in names for name in each) == sorted(item[3].parameter.name for item in whole.items)


def test_gathers_apart_wait_for_their_block() -> None:
    tree = pt.StrategyTree(pt.models.load("llama2-7b", layers=4)).parallelize(dp=8, zero=3, global_batch=8)
    ahead, apart = (
        pt.simulate(tree.with_training(framework=f"deepspeed, prefetches={text}"), pt.clusters.load("dgx-a100"))
        for text in ("true", "false")
    )
    assert apart.exposed_comm_s["parameter"] > 2 * ahead.exposed_comm_s["parameter"]
    assert apart.step_time_s > ahead.step_time_s


def test_gathers_after_the_gradients_of_the_block_after() -> None:
    """BACKWARD_POST: every gather of the backward but the first stands alone, those of the forward hide."""
    tree = pt.StrategyTree(pt.models.load("llama2-7b", layers=8)).parallelize(dp=8, zero=3, micro_batch=2)
    before, after = (
        pt.simulate(tree.with_training(framework=f"fsdp, prefetches_backward={text}"), pt.clusters.load("dgx-a100"))
        for text in ("true", "false")
    )
    assert after.exposed_comm_s["parameter"] > 2 * before.exposed_comm_s["parameter"]


def test_hybrid_shard() -> None:
    """Cut over some of the data axes: scattered over those, the rest summed."""
    assert reduction_steps(("dp", "cp"), ("cp",)) == (("reduce_scatter", ("cp",)), ("all_reduce", ("dp",)))
    tree = pt.StrategyTree(LLAMA).parallelize(dp=2, cp=2)
    kept = {role: Memory(("cp",)) for role in ("parameter", "gradient", "optimizer")}
    moves = copy_moves(layer(tree.set("", memory=kept)), has_gathers=False, has_reductions=True)
    assert [(m.kind, m.axes) for m, _ in moves] == [("reduce_scatter", ("cp",)), ("all_reduce", ("dp",))]
    whole = LLAMA.blocks[1].num_params()
    assert [numel for _, numel in moves] == [whole, whole / 2]


def test_gradients_of_norms_are_partial_under_sequence_parallelism() -> None:
    axes_of_parameter = {s.parameter.name: s.tensor_axes for s in states(layer(
        pt.StrategyTree(LLAMA).parallelize(tp=2, sequence_parallel=True)
    ))}  # fmt: skip
    assert {name for name, axes in axes_of_parameter.items() if axes == ("tp",)} == {
        "attention.norm.weight",
        "mlp.norm.weight",
    }


def test_a_cut_gradient_needs_a_cut_optimizer() -> None:
    tree = pt.StrategyTree(LLAMA).parallelize(dp=2).set("layers", memory={"gradient": Memory(("dp",))})
    with pytest.raises(StrategyError, match="gradient is kept cut over 'dp', its optimizer state is not"):
        compile_tree(tree, pt.clusters.load("dgx-a100"))


@pytest.mark.parametrize("what", ["partition", "memory"])
def test_tied_parameters_lie_alike(what: str) -> None:
    tree = pt.StrategyTree(GPT).parallelize(dp=2, tp=2)
    if what == "partition":
        tree = tree.set("head", partition={"vocab": ()})
    else:
        tree = tree.set("head", memory={"optimizer": Memory(("dp",))})
    with pytest.raises(StrategyError, match=rf"head.weight is tied to embedding.word.weight, but their {what} differs"):
        compile_tree(tree, pt.clusters.load("dgx-a100"))


def test_a_tied_parameter_is_reduced_once() -> None:
    """On one pipeline rank its two gradients are one; the buckets hold every parameter once."""
    tree = pt.StrategyTree(GPT).parallelize(dp=2, precision="fp32")
    graph = compile_tree(tree, pt.clusters.load("dgx-a100"))
    (plan,) = graph.plans
    moved = sum(state.numel for move in plan.moves.values() for *_, state in move.items)
    assert moved == GPT.num_params
