"""Results to look at, and machines without costs of their own."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

import proteus as pt
from proteus.compiler.compile import compile_tree
from proteus.compiler.graph import ExecutionGraph
from proteus.compiler.kinds import SpanKind
from proteus.htae.engine import play
from proteus.htae.tasks import TaskKind
from proteus.model.graph import Model
from proteus.result.result import Result, Timings

#: strategies on one host that between them have every kind of task
STRATEGIES: dict[str, dict[str, Any]] = {
    "data": {"dp": 8, "global_batch": 16},
    "zero3": {"dp": 8, "global_batch": 16, "zero": 3},
    "tensor": {"tp": 4, "dp": 2, "global_batch": 8, "sequence_parallel": True},
    "pipeline": {"pp": 4, "dp": 2, "global_batch": 16, "zero": 1},
    "interleaved": {"pp": 2, "tp": 2, "dp": 2, "global_batch": 16, "schedule": "interleaved", "virtual_stages": 2},
    "zero-bubble": {"pp": 4, "tp": 2, "global_batch": 8, "schedule": "zb-h1"},
    "context": {"cp": 2, "tp": 2, "dp": 2, "global_batch": 8, "recompute": "full"},
}


@cache
def small() -> Model:
    return pt.models.load("gpt2", layers=4)


@cache
def result(name: str) -> Result:
    tree = pt.StrategyTree(small()).parallelize(**STRATEGIES[name])
    return pt.simulate(tree, pt.clusters.load("dgx-a100"))


def played(graph: ExecutionGraph) -> Result:
    return Result(graph, play(graph.tasks), Timings(compile_s=0.0, simulate_s=0.0, tasks=0, tasks_run=0))


def ideal_pipeline(ranks: int, micro_batches: int, **settings: Any) -> Result:
    """Equal stages that only compute: no communication, launches, optimizer, embedding or head."""
    model = pt.models.load("gpt2", layers=2 * ranks)
    tree = pt.StrategyTree(model).parallelize(pp=ranks, global_batch=micro_batches, **settings)
    graph = compile_tree(tree, pt.clusters.load("dgx-a100"))
    tasks = graph.tasks
    nodes = {row.id for row in tree.rows() if row.path.startswith("layers")}
    is_layer = np.array(
        [
            graph.node_of[row.node] in nodes and row.span not in (SpanKind.OPTIMIZER, SpanKind.HOST)
            for row in graph.op_rows
        ]
    )
    work_s = np.where(is_layer, tasks.segment_work_s, 0.0)
    total_s = np.add.reduceat(work_s, tasks.segment_ptr[:-1])
    is_compute = tasks.kind == TaskKind.COMPUTE
    tasks = replace(
        tasks,
        segment_work_s=work_s,
        work=np.where(is_compute, total_s[tasks.segment], 0.0),
        latency_s=np.zeros_like(tasks.latency_s),
        release_s=np.zeros_like(tasks.release_s),
    )
    return played(replace(graph, tasks=tasks))
