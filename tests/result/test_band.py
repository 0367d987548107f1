"""The band of a step time: the formula by hand, and what it must never do."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import proteus as pt
from proteus.compiler.graph import ExecutionGraph, RankClass
from proteus.compiler.kinds import SpanKind
from proteus.costs import residuals
from proteus.costs.overlap import ComputeClass
from proteus.costs.residuals import StepKind
from proteus.htae.tasks import TaskKind, Timeline
from proteus.result.band import HALF, HOST, WHOLE, path_parts, step_kind, step_time_band
from proteus.result.windows import Windows, windows
from tests.result.samples import STRATEGIES, result, small

GEMM, MEMORY = ComputeClass.GEMM, ComputeClass.MEMORY


def by_hand(
    names: str = "abc", shared: float = 0.1, own: float = 0.2, comm: float = 0.5, held: bool = False
) -> tuple[ExecutionGraph, Timeline, Windows]:
    """A launch of 1 s; products of 2 s and a memory-bound op of 1 s; a collective of 4 s; a product of 3 s.

    ::

        0      1            4             8           11
        launch | a 2 s, b 1 | all_reduce  | c 3 s     |
    """
    graph = result("data").graph
    sigma = np.zeros((3, 2, len(ComputeClass)))
    sigma[[0, 2], :, GEMM] = shared, own
    sigma[1, :, MEMORY] = shared, own
    plan: Any = SimpleNamespace(
        is_comm=np.array([False, True, False]), ref=np.array([0, 0, 1], np.int32), segments=[[], []]
    )
    row = graph.op_rows[0]
    tasks = replace(
        graph.tasks,
        kind=np.array([TaskKind.COMPUTE, TaskKind.COMM, TaskKind.COMPUTE], np.uint8),
        segment=np.array([0, -1, 1], np.int32),
        segment_ptr=np.array([0, 2, 3], np.int32),
        segment_work_s=np.array([2.0, 1.0, 3.0]),
    )
    made = replace(
        graph,
        tasks=tasks,
        plans=(plan,),
        classes=(RankClass(device=0, multiplicity=8, plan=0, task_of=np.arange(3), segment_base=0),),
        transfers=(),
        op_rows=tuple(replace(row, node=("layers", name), span=SpanKind.FORWARD) for name in names),
        op_sigma=sigma,
        segment_is_held=np.array([False, held]),
        comm_sigma=np.array([comm]),
        comm_links=("nvlink3",),
    )
    line = Timeline(
        start_s=np.array([1.0, 4.0, 8.0]), end_s=np.array([4.0, 8.0, 11.0]), cause=np.array([-1, 0, 1], np.int32)
    )
    return made, line, windows(made, line)


def test_the_formula_by_hand() -> None:
    sample = by_hand()
    parts = path_parts(*sample)
    assert parts == {
        "gemm": pytest.approx(math.hypot(0.1 * (2 + 3), 0.2 * 2, 0.2 * 3) / 11),
        "memory": pytest.approx(math.hypot(0.1, 0.2) / 11),
        "nvlink3": pytest.approx(0.5 * 4 / 11),
        HOST: pytest.approx(residuals.host_sigma() / 11),
    }
    band = step_time_band(*sample)
    sigma = math.hypot(*parts.values(), residuals.step_sigma(StepKind.TRANSFORMER))
    assert band.sigma == pytest.approx(sigma)
    assert (band.low_s, band.high_s) == pytest.approx((11 * math.exp(-HALF * sigma), 11 * math.exp(HALF * sigma)))
    assert math.hypot(*band.parts.values()) == pytest.approx(sigma)


def test_an_op_of_many_layers_is_off_once() -> None:
    """a and c are one op: what is its own is the same in both."""
    assert path_parts(*by_hand(names="aba"))["gemm"] == pytest.approx(math.hypot(0.1 * 5, 0.2 * 5) / 11)


def test_what_the_host_sets_is_off_as_the_host_is() -> None:
    parts = path_parts(*by_hand(held=True))
    assert parts["gemm"] == pytest.approx(math.hypot(0.1 * 2, 0.2 * 2) / 11)
    assert parts[HOST] == pytest.approx(residuals.host_sigma() * (1 + 3) / 11)


def test_sure_parts_leave_the_whole_step_and_the_host() -> None:
    sample = by_hand(shared=0.0, own=0.0, comm=0.0)
    assert set(step_time_band(*sample).parts) == {HOST, WHOLE}


@pytest.mark.parametrize("changed", [{"shared": 0.2}, {"own": 0.3}, {"comm": 0.6}])
def test_less_sure_is_wider(changed: dict[str, float]) -> None:
    before, after = step_time_band(*by_hand()), step_time_band(*by_hand(**changed))
    assert after.low_s < before.low_s < 11 < before.high_s < after.high_s


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_second_of_the_path_counts_once(name: str) -> None:
    """Were all off by all of it together, the step would be as well."""
    outcome = result(name)
    sigma = np.zeros_like(outcome.graph.op_sigma)
    sigma[outcome.graph.op_wait_s == 0, 0, GEMM] = 1.0
    graph = replace(
        outcome.graph,
        op_sigma=sigma,
        comm_sigma=np.ones_like(outcome.graph.comm_sigma),
        transfers=tuple(replace(transfer, sigma=1.0) for transfer in outcome.graph.transfers),
    )
    parts = path_parts(graph, outcome.timeline, outcome.windows)
    host = parts.pop(HOST, 0.0) / residuals.host_sigma()
    assert sum(parts.values()) + host == pytest.approx(1.0)


def test_kinds_of_steps() -> None:
    names = {"llama3-8b": StepKind.TRANSFORMER, "mixtral-8x7b": StepKind.EXPERTS, "resnet50": StepKind.OTHER}
    assert {name: step_kind(pt.models.load(name)) for name in names} == names


def test_a_curve_of_another_chip_is_told_and_widens() -> None:
    tree = pt.StrategyTree(small()).parallelize(dp=8, global_batch=16)
    own, other = (pt.simulate(tree, pt.clusters.load(name)) for name in ("dgx-a100", "pcie-8x-l40s"))
    assert own.step_time_band.borrowed == ()
    assert "attention" in other.step_time_band.borrowed
    assert "another chip or dtype: attention" in repr(other) and "another chip" not in repr(own)


def test_a_measured_step_narrows() -> None:
    tree, cluster = result("data").tree, pt.clusters.load("dgx-a100")
    cold = result("data").step_time_band
    warm = pt.simulate(tree, cluster.calibrate([(tree, result("data").step_time_s)])).step_time_band
    assert warm.sigma == pytest.approx(residuals.calibrated_share() * cold.sigma, rel=0.02)


def test_two_kinds_of_gpu_are_off_by_themselves() -> None:
    cluster = pt.Cluster.mixed([pt.clusters.load("dgx-a100"), pt.clusters.load("dgx-h100")])
    mixed = pt.simulate(
        pt.StrategyTree(small()).parallelize(pp=2, dp=8, global_batch=64, framework="megatron-core, op_s=1e-6"), cluster
    )
    kinds = {name.partition(" on ")[2] for name in mixed.step_time_band.parts if name.startswith("gemm")}
    assert len(kinds) == 2
