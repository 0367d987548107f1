from __future__ import annotations

import numpy as np

import proteus as pt
from proteus.compiler.compile import compile_tree
from proteus.compiler.wiring import by_row
from proteus.strategy import StrategyTree


def test_values_are_listed_by_row_in_their_order() -> None:
    ptr, values = by_row(np.array([2, 0, 2, 3]), np.array([7, 8, 9, 6]), 5)
    assert ptr.tolist() == [0, 1, 1, 3, 4, 4]
    assert values.tolist() == [8, 7, 9, 6]


def test_a_send_waits_for_what_it_sends_and_is_waited_for() -> None:
    tree = StrategyTree(pt.models.load("tiny-llama")).parallelize(pp=2, global_batch=3)
    graph = compile_tree(tree, pt.clusters.load("dgx-a100"))
    tasks = graph.tasks
    for transfer in graph.transfers:
        source, target = graph.classes[transfer.source], graph.classes[transfer.target]
        key = (transfer.chunk, transfer.kind)
        made = source.task_of[graph.plans[source.plan].sends_out[key]]
        peer_phase = (transfer.chunk + (1 if transfer.kind == 0 else -1), transfer.kind)
        wanted = target.task_of[graph.plans[target.plan].sends_in[peer_phase]]
        for micro, task in enumerate(transfer.tasks.tolist()):
            before = tasks.pred[tasks.pred_ptr[task] : tasks.pred_ptr[task + 1]]
            assert before.tolist() == made[micro].tolist()
            for step in wanted[micro].tolist():
                assert task in tasks.pred[tasks.pred_ptr[step] : tasks.pred_ptr[step + 1]]
