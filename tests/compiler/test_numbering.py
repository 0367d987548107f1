from __future__ import annotations

import numpy as np

import proteus as pt
from proteus.compiler.compile import compile_tree
from proteus.strategy import StrategyTree


def test_a_collective_is_one_task_of_all_its_ranks() -> None:
    tree = StrategyTree(pt.models.load("tiny-llama")).parallelize(dp=2, tp=2, global_batch=2)
    graph = compile_tree(tree, pt.clusters.load("dgx-a100"), fold=False)
    plan = graph.plans[0]
    of = np.stack([rank.task_of for rank in graph.classes])
    for step in range(plan.num_steps):
        distinct = len(set(of[:, step].tolist()))
        if plan.is_comm[step]:
            assert distinct == 4 // graph.tree.stages[0].mesh.degree(graph.comm_rows[plan.ref[step]].axes)
        else:
            assert distinct == 4
    assert set(of.ravel().tolist()) == set(range(graph.tasks.num_tasks))


def test_a_tied_parameter_is_reduced_in_one_task_of_two_plans() -> None:
    tree = StrategyTree(pt.models.load("tiny-gpt")).parallelize(pp=2, global_batch=2)
    graph = compile_tree(tree, pt.clusters.load("dgx-a100"))
    first, last = graph.classes
    shared = set(first.task_of.tolist()) & set(last.task_of.tolist())
    assert len(shared) == 1
    for rank in (first, last):
        step = int(np.flatnonzero(rank.task_of == next(iter(shared)))[0])
        assert "tied" in graph.comm_rows[graph.plans[rank.plan].ref[step]].name
