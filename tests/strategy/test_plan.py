"""One plan: every way in is a view of it, and nothing that is said is lost."""

from __future__ import annotations

import contextlib
import inspect
import math
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

import proteus as pt
from proteus.errors import ProteusError, StrategyError
from proteus.frameworks import load
from proteus.strategy import StrategyTree
from proteus.strategy.plan import GROUPS, Plan, decide, specs

TINY = StrategyTree(pt.models.load("tiny-llama"))
#: values of fields that a tiny model can carry together on any number of devices
POSSIBLE: dict[str, list[Any]] = {
    "dp": [1, 2, "fill"],
    "tp": [1, 2],
    "pp": [1, 2],
    "micro_batch": [1, 2],
    "global_batch": [16, 32],
    "zero": [0, 1, 2, 3],
    "sequence_parallel": [True, False],
    "recompute": ["none", "selective", "full", "op"],
    "recompute_modules": [(), ("norm",), ("norm", "activation")],
    "offload": [(), ("optimizer",)],
    "bucket_bytes": [1e6, 25e6],
    "overlap_gradients": [True, False],
    "overlap_parameters": [True, False],
    "overlap_steps": [True, False],
    "precision": ["bf16", "fp32"],
    "optimizer": ["adam", "sgd"],
    "attention": ["flash2", "unfused"],
    "freeze": [(), ("embedding",)],
    "max_in_flight": [1, 2],
}
#: what users type by mistake
JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 10**30), st.floats(), st.text(max_size=5), st.binary(max_size=3),
    st.lists(st.one_of(st.integers(-2, 5), st.text(max_size=3), st.floats()), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2), st.just(object), st.just(math.nan),
)  # fmt: skip


def test_the_signature_of_parallelize_is_the_plan() -> None:
    parameters = inspect.signature(StrategyTree.parallelize).parameters
    *names, unknown = list(parameters)[2:]
    assert names == list(specs()) and parameters[unknown].kind is inspect.Parameter.VAR_KEYWORD
    hints, fields = get_type_hints(StrategyTree.parallelize), get_type_hints(Plan)
    for name in specs():
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY and parameters[name].default is None
        assert hints[name] == fields[name], name


def test_every_field_says_what_it_is() -> None:
    for name, spec in specs().items():
        assert spec.group in GROUPS and spec.help and spec.kind.rule and spec.kind.metavar, name
        if spec.default is not None and name != "framework":
            assert spec.kind.check(spec.default) == spec.default


@given(st.sampled_from(sorted(specs())), JUNK)
def test_any_value_is_taken_or_refused_with_its_name(name: str, value: object) -> None:
    try:
        plan = Plan.of({name: value})
    except StrategyError as error:
        assert str(error).startswith(name)
    else:
        assert plan.said.keys() <= {name}


@given(st.sampled_from(sorted(specs())), JUNK)
def test_no_argument_of_parallelize_is_a_bare_error(name: str, value: object) -> None:
    with contextlib.suppress(ProteusError):
        TINY.parallelize(**{name: value})


def test_a_misspelt_field_names_the_nearest() -> None:
    with pytest.raises(StrategyError, match="unknown field of a plan 'tpp'; nearest: "):
        Plan.of({"tpp": 2})
    with pytest.raises(StrategyError, match="unknown field of a plan 'tpp'; nearest: "):
        TINY.parallelize(tpp=2)
    with pytest.raises(StrategyError, match="unknown field of a plan"):
        TINY.parallelize(dp=2).change(tpp=2)


plans = st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in POSSIBLE.items()})


@given(plans, st.permutations(sorted(POSSIBLE)))
def test_the_tree_does_not_depend_on_the_path_of_changes(said: dict[str, Any], order: list[str]) -> None:
    try:
        at_once = TINY.parallelize(**said)
    except StrategyError:
        return
    step_by_step = TINY.parallelize(dp=1, global_batch=32)
    for name in order:
        try:
            step_by_step = step_by_step.change(**{name: said.get(name)})
        except StrategyError:  # impossible on the way, not at the end
            return
    assert step_by_step == at_once and step_by_step.plan == at_once.plan


