"""What a control offers is what the recipe takes, and the rest says why not."""

from __future__ import annotations

import pytest

import proteus as pt
from proteus.errors import ProteusError
from proteus_widgets.options import possible, repair, why_not
from proteus_widgets.settings import Settings, follow

MODEL = pt.models.load("llama3-8b")
BASE = Settings(dp=4, tp=4, pp=2, global_batch=64)


def reasons(field: str, settings: Settings = BASE, devices: int = 32) -> dict[object, str]:
    return {option.value: option.reason for option in possible(field, settings, MODEL, devices)}


def test_tensor_degrees() -> None:
    found = reasons("tp")
    assert [tp for tp, reason in found.items() if not reason] == [1, 2, 4, 8, 16]
    assert found[32] == "needs 256 GPUs, the cluster has 32"


def test_heads_that_do_not_divide_are_named() -> None:
    falcon = pt.models.load("gpt-1.5b")  # 25 heads
    found = {o.value: o.reason for o in possible("tp", Settings(global_batch=8), falcon, 8)}
    assert found[5] == ""
    assert "tp=2 does not divide 25 attention heads" in found[2]


def test_expert_degree_needs_experts() -> None:
    assert list(reasons("ep")) == [1]


def test_schedule_is_offered_with_the_chunks_it_needs() -> None:
    assert reasons("schedule")["interleaved"] == ""


@pytest.mark.parametrize("field", ["dp", "tp", "pp", "cp", "micro_batch", "schedule", "virtual_stages", "zero"])
def test_what_is_offered_can_be_done(field: str) -> None:
    for option in possible(field, BASE, MODEL, 32):
        trial = follow(BASE.changed(**{field: option.value}), frozenset({field}), 32)
        try:
            tree = pt.StrategyTree(MODEL).parallelize(**trial.to_dict())
            done = tree.num_devices <= 32
        except ProteusError:
            done = False
        assert done == (not option.reason), option


def test_the_present_value_is_always_there() -> None:
    for field in ("dp", "tp", "pp", "cp", "ep", "micro_batch"):
        settings = Settings(dp=3, tp=1, global_batch=9)
        assert getattr(settings, field) in reasons(field, settings)


@pytest.mark.parametrize(("model", "devices"), [("gpt-1.5b", 32), ("resnet50", 8), ("llama3-8b", 4), ("gpt2", 1)])
def test_repair_finds_settings_that_fit(model: str, devices: int) -> None:
    other = pt.models.load(model)
    fixed = repair(BASE, other, devices)
    assert why_not(fixed, other, devices) == ""


def test_repair_leaves_what_fits_alone() -> None:
    assert repair(BASE, MODEL, 32) == BASE
