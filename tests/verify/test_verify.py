"""Compiled strategies, run with real numbers, train like the undivided model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.control import assume

import proteus as pt
from proteus.cluster import clusters
from proteus.compiler import state
from proteus.errors import ModelError, StrategyError
from proteus.strategy import StrategyTree
from proteus.strategy.schedule import SCHEDULES
from proteus.verify import verify
from tests.verify.random_trees import ADAPTED, MODELS, model, trees

CLUSTER = clusters.load("dgx-a100", nodes=2)
SMALL = {"layers": 2, "seq": 8}
#: distinct strategies that the property test below has carried out
CARRIED_OUT: set[str] = set()
#: of each model: 560 strategies in two to three minutes, ten times as many with PROTEUS_HYPOTHESIS=more
EXAMPLES = settings().max_examples * 7 // 10
#: what the property test must have carried out when all its models ran
LEAST = 500


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny tensors: threads only cost time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def check(tree: StrategyTree) -> None:
    found = verify(tree, CLUSTER)
    assert found.equal, f"{tree}\n{found}"


@pytest.mark.parametrize("name", sorted({**MODELS, **ADAPTED}))
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_any_strategy(name: str, data: st.DataObject) -> None:
    """Random meshes, partitions of any nodes, memory configs, recomputation, schedules."""
    tree = data.draw(trees(name))
    try:
        found = verify(tree, CLUSTER)
    except StrategyError:  # it contradicts itself
        assume(False)
        raise
    assert found.equal, f"{tree}\n{found}"
    CARRIED_OUT.add(f"{name} {tree} {tree.stages} {tree.training}")


@pytest.mark.parametrize("recipe", [{"dp": 2, "ep": 2}, {"tp": 2, "etp": 2, "sequence_parallel": True}])
def test_biases_of_experts(recipe: dict[str, object]) -> None:
    check(StrategyTree(pt.models.load("tiny-moe", mlp_bias=True, **SMALL)).parallelize(**recipe))


@pytest.mark.parametrize("recipe", [{"tp": 2}, {"cp": 2}])
def test_documents_that_do_not_attend_to_each_other(recipe: dict[str, int]) -> None:
    check(StrategyTree(pt.models.load("tiny-llama", document=3, **SMALL)).parallelize(**recipe))


def test_enough_strategies_were_distinct() -> None:
    if len({text.split()[0] for text in CARRIED_OUT}) < len(MODELS):
        pytest.skip("counts the strategies of the test before, which did not run for every model")
    assert len(CARRIED_OUT) >= LEAST


@settings(max_examples=EXAMPLES // 2)
@given(data=st.data())
def test_any_recipe(data: st.DataObject) -> None:
    """What `parallelize` writes."""
    name = data.draw(st.sampled_from(["llama", "gpt", "moe", "capacity"]))
    schedule = data.draw(st.sampled_from(sorted(SCHEDULES)))
    line = SCHEDULES[schedule].shape == "line"
    pp = data.draw(st.integers(1, 2))
    dp, tp = data.draw(st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4)]))
    has_experts = name in ("moe", "capacity")
    ep = data.draw(st.sampled_from([1, 2, 4])) if has_experts else 1
    etp = data.draw(st.sampled_from([None, 1, 2])) if has_experts else None
    cp = data.draw(st.sampled_from([1, 2])) if pp * dp * tp <= 4 else 1
    try:
        tree = StrategyTree(model(name)).parallelize(
            dp=dp,
            tp=tp,
            pp=pp,
            cp=cp,
            ep=ep,
            etp=etp,
            schedule=schedule,
            virtual_stages=2 if SCHEDULES[schedule].shape == "loop" else 1,
            global_batch=dp * pp * data.draw(st.integers(1, 2)) * (1 if line else 2),
            zero=data.draw(st.integers(0, 3)),
            sequence_parallel=data.draw(st.booleans()),
            context=data.draw(st.sampled_from(["all_gather", "all_to_all"])),
            recompute=data.draw(st.sampled_from(["none", "selective", "full"])),
            optimizer=data.draw(st.sampled_from(["sgd", "adam"])),
            offload=data.draw(st.sets(st.sampled_from(["optimizer", "parameter", "activation"]), max_size=1)),
            lora=data.draw(st.sampled_from([None, None, 3])),
        )
        found = verify(tree, CLUSTER)
    except StrategyError:  # more heads or stages than the small model has
        assume(False)
        raise
    assert found.equal, f"{tree}\n{found}"


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("zero", [0, 3])
@pytest.mark.parametrize(
    "degrees",
    [
        {"tp": 2, "etp": 1},  # every tensor rank holds all experts, for its own tokens
        {"tp": 2, "etp": 1, "ep": 2},
        {"tp": 2, "etp": 2, "dp": 2, "ep": 2},
        {"tp": 4, "etp": 2, "ep": 2},
        {"tp": 4, "etp": 1, "ep": 2},  # one tensor axis, in two parts among the experts
        {"dp": 2, "tp": 2, "etp": 1, "ep": 4},
        {"dp": 2, "cp": 2, "ep": 4},
        {"dp": 2, "cp": 2, "ep": 2, "etp": 1},
        {"cp": 2, "tp": 2, "etp": 4},
        {"dp": 2, "etp": 2},
    ],
    ids=str,
)
def test_experts_divide_the_devices_anew(degrees: dict[str, int], zero: int, sequence_parallel: bool) -> None:
    tree = StrategyTree(pt.models.load("tiny-moe", layers=1, seq=8)).parallelize(
        **degrees, global_batch=4, zero=zero, sequence_parallel=sequence_parallel
    )
    check(tree)


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.5])
@pytest.mark.parametrize(
    "degrees",
    [
        {"dp": 2, "ep": 2, "micro_batch": 2},
        {"dp": 2, "tp": 2, "ep": 2, "sequence_parallel": True, "recompute": "full"},
        {"cp": 2, "tp": 2, "etp": 1, "ep": 4, "sequence_parallel": True},
        {"tp": 2, "etp": 1, "ep": 2, "pp": 2, "zero": 1},
    ],
    ids=str,
)
def test_tokens_beyond_the_capacity_are_dropped(degrees: dict[str, int], factor: float) -> None:
    """Every rank drops the tokens of its own that an expert has no slot for, those with the smallest gates."""
    experts = {"num": 4, "topk": 2, "ffn": 6, "dropless": False, "capacity_factor": factor}
    model = pt.models.load("tiny-moe", layers=2, seq=8, experts=experts)
    tree = StrategyTree(model).parallelize(**degrees, global_batch=8)
    check(tree)


def test_another_group_of_tokens_drops_others() -> None:
    """The check sees which tokens are dropped: a reference that fills experts from the whole batch differs."""
    from proteus.compiler.compile import compile_tree
    from proteus.htae.engine import play
    from proteus.verify.executor import Executor
    from proteus.verify.problem import TokenGroup, make_problem
    from proteus.verify.reference import undivided
    from proteus.verify.verification import compare, token_groups

    model = pt.models.load("tiny-moe", layers=1, seq=8, experts={"num": 4, "topk": 2, "ffn": 6, "dropless": False})
    tree = StrategyTree(model).parallelize(dp=2, ep=2, global_batch=2)
    graph = compile_tree(tree, CLUSTER, fold=False)
    problem = make_problem(model, 2, 0)
    executor = Executor(graph, play(graph.tasks), problem)
    executor.run()
    own = token_groups(graph)["layers.0"]
    assert own == [
        TokenGroup(samples=(0, 1), positions=(0, 8), capacity=4),
        TokenGroup(samples=(1, 2), positions=(0, 8), capacity=4),
    ]
    assert compare(executor, undivided(problem, "adam", {"layers.0": own})).equal
    together = [TokenGroup(samples=(0, 2), positions=(0, 8), capacity=8)]
    assert not compare(executor, undivided(problem, "adam", {"layers.0": together})).equal


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_llama_in_three_dimensions(zero: int, recompute: str) -> None:
    tree = StrategyTree(pt.models.load("tiny-llama", **SMALL)).parallelize(
        dp=2, tp=2, pp=2, global_batch=8, zero=zero, recompute=recompute, sequence_parallel=True
    )
    check(tree)


@pytest.mark.parametrize("recompute", ["selective", "full"])
@pytest.mark.parametrize("name", ["tiny-llama", "tiny-gpt", "tiny-moe", "tiny-cnn"])
def test_recomputation_that_stops_early(name: str, recompute: str) -> None:
    """What is not computed again, nothing reads: the executor would find no value."""
    tree = StrategyTree(pt.models.load(name)).parallelize(dp=2, pp=2, recompute=recompute, global_batch=8)
    check(tree.with_training(framework="megatron, stops_early=true"))


def test_updated_parameters_broadcast_by_every_rank() -> None:
    tree = StrategyTree(pt.models.load("tiny-llama", **SMALL)).parallelize(dp=4, zero=1, global_batch=8, pad_vocab=0)
    found = verify(tree.with_training(framework="megatron, broadcasts_updates=true"), CLUSTER)
    assert found.equal
    gathered, sent = verify(tree, CLUSTER).collectives["all_gather"], found.collectives["broadcast"]
    assert (sent.count, sent.bytes) == (4 * gathered.count, gathered.bytes)


def test_parameters_gathered_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_SMALL_NUMEL", 100)
    tree = StrategyTree(pt.models.load("tiny-llama", **SMALL)).parallelize(dp=4, zero=3, global_batch=8)
    check(tree.with_training(framework="deepspeed"))


@pytest.mark.parametrize("name", ["tiny-llama", "tiny-gpt", "tiny-moe", "tiny-cnn", "tiny-dlrm"])
def test_the_zoo(name: str) -> None:
    check(StrategyTree(pt.models.load(name)).parallelize(dp=2, pp=2, zero=3, recompute="full", global_batch=8))


def test_tables_one_per_device() -> None:
    """Embedding tables placed one per device, the rest data parallel: DLRM's all_to_all."""
    tree = StrategyTree(pt.models.load("tiny-dlrm")).parallelize(dp=8, global_batch=16)
    tree = tree.set("features.embedding", partition={"tables": "dp", "batch": ()})
    found = verify(tree, CLUSTER)
    assert found.equal and found.collectives["all_to_all"].count == 4  # forward and backward of two micro-batches


