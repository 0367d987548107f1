"""Framework behaviour in the graph."""

from __future__ import annotations

import pytest

import proteus as pt
from proteus.compiler.compile import compile_tree
from proteus.compiler.graph import Transfer
from proteus.costs.collective_types import GroupShape
from proteus.costs.overlap import CommClass, ComputeClass, slowdowns

MOE = pt.StrategyTree(pt.models.load("tiny-moe"))
EIGHT = pt.clusters.load("dgx-h100")


def step_s(framework: str, **changes: object) -> float:
    recipe = {"dp": 4, "ep": 4, "global_batch": 16, "micro_batch": 1, "precision": "bf16", **changes}
    return pt.simulate(MOE.parallelize(**recipe, framework=framework), EIGHT).step_time_s


def test_a_host_that_reads_the_routing_cannot_launch_ahead() -> None:
    assert step_s("nemo") > step_s("nemo, host_waits_for_routing=false") > 0
    graphed = "nemo, cuda_graphs=true, host_waits_for_routing="
    assert step_s(graphed + "true") == pytest.approx(step_s(graphed + "false"))  # a host without work holds nobody


def test_groups_with_biases_are_slow_in_sixteen_bits() -> None:
    as_fast, slow = "nemo, cuda_graphs=true", "nemo, cuda_graphs=true, biased_products=2"
    assert step_s(slow) == step_s(as_fast)
    biased = pt.StrategyTree(pt.models.load("tiny-moe", mlp_bias=True))
    recipe = {"dp": 4, "ep": 4, "global_batch": 16, "micro_batch": 1}

    def with_biases_s(framework: str, precision: str) -> float:
        return pt.simulate(biased.parallelize(**recipe, framework=framework, precision=precision), EIGHT).step_time_s

    assert with_biases_s(slow, "bf16") > with_biases_s(as_fast, "bf16")
    assert with_biases_s(slow, "fp8") == with_biases_s(as_fast, "fp8")


def test_merged_tokens_are_sent_once() -> None:
    assert step_s("nemo, cuda_graphs=true") < step_s("nemo, cuda_graphs=true, merges_tokens=false")


@pytest.mark.parametrize(("global_batch", "alone"), [(4, 1.0), (16, 1 / 4)])
def test_experts_beside_another_micro_batch_cost_what_they_slow_it(global_batch: int, alone: float) -> None:
    def exposed_s(overlaps: str) -> float:
        recipe = {"dp": 4, "ep": 4, "global_batch": global_batch, "micro_batch": 1, "precision": "bf16"}
        tree = MOE.parallelize(**recipe, framework=f"nemo, cuda_graphs=true, overlaps_experts={overlaps}")
        return pt.simulate(tree, EIGHT).exposed_comm_s["expert"]

    compute, _ = slowdowns(EIGHT.gpu())
    slower = float(compute[ComputeClass.GEMM, CommClass.INTRA])
    expected = alone + (1.0 - alone) * slower  # the first forward and the last backward have no other
    assert exposed_s("true") / exposed_s("false") == pytest.approx(expected, rel=1e-3)


def test_chunks_beside_products_hide_all_but_one() -> None:
    recipe = {"tp": 8, "sequence_parallel": True, "global_batch": 1, "precision": "bf16"}
    llama = pt.StrategyTree(pt.models.load("llama3-8b"))

    def exposed_s(overlaps: str) -> float:
        tree = llama.parallelize(**recipe, framework=f"torchtitan, compile=true, overlaps_tensor={overlaps}")
        return pt.simulate(tree, EIGHT).exposed_comm_s["tensor"]

    none, scatters, forward, every = map(exposed_s, ("none", "forward_scatters", "forward", "all"))
    # 2 gathers and 2 scatters per layer forward; backward as many, and 2 gathers again for the weights: 7/8 of 4 in 10
    assert 1.0 - forward / none == pytest.approx(7 / 8 * 4 / 10, abs=0.03)
    assert 1.0 - scatters / none == pytest.approx(7 / 8 * 2 / 10, abs=0.02)
    assert every < 0.25 * none  # latencies and the loss stay


def test_what_is_quantised_before_it_is_gathered_is_gathered_as_bytes() -> None:
    recipe = {"tp": 8, "sequence_parallel": True, "micro_batch": 8, "global_batch": 8}
    llama = pt.StrategyTree(pt.models.load("llama3-8b"))

    def exposed_s(precision: str, framework: str) -> float:
        tree = llama.parallelize(**recipe, precision=precision, framework=framework)
        return pt.simulate(tree, EIGHT).exposed_comm_s["tensor"]

    before, after = (
        exposed_s("fp8", "torchtitan, compile=true"),
        exposed_s("fp8", "torchtitan, compile=true, gathers_quantised=false"),
    )
    # per layer 2 gathers and 2 scatters forward, as many backward and 2 gathers again: half of 6 in 10 is saved
    assert 1.0 - before / after == pytest.approx(6 / 10 / 2, abs=0.03)
    for precision in ("bf16", "fp8-rowwise"):
        assert exposed_s(precision, "torchtitan, compile=true") == exposed_s(
            precision, "torchtitan, compile=true, gathers_quantised=false"
        )


@pytest.mark.parametrize(
    ("ranks", "hosts", "copies", "share"),
    [(8, 1, 1, 1.0), (8, 1, 0, 1.0), (2, 1, 2, 0.75), (16, 2, 2, 0.75), (2, 1, 1000, 2 / 1000)],
)
def test_what_is_left_of_merged_tokens(ranks: int, hosts: int, copies: int, share: float) -> None:
    # two ranks, two experts of a token: both on one rank half of the time, so 3 of 4 copies are left
    shape = GroupShape(
        num_ranks=ranks, num_hosts=hosts, ranks_per_host=ranks // hosts, intra="nvlink4", inter="ib", rings=1,
        local_rings=1, rails=1, is_regular=True, nvls=False, limits=(),
    )  # fmt: skip
    assert shape.merged_share(copies) == pytest.approx(share)


def test_tensor_ranks_send_a_part_each_and_gather_it() -> None:
    tree = pt.StrategyTree(pt.models.load("tiny-llama"))
    cluster = pt.clusters.load("dgx-a100")

    def transfers(framework: str, **more: object) -> list[Transfer]:
        cut = tree.parallelize(pp=2, tp=2, global_batch=3, framework=framework, **more)
        return list(compile_tree(cut, cluster).transfers)

    whole, parts = transfers("megatron-lm@2, splits_transfers=false"), transfers("megatron-lm@2")
    assert [2 * t.size_bytes for t in parts] == [t.size_bytes for t in whole]
    # sequence parallelism leaves nothing that ranks hold in common
    same = (transfers(p, sequence_parallel=True) for p in ("megatron-lm@2, splits_transfers=false", "megatron-lm@2"))
    assert len({tuple(t.size_bytes for t in found) for found in same}) == 1


def test_what_came_in_parts_is_gathered_before_it_is_used() -> None:
    tree = pt.StrategyTree(pt.models.load("tiny-llama")).parallelize(
        pp=2, tp=2, global_batch=3, framework="megatron-lm@2"
    )
    graph = compile_tree(tree, pt.clusters.load("dgx-a100"))
    alone = compile_tree(tree.parallelize(pp=2, tp=1, global_batch=3), pt.clusters.load("dgx-a100"))
    first, alone_first = graph.transfers[0].tasks[0], alone.transfers[0].tasks[0]
    assert graph.tasks.latency_s[first] > alone.tasks.latency_s[alone_first]
