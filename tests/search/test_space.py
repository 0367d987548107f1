"""The shapes of a search: what is looked at, and what a rule keeps out."""

from __future__ import annotations

import pytest

import proteus as pt
from proteus.errors import StrategyError
from proteus.search.space import Shape, divisors, savings, shapes


def shape(**changes: object) -> Shape:
    settings = {
        "dp": 2, "tp": 1, "pp": 1, "cp": 1, "ep": 1, "micro_batch": 1, "schedule": "1f1b", "virtual_stages": 1,
        "global_batch": 8,
    }  # fmt: skip
    return Shape(**{**settings, **changes})  # type: ignore[arg-type]


def test_divisors() -> None:
    assert divisors(1) == [1]
    assert divisors(36) == [1, 2, 3, 4, 6, 9, 12, 18, 36]


def test_every_shape_uses_all_devices_and_compiles() -> None:
    model, cluster = pt.models.load("gpt2"), pt.clusters.load("dgx-a100")
    every_shape = shapes(model, cluster, 16, ("1f1b", "interleaved"))
    assert len(set(every_shape)) == len(every_shape)
    for one in every_shape:
        assert one.dp * one.tp * one.pp * one.cp == 8
        tree = pt.StrategyTree(model).parallelize(**one.settings())
        assert tree.num_devices == 8
        assert tree.num_micro_batches == one.num_micro_batches


def test_rules() -> None:
    model, cluster = pt.models.load("llama3-8b"), pt.clusters.load("dgx-a100", nodes=4)
    every_shape = shapes(model, cluster, 64, ("1f1b", "interleaved"))
    assert {one.tp for one in every_shape} == {1, 2, 4, 8}  # tensor parallelism stays inside a host
    assert all(model.seq // one.cp >= 4096 for one in every_shape)
    assert all(one.num_micro_batches >= one.pp for one in every_shape if one.pp > 1)
    assert all(one.num_micro_batches % one.pp == 0 for one in every_shape if one.schedule == "interleaved")
    assert {one.ep for one in every_shape} == {1}


def test_experts_are_cut_where_there_are_some() -> None:
    model, cluster = pt.models.load("mixtral-8x7b"), pt.clusters.load("dgx-h100")
    every_shape = shapes(model, cluster, 16, ("1f1b",))
    assert {one.ep for one in every_shape} == {1, 2, 4, 8}
    assert {(one.tp, one.ep) for one in every_shape if one.etp == 1} == {
        (t, e) for t in (2, 4, 8) for e in (2, 4, 8) if e >= t
    }
    for one in every_shape:
        pt.StrategyTree(model).parallelize(**one.settings())


def test_nothing_fits_the_batch() -> None:
    model, cluster = pt.models.load("resnet50"), pt.clusters.load("dgx-a100")
    with pytest.raises(StrategyError, match="global_batch=7 over 8 devices"):
        shapes(model, cluster, 7, ("1f1b",))


def test_savings_go_from_fast_to_small() -> None:
    ladder = list(savings(shape()))
    assert ladder[0] == {"zero": 1, "recompute": "none"}
    assert ladder[-1] == {"zero": 3, "recompute": "full"}
    assert all(step["zero"] == 0 for step in savings(shape(dp=1)))
    assert all(step["zero"] < 3 for step in savings(shape(pp=2)))  # parameters are not gathered for every micro-batch
