"""Plans of pipeline ranks: where the host is held in transfers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import proteus as pt
from proteus.compiler.graph import ExecutionGraph
from proteus.compiler.kinds import SpanKind
from proteus.result.result import Result

MICRO_BATCHES = 8
SMALL = pt.StrategyTree(pt.models.load("gpt2", layers=4))


#: a wait of the host in every transfer [us in the text]
HELD = "megatron-core, transfer_s=0.0005"


def run(framework: str = HELD, cluster: pt.Cluster | None = None, **recipe: Any) -> Result:
    tree = SMALL.parallelize(**{"pp": 4, "global_batch": MICRO_BATCHES, **recipe}, framework=framework)
    return pt.simulate(tree, pt.clusters.load("dgx-a100") if cluster is None else cluster)


def waits(graph: ExecutionGraph) -> list[int]:
    """How often the device of every class is held."""
    waits_of_plan = []
    for rank in graph.classes:
        plan = graph.plans[rank.plan]
        runs = np.bincount(plan.ref[~plan.is_comm], minlength=len(plan.segments))
        waits_of_plan.append(
            sum(n * sum(row.wait_s > 0 for row in s) for n, s in zip(runs, plan.segments, strict=True))
        )
    return waits_of_plan


@pytest.mark.parametrize(
    ("recipe", "calls"),
    [
        ({"schedule": "1f1b"}, [1, 2, 2, 1]),
        ({"schedule": "gpipe"}, [1, 2, 2, 1]),
        ({"schedule": "zb-h1"}, [1, 2, 2, 1]),  # weight gradients are nobody else's
        ({"schedule": "zb-v", "pp": 2}, [2, 2]),  # the last rank hands its first chunk to its second
        ({"schedule": "interleaved", "virtual_stages": 2, "pp": 2}, [3, 3]),
        ({"pp": 1, "dp": 4, "global_batch": 4 * MICRO_BATCHES}, [0]),
    ],
)
def test_a_phase_that_receives_is_one_call(recipe: dict[str, Any], calls: list[int]) -> None:
    assert waits(run(**recipe).graph) == [MICRO_BATCHES * n for n in calls]


@pytest.mark.parametrize("framework", ["nemo", "libai", "ddp", "deepspeed", "megatron, transfer_s=0"])
def test_hosts_that_go_on_hold_nobody(framework: str) -> None:
    assert not any(waits(run(framework).graph))


def test_the_device_idles_for_the_host_in_every_call() -> None:
    """The two stages are held at once, one when it receives activations and one gradients; first they fill up."""
    held, free = run(pp=2), run("megatron, transfer_s=0", pp=2)
    call_s = 0.0005
    spans = held.spans
    of_host = spans.kind == SpanKind.HOST
    assert sorted(Counter(spans.lane[of_host].tolist()).values()) == [MICRO_BATCHES] * 2
    assert spans.duration_s[of_host] == pytest.approx(call_s)
    assert held.step_time_s - free.step_time_s == pytest.approx((MICRO_BATCHES + 1) * call_s, rel=0.02)
    more, less = ({rung.label: rung.seconds for rung in outcome.explain().steps} for outcome in (held, free))
    assert more["host"] - less["host"] == pytest.approx(MICRO_BATCHES * call_s, rel=0.02)


def test_more_virtual_stages_cost_more_calls() -> None:
    """Small chunks: what interleaving saves of the bubble is less than what the host loses."""
    recipe = {"pp": 2, "schedule": "interleaved", "virtual_stages": 2}
    assert run(**recipe).step_time_s > run(pp=2).step_time_s
    assert run("nemo", **recipe).step_time_s < run("nemo", pp=2).step_time_s


def test_a_slow_device_waits_no_longer_than_others() -> None:
    graph = run(cluster=pt.clusters.load("dgx-a100").slow_device(1, 1.5)).graph
    is_wait = graph.op_wait_s > 0
    assert is_wait.any()
    np.testing.assert_array_equal(graph.tasks.segment_work_s[is_wait], graph.op_wait_s[is_wait])


@pytest.mark.parametrize("recipe", [{"schedule": "1f1b"}, {"schedule": "interleaved", "virtual_stages": 2}, {"pp": 1}])
def test_parameters_are_gathered_one_block_ahead(recipe: dict[str, Any]) -> None:
    """Also those of the first blocks of an action, so that more micro-batches take no more memory."""
    few, many = (
        run("fsdp", **{"pp": 2, "dp": 4, "zero": 3, "recompute": "full", "global_batch": 4 * n, **recipe})
        for n in (MICRO_BATCHES, 4 * MICRO_BATCHES)
    )
    assert many.peak_memory_bytes == pytest.approx(few.peak_memory_bytes, rel=1e-3)