@given(plans, st.sampled_from(sorted(POSSIBLE)), st.data())
def test_a_change_changes_what_it_names_and_nothing_else(said: dict[str, Any], name: str, data: st.DataObject) -> None:
    value = data.draw(st.sampled_from(POSSIBLE[name]))
    try:
        before = TINY.parallelize(**said).set("layers.1.mlp.norm", recompute="full")
        after = before.change(**{name: value})
    except StrategyError:
        return
    assert before.plan is not None and after.plan is not None
    assert after.plan.said == {**before.plan.said, name: value}
    assert after.edits == before.edits
    assert after.change(**{name: said.get(name)}) == before


@given(plans)
def test_a_tree_reads_back_with_its_plan(said: dict[str, Any]) -> None:
    try:
        tree = TINY.parallelize(**said)
    except StrategyError:
        return
    again = StrategyTree.from_yaml(tree.to_yaml())
    assert again == tree and again.plan == tree.plan


def test_the_users_word_wins_then_the_frameworks_then_proteus() -> None:
    framework = load("megatron-core")
    decided = decide(Plan(zero=2, framework="megatron-core"), framework)
    assert (decided["zero"].value, decided["zero"].who) == (2, "you")
    for name, value in framework.defaults.items():
        assert decided[name].who == ("you" if name == "zero" else "framework")
        assert name == "zero" or decided[name].value == specs()[name].kind.check(value)
    assert decided["lora_dropout"].who == "proteus"
    assert "pad_vocab" in framework.defaults  # what a model is does not follow from a framework that nobody named
    assert decide(Plan(), framework)["pad_vocab"].who == "proteus"


def test_fill_follows_the_cluster_and_a_number_does_not() -> None:
    tree = TINY.parallelize(dp="fill", tp=2, micro_batch=1)
    one, two = (pt.clusters.load("dgx-a100", nodes=nodes) for nodes in (1, 2))
    assert pt.simulate(tree, one).num_devices == 8
    assert pt.simulate(tree, two).num_devices == 16
    fixed = pt.simulate(TINY.parallelize(dp=2, tp=2), two)
    assert fixed.num_devices == 4 and fixed.idle_devices == 12
    assert any("12 of 16 devices are idle" in line for line in fixed.assumptions)


def test_a_batch_that_does_not_divide_names_the_nearest_that_do() -> None:
    with pytest.raises(StrategyError, match="nearest: 32 or 40; with this batch dp could be 6"):
        TINY.parallelize(dp=8, global_batch=36)
    with pytest.raises(StrategyError, match="nearest: 8"):
        pt.simulate(TINY.parallelize(dp="fill", global_batch=7), pt.clusters.load("dgx-a100"))


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"recompute_layers": 1}, "recompute_layers=1 says where"),
        ({"shard": 2, "dp": 4}, "no effect with zero=0"),
        ({"num_devices": 8}, "dp='fill'"),
        ({"layers_per_stage": (2, 2), "pipeline_cut": "layers", "pp": 2}, "give one of them"),
        ({"lora_targets": ("mlp",)}, "give the rank"),
    ],
)
def test_what_needs_another_word_is_refused(said: dict[str, Any], message: str) -> None:
    with pytest.raises(StrategyError, match=message):
        TINY.parallelize(**said)


def test_what_changes_nothing_is_told() -> None:
    assert TINY.parallelize(sequence_parallel=True).notes == ("sequence_parallel=True changes nothing: tp is 1",)
    assert TINY.parallelize(sequence_parallel=True, tp=2).notes == ()


def test_as_little_recomputation_as_fits() -> None:
    model = StrategyTree(pt.models.load("llama3-8b"))
    cluster = pt.clusters.load("dgx-a100")
    small = pt.simulate(model.parallelize(dp="fill", zero=3, recompute="auto", seq=2048), cluster)
    assert small.fits and "recompute=auto: nothing is recomputed, it fits" in small.assumptions
    large = pt.simulate(model.parallelize(dp="fill", zero=3, recompute="auto", micro_batch=4), cluster)
    assert large.fits and large.step_time_s > small.step_time_s
    assert any(line.startswith("recompute=auto: ") and "recomputed" in line for line in large.assumptions)
    least = pt.simulate(model.parallelize(dp="fill", zero=3, recompute="full", micro_batch=4), cluster)
    assert large.step_time_s <= least.step_time_s
