"""The controls know every field of the plan, and name what changed."""

from __future__ import annotations

import pytest

import proteus as pt
from proteus.strategy import StrategyTree
from proteus.strategy.plan import GROUPS, specs
from proteus_widgets.fields import FIELDS, FIRST, LABELS, differences, origin, shown

TREE = StrategyTree(pt.models.load("gpt2")).parallelize(dp=2, tp=2, pp=2, global_batch=16, zero=1)


def test_every_field_of_the_plan_has_a_control() -> None:
    assert sorted(field.name for field in FIELDS) == sorted(specs())
    assert {*FIRST, *LABELS} <= set(specs())
    for field in FIELDS:
        spec = specs()[field.name]
        assert (field.help, field.group.lower()) == (spec.help, spec.group) and field.label
    groups = [field.group.lower() for field in FIELDS]
    assert groups == sorted(groups, key=GROUPS.index)


@pytest.mark.parametrize("name", sorted(specs()))
def test_a_typed_value_reads_back(name: str) -> None:
    field = next(field for field in FIELDS if field.name == name)
    value = TREE.decided.value(name)
    if value is not None:
        assert field.parse(field.kind.text(value)) == value


def test_values_in_words() -> None:
    tree = TREE.change(dp="fill", max_in_flight=2).on_devices(32)
    assert [shown(tree, name) for name in ("dp", "zero", "sequence_parallel", "recompute", "etp")] == [
        "fill (8)", "1 · optimizer", "off", "none", "not set",
    ]  # fmt: skip
    said = [origin(tree, name) for name in ("zero", "precision", "schedule", "seq")]
    assert said == ["set by you", "default", "default of megatron-core", "from the model"]


def test_differences_name_what_was_said_and_what_follows_of_the_batch() -> None:
    assert differences(TREE, TREE) == []
    assert differences(TREE, TREE.change(zero=2, overlap_steps=True)) == [
        "zero 1 · optimizer → 2 · + gradients",
        "overlap steps off → on",
    ]
    filling = TREE.change(dp="fill").on_devices(8)
    assert differences(filling, filling.change(tp=4)) == ["dp fill (2) → fill (1)", "tp 2 → 4"]
    unsaid = TREE.change(global_batch=None)
    assert differences(unsaid, unsaid.change(dp=4)) == ["dp 2 → 4", "global batch 4 → 8"]