def test_convolutions_data_parallel_and_classifier_cut() -> None:
    """Different strategies for different layers (the paper's example of VGG)."""
    tree = StrategyTree(pt.models.load("tiny-cnn")).parallelize(dp=4, global_batch=8)
    check(tree.set("head.fc", partition={"classes": "dp", "batch": ()}))


def test_a_missing_edge_is_noticed() -> None:
    """The check is not blind: a read that no edge protects is an error even when the times allow it."""
    import dataclasses

    import numpy as np

    from proteus.compiler.compile import compile_tree
    from proteus.errors import SimulationError
    from proteus.htae.engine import play
    from proteus.verify.executor import Executor
    from proteus.verify.problem import make_problem

    tree = StrategyTree(model("llama")).parallelize(tp=2)
    graph = compile_tree(tree, CLUSTER, fold=False)
    timeline = play(graph.tasks)
    blind = dataclasses.replace(
        graph.tasks, pred=np.empty(0, np.int32), pred_ptr=np.zeros(graph.tasks.num_tasks + 1, np.int32)
    )
    executor = Executor(dataclasses.replace(graph, tasks=blind), timeline, make_problem(tree.model, 1, 0))
    with pytest.raises(SimulationError, match="without waiting for"):
        executor.run()


def test_a_wrong_gradient_is_noticed() -> None:
    """Leaving out the reduction of gradients makes the parameters differ."""
    from proteus.compiler.compile import compile_tree
    from proteus.htae.engine import play
    from proteus.verify.executor import Executor
    from proteus.verify.problem import make_problem
    from proteus.verify.reference import undivided
    from proteus.verify.verification import compare

    tree = StrategyTree(model("llama")).parallelize(dp=2)
    graph = compile_tree(tree, CLUSTER, fold=False)
    problem = make_problem(tree.model, 2, 0)

    class Lazy(Executor):
        def _state_move(self, *_: object) -> None:
            """Does nothing."""

    executor = Lazy(graph, play(graph.tasks), problem)
    executor.run()
    found = compare(executor, undivided(problem, "adam"))
    assert found.errors["loss"] < 1e-9
    assert found.errors["gradients"] > 1e-3 and found.errors["parameters"] > 1e-3 and not found.equal


def test_what_has_no_undivided_result_is_refused() -> None:
    with pytest.raises(ModelError, match="batch norm"):
        verify(StrategyTree(pt.models.load("tiny-cnn", norm="batch_norm")).parallelize(dp=2))
    with pytest.raises(ModelError, match="parameters"):
        verify(StrategyTree(pt.models.load("llama3-8b")).parallelize())


def test_batch_norm_of_a_whole_batch() -> None:
    """Where nothing divides the batch, batch norm has one meaning: pipeline stages, classifier cut."""
    check(StrategyTree(pt.models.load("tiny-cnn", norm="batch_norm")).parallelize(pp=2, micro_batch=4, global_batch=4))
