"""Folding is exact: every rank has the times of the rank that stands for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import proteus as pt
from proteus.cluster import Cluster
from proteus.compiler.compile import compile_tree
from proteus.compiler.fold import Relation, fold
from proteus.costs.flows import Flows
from proteus.htae.engine import play
from proteus.strategy import StrategyTree


def assert_equal_times(tree: StrategyTree, cluster: Cluster, algorithm: str | None = None) -> tuple[int, int]:
    """Play folded and unfolded, compare every step of every rank; the numbers of classes."""
    folded = compile_tree(tree, cluster, algorithm=algorithm)
    whole = compile_tree(tree, cluster, fold=False, algorithm=algorithm)
    short, long = play(folded.tasks), play(whole.tasks)
    assert len(whole.classes) == tree.num_devices
    for rank in whole.classes:
        alike = folded.classes[int(folded.folding.rank_class[rank.device])]
        assert alike.plan == rank.plan
        np.testing.assert_array_equal(short.start_s[alike.task_of], long.start_s[rank.task_of])
        np.testing.assert_array_equal(short.end_s[alike.task_of], long.end_s[rank.task_of])
    assert sum(rank.multiplicity for rank in folded.classes) == tree.num_devices
    assert folded.num_tasks == whole.num_tasks == whole.tasks.num_tasks
    return len(folded.classes), len(whole.classes)


DEGREES = [
    {"dp": 8},
    {"dp": 4, "tp": 2, "sequence_parallel": True},
    {"dp": 2, "tp": 2, "pp": 2, "schedule": "gpipe"},
    {"dp": 2, "tp": 4, "pp": 2, "zero": 1},
    {"tp": 2, "pp": 4, "schedule": "zb-h1"},
    {"dp": 2, "pp": 2, "virtual_stages": 2},
    {"dp": 4, "cp": 2, "zero": 3},
    {"dp": 8, "tp": 2, "pp": 2, "zero": 2, "recompute": "full"},
]
#: experts cut otherwise than all else
EXPERTS = [
    {"dp": 4, "ep": 4},
    {"dp": 4, "tp": 2, "etp": 1, "ep": 4, "sequence_parallel": True, "zero": 1},
    {"dp": 2, "cp": 2, "tp": 2, "etp": 1, "ep": 4},
    {"dp": 4, "cp": 2, "pp": 2, "ep": 4, "zero": 2},
    {"dp": 2, "tp": 4, "etp": 2, "ep": 2, "sequence_parallel": True},
]


@pytest.mark.parametrize("preset", ["dgx-a100", "dgx1-v100", "hc1", "gb200-nvl72"])
@pytest.mark.parametrize("degrees", DEGREES, ids=str)
def test_folded_equals_unfolded(preset: str, degrees: dict[str, object]) -> None:
    model = pt.models.load("tiny-llama")
    tree = StrategyTree(model).parallelize(global_batch=16, **degrees)
    cluster = pt.clusters.load(preset)
    cluster = cluster.with_nodes(-(-tree.num_devices // cluster.devices_per_host))
    assert_equal_times(tree, cluster)


@pytest.mark.parametrize("preset", ["dgx-a100", "dgx1-v100"])
@pytest.mark.parametrize("degrees", EXPERTS, ids=str)
def test_folded_equals_unfolded_with_experts(preset: str, degrees: dict[str, object]) -> None:
    tree = StrategyTree(pt.models.load("tiny-moe")).parallelize(global_batch=16, **degrees)
    cluster = pt.clusters.load(preset)
    assert_equal_times(tree, cluster.with_nodes(-(-tree.num_devices // cluster.devices_per_host)))


def test_equal_ranks_are_one_class() -> None:
    tree = StrategyTree(pt.models.load("tiny-llama")).parallelize(dp=8, tp=4, pp=2, global_batch=32)
    cluster = pt.clusters.load("dgx-a100", nodes=8)
    assert assert_equal_times(tree, cluster, "ring") == (2, 64)
    # a tree has leaves, inner hosts and a root: their ranks are not alike
    assert assert_equal_times(tree, cluster, "tree")[0] > 2


def test_a_straggler_splits_only_what_it_touches() -> None:
    tree = StrategyTree(pt.models.load("tiny-llama")).parallelize(dp=4, tp=4, pp=2, global_batch=16)
    cluster = pt.clusters.load("dgx-a100", nodes=4).slow_device(5, 2.0)
    folded, _ = assert_equal_times(tree, cluster)
    assert 2 < folded < 16


models = st.sampled_from(["tiny-llama", "tiny-gpt", "tiny-moe", "tiny-cnn", "tiny-dlrm"])


@st.composite
def cases(draw: st.DrawFn) -> tuple[StrategyTree, Cluster]:
    model = pt.models.load(draw(models))
    is_transformer = model.seq > 1
    pp = draw(st.sampled_from([1, 2])) if len(model.blocks) > 1 else 1
    tp = draw(st.sampled_from([1, 2, 4])) if is_transformer else 1
    dp = draw(st.sampled_from([1, 2, 4, 8]))
    ep = draw(st.sampled_from([e for e in (1, 2, 4) if dp * tp % e == 0])) if model.name == "tiny-moe" else 1
    etp = draw(st.sampled_from([e for e in (1, 2, 4) if dp * tp % (e * ep) == 0])) if model.name == "tiny-moe" else None
    tree = StrategyTree(model).parallelize(
        dp=dp,
        tp=tp,
        pp=pp,
        ep=ep,
        etp=etp,
        global_batch=dp * draw(st.sampled_from([2, 3, 4])),
        zero=draw(st.sampled_from([0, 1, 2, 3])),
        sequence_parallel=draw(st.booleans()),
        recompute=draw(st.sampled_from(["none", "full"])),
        schedule=draw(st.sampled_from(["gpipe", "1f1b"])),
    )
    preset = pt.clusters.load(draw(st.sampled_from(["dgx-a100", "dgx1-v100", "hc1", "p4d"])))
    cluster = preset.with_nodes(-(-tree.num_devices // preset.devices_per_host))
    for device in draw(st.lists(st.integers(0, tree.num_devices - 1), max_size=1)):
        cluster = cluster.slow_device(device, 1.5)
    for link in draw(st.lists(st.integers(0, cluster.num_links - 1), max_size=1)):
        cluster = cluster.slow_link(link, 0.5)
    return tree, cluster


@given(cases())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_folded_equals_unfolded_on_random_cases(case: tuple[StrategyTree, Cluster]) -> None:
    assert_equal_times(*case)


def test_counts_add_the_flows_of_all_copies() -> None:
    """Two pairs of ranks send over one NIC each, and both over one spine link."""
    flows = Flows(np.array([0, 0, 1, 1], np.int32), np.array([0, 2, 1, 2], np.int32), np.array([1, 1, 1, 1], np.int32))
    pairs = Relation(groups=np.array([[0, 1], [2, 3]]), is_ordered=True, kind=np.zeros(2, np.int64), flows=(flows,))
    folding = fold(np.zeros(4, np.int64), np.array([0, 0, 1]), [pairs])
    assert folding.multiplicity.tolist() == [2, 2]  # senders, receivers
    assert folding.link_size.tolist() == [2, 1]
    group, link, count = folding.counts(0, flows)
    assert group.tolist() == [0, 0]
    assert dict(zip(link.tolist(), count.tolist(), strict=True)) == {0: 1, 1: 2}
