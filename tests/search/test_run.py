"""The search finds what a look at every strategy finds."""

from __future__ import annotations

import json

import pytest

import proteus as pt
from proteus.cli import main
from proteus.errors import InputError, StrategyError
from proteus.search.space import savings, shapes

MODEL, CLUSTER = pt.models.load("gpt2"), pt.clusters.load("dgx-a100")


def test_equals_looking_at_everything() -> None:
    outcome = pt.search(MODEL, CLUSTER, global_batch=8, top=4, schedules=("1f1b",))
    times = []
    for shape in shapes(MODEL, CLUSTER, 8, ("1f1b",)):
        tree = pt.StrategyTree(MODEL).parallelize(**shape.settings(), **next(savings(shape)), overlap_gradients=True)
        times.append(pt.simulate(tree, CLUSTER).step_time_s)  # all of them fit
    assert [f.step_time_s for f in outcome.found] == sorted(times)[:4]
    assert outcome.num_shapes == len(times)
    assert outcome.num_left == 0


def test_best_is_the_tree_that_was_simulated() -> None:
    outcome = pt.search(MODEL, CLUSTER, global_batch=8, top=2, budget=6)
    result = pt.simulate(outcome.best, CLUSTER)
    assert result.step_time_s == outcome.found[0].step_time_s
    assert result.fits
    assert outcome.num_left == outcome.num_shapes - 6
    assert "not simulated (budget used up)" in str(outcome)
    assert json.loads(json.dumps(outcome.to_dict()))["found"][0]["settings"]["dp"] == outcome.found[0].settings["dp"]
    assert "<table>" in outcome._repr_mimebundle_()["text/html"]


def test_memory_is_saved_only_where_it_is_short() -> None:
    model, cluster = pt.models.load("llama3-8b"), pt.clusters.load("dgx1-v100")
    outcome = pt.search(model, cluster, global_batch=8, top=8, precision="fp16")
    saving = [f for f in outcome.found if f.settings["recompute"] != "none" or f.settings["zero"] == 3]
    assert saving
    for one in saving[:3]:
        fast = {**one.settings, "recompute": "none", "zero": 1 if one.settings["dp"] * one.settings["cp"] > 1 else 0}
        assert not pt.simulate(pt.StrategyTree(model).parallelize(**fast), cluster).fits


def test_too_large_says_what_the_smallest_needs() -> None:
    with pytest.raises(StrategyError, match=r"none of .* fits .* needs at least .* GiB"):
        pt.search(pt.models.load("gpt3-175b"), CLUSTER, global_batch=8)


@pytest.mark.parametrize("bad", [{"top": 0}, {"budget": 0}, {"schedules": ("1f1c",)}])
def test_bad_settings(bad: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"at least 1|1f1b"):
        pt.search(MODEL, CLUSTER, global_batch=8, **bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [{"framework": "megatronn"}, {"precision": "bf61"}])
def test_unknown_names_are_named(bad: dict[str, str]) -> None:
    with pytest.raises(InputError, match=r"unknown .*; nearest: "):
        pt.search(MODEL, CLUSTER, global_batch=8, **bad)  # type: ignore[arg-type]


def test_processes_find_the_same() -> None:
    alone = pt.search(MODEL, CLUSTER, global_batch=8, top=3, budget=8)
    together = pt.search(MODEL, CLUSTER, global_batch=8, top=3, budget=8, workers=2)
    assert [f.settings for f in alone.found] == [f.settings for f in together.found]


def test_dask_finds_the_same() -> None:
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        outcome = pt.search(MODEL, CLUSTER, global_batch=8, top=3, budget=8, dask=cluster.scheduler_address)
    alone = pt.search(MODEL, CLUSTER, global_batch=8, top=3, budget=8)
    assert [f.settings for f in alone.found] == [f.settings for f in outcome.found]


def test_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    with pytest.raises(InputError, match="no scheduler answers"):
        pt.search(MODEL, CLUSTER, global_batch=8, dask="not an address")


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["search", "--model", "gpt2", "--cluster", "dgx-a100", "--global-batch", "8", "--top", "2"]
    assert main([*command, "--budget", "4", "--workers", "1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["found"]) == 2
    assert answer["found"][0]["step_time_s"] <= answer["found"][1]["step_time_s"]
    assert {"shapes", "pruned", "simulated", "left", "seconds", "model", "cluster", "devices"} <= set(answer)
