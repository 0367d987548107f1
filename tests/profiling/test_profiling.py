"""Measuring this machine: on tiny shapes, and whether what was measured decides the simulated times."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import proteus as pt
from proteus.cli import main
from proteus.compiler.relations import Relations, paired_ranks
from proteus.costs.collective_types import Collective
from proteus.costs.measured import CollectiveTimes, MeasuredOverlap
from proteus.costs.overlap import ComputeClass

pytest.importorskip("torch", reason="profiling runs PyTorch")

from proteus import profiling
from proteus.costs.ops import OpCosts
from proteus.costs.passes import stream
from proteus.profiling import MeasuredMachine, is_machine, load
from proteus.profiling.demand import demand_of
from proteus.profiling.operators import Measured, shared_out
from proteus.profiling.timing import Clock

TINY = {"layers": 1, "dropout": 0.0, "attention_dropout": 0.0}
SETTINGS = {"micro_batch": 2, "precision": "fp32", "framework": "ddp, optimizer_kernels=fused"}


def tree(**degrees: int) -> pt.StrategyTree:
    return pt.StrategyTree(pt.models.load("tiny-gpt", **TINY)).parallelize(**degrees, **SETTINGS)


@pytest.fixture(scope="module")
def machine() -> Iterator[MeasuredMachine]:
    """This machine, measured in two processes for a moment."""
    yield profiling.profile(tree(tp=2), backend="gloo", budget_s=0.002)


def test_everything_the_strategy_needs_is_measured(machine: MeasuredMachine) -> None:
    asked = demand_of([tree(tp=2)], machine.cluster())
    works = {work for call in asked.calls.values() for work in call.kernels}
    works |= {work for step in asked.optimizers for work in step.kernels} | {add.work for add in asked.sums}
    assert works == set(machine.works)
    assert all(0 <= time_s < 1 for time_s in machine.works.values())
    assert sum(machine.works.values()) > 0
    kinds = {(times.kind, times.num_ranks) for times in machine.collectives}
    assert kinds == set(asked.collectives) == {(Collective.ALL_REDUCE, 2)}
    assert "not measured" not in machine.about


def test_a_saved_machine_is_the_same(machine: MeasuredMachine, tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    machine.save(file)
    again = load(file)
    for name in (
        "name",
        "device",
        "num_devices",
        "works",
        "collectives",
        "overlap",
        "launch_s",
        "op_s",
        "is_host",
        "about",
    ):
        assert getattr(again, name) == getattr(machine, name), name
    assert again.cluster() == machine.cluster()
    here, there = (pt.simulate(tree(tp=2), m.cluster(), calibration=m.calibration) for m in (machine, again))
    assert here.step_time_s == there.step_time_s


def test_what_was_measured_decides_the_step_time(machine: MeasuredMachine) -> None:
    alone = tree()
    asked = demand_of([alone], machine.cluster())
    call = max(asked.calls.values(), key=lambda c: c.op.name == "head")  # one product that no other op shares
    (product,) = call.kernels
    before = pt.simulate(alone, machine.cluster(), calibration=machine.calibration).step_time_s
    known = machine.calibration.measured_s.get(product) or OpCosts(machine.device).time(product).time_s
    slower = replace(machine, works={**machine.works, product: known + 0.25})
    after = pt.simulate(alone, slower.cluster(), calibration=slower.calibration).step_time_s
    runs = sum(c.count for c in asked.calls.values() if product in c.kernels)
    assert after - before == pytest.approx(0.25 * runs, rel=1e-9)


def test_a_step_of_measured_parts_alone_is_their_sum(machine: MeasuredMachine) -> None:
    """On one device nothing overlaps: the step takes what its kernels take."""
    alone = tree()
    asked = demand_of([alone], machine.cluster())
    kernels = [(call.kernels, call.count) for call in asked.calls.values()]
    kernels += [(step.kernels, step.count) for step in asked.optimizers]
    kernels += [((add.work,), add.count) for add in asked.sums]
    times = {work: 1e-3 * (1 + i) for i, work in enumerate({w for works, _ in kernels for w in works})}
    known = replace(machine, works=times)
    step = pt.simulate(alone, known.cluster(), calibration=known.calibration).step_time_s
    assert step == pytest.approx(sum(times[w] * count for works, count in kernels for w in works), rel=1e-9)


@pytest.mark.parametrize("size_bytes", [1e3, 3e3, 1e6, 5e6])
def test_a_measured_collective_takes_its_time(machine: MeasuredMachine, size_bytes: float) -> None:
    times = CollectiveTimes(
        kind=Collective.ALL_REDUCE, num_ranks=2, size_bytes=(1e3, 1e4, 1e6), time_s=(1e-4, 1.5e-4, 2e-3)
    )
    known = replace(machine, collectives=(times,))
    cluster = known.cluster()
    relations = Relations(cluster, (), None, known.calibration)
    prices, _ = relations.price(relations.add(paired_ranks(0, 1, 1)), Collective.ALL_REDUCE, size_bytes)
    terms = prices[0].terms
    narrowest = cluster.link_capacity_Bps.min()
    assert terms.latency_s + terms.work_bytes / min(terms.cap_Bps, narrowest) == pytest.approx(times.at(size_bytes))


def test_overlap_is_taken_from_the_measurement(machine: MeasuredMachine) -> None:
    spread = tree(dp=2).with_training(bucket_bytes=1.0)
    slow = dict.fromkeys(ComputeClass, 3.0)
    steps = []
    for overlap in (MeasuredOverlap(), MeasuredOverlap(compute=slow, comm=slow)):
        known = replace(machine, overlap=overlap)
        steps.append(pt.simulate(spread, known.cluster(), calibration=known.calibration).step_time_s)
    assert steps[1] > steps[0]


def test_shares_keep_the_total() -> None:
    one, two = stream(1e6), stream(3e6)
    measured = [Measured((one, two), 2.0, 5e-3), Measured((two,), 1.0, 2e-3)]
    times = shared_out(measured, OpCosts(pt.clusters.load("dgx-a100").gpu()))
    assert sum(times[w] * m.count for m in measured for w in m.kernels) == pytest.approx(2 * 5e-3 + 2e-3)


def test_the_clock_counts_runs() -> None:
    import torch

    done: list[int] = []
    assert Clock(torch.device("cpu"), 0.0).median_s(lambda: done.append(1)) > 0
    assert len(done) >= 5


def test_the_command_and_the_simulation_of_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "mine.json")
    model = ["--model", "tiny-cnn", "--dp", "2", "--precision", "fp32", "--framework", "ddp"]
    assert main(["profile", *model, "--out", file, "--budget", "0.001", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["devices"] == 2 and document["kernels"] > 5 and is_machine(file)
    for cluster in (["--cluster", file], ["--cluster", file, "--calibration", file]):
        assert main(["simulate", *model, *cluster, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["devices"] == 2
        known = load(file)
        wanted = pt.StrategyTree(pt.models.load("tiny-cnn")).parallelize(dp=2, precision="fp32", framework="ddp")
        step = pt.simulate(wanted, known.cluster(), calibration=known.calibration).step_time_s
        assert found["step_time_s"] == step


def _broken(machine: MeasuredMachine, tmp_path: Path, change: str) -> Path:
    machine.save(tmp_path / "whole.json")
    document = json.loads((tmp_path / "whole.json").read_text())
    match change:
        case "time":
            document["works"][0]["time_s"] = -1.0
        case "family":
            document["works"][0]["family"] = "magic"
        case "missing":
            del document["device"]
        case "text":
            document["num_devices"] = "two"
        case "version":
            document["proteus_machine"] = 99
        case "list":
            document["collectives"] = {}
        case "sizes":
            document["collectives"][0]["size_bytes"][0] = 1e12
    file = tmp_path / "broken.json"
    file.write_text(json.dumps(document))
    return file


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("time", "works\\[0\\]: time_s=-1.0"),
        ("family", "'magic' is none of"),
        ("missing", "lacks 'device'"),
        ("text", "num_devices='two'"),
        ("version", "99; this version reads 2"),
        ("list", "collectives is not a list"),
        ("sizes", "sizes must be above 0 and rise"),
    ],
)
def test_a_broken_file_says_what_is_wrong(machine: MeasuredMachine, tmp_path: Path, change: str, message: str) -> None:
    with pytest.raises(pt.InputError, match=message):
        load(_broken(machine, tmp_path, change))


def test_no_json_at_all(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text('{"proteus_machine": 1, ')
    with pytest.raises(pt.InputError, match="no JSON"):
        load(file)
