"""What a control offers is what the recipe takes, and the rest says why not."""

from __future__ import annotations

from typing import Any

import pytest

import proteus as pt
from proteus_widgets import Session
from proteus_widgets.fields import FIELDS
from proteus_widgets.moment import Moment
from proteus_widgets.options import Option, possible
from tests.widgets.test_changes import by_hand

MODEL = pt.models.load("llama3-8b")
MENUS = [field.name for field in FIELDS if field.form == "menu"]


def moment(model: pt.Model = MODEL, devices: int = 32, **said: Any) -> Moment:
    said = said or {"dp": "fill", "tp": 4, "pp": 2, "global_batch": 64}
    cluster = pt.clusters.load("dgx-a100", nodes=devices // 8)
    return Moment(tree=pt.StrategyTree(model).parallelize(**said).on_devices(devices), cluster=cluster)


def options(name: str, *, at: Moment | None = None, **said: Any) -> dict[Any, Option]:
    return {option.value: option for option in possible(name, at or moment(**said))}


def test_tensor_degrees() -> None:
    found = options("tp")
    assert [tp for tp, option in found.items() if not option.reason] == [1, 2, 4, 8, 16]
    assert "64 devices, there are 32" in found[32].reason
    assert options("tp", dp=4, tp=4, pp=2, global_batch=64)[8].reason == "needs 64 GPUs, the cluster has 32"


def test_heads_that_do_not_divide_are_named() -> None:
    at = moment(pt.models.load("gpt-1.5b"), 8, dp="fill", global_batch=8)  # 25 heads
    found = options("tp", at=at)
    assert found[5].reason == ""
    assert "tp=2 does not divide 25 attention heads" in found[2].reason


def test_expert_degree_needs_experts() -> None:
    assert list(options("ep")) == [1]


def test_data_parallelism_may_fill_what_is_left() -> None:
    found = options("dp")
    assert next(iter(found)) == "fill" and found["fill"].label == "fill (4)" and None not in found
    assert found[8].reason == "needs 64 GPUs, the cluster has 32"
    assert "nearest: 96" in options("dp", tp=8, global_batch=97)[2].reason


def test_saying_nothing_is_an_entry_that_tells_what_holds_then() -> None:
    assert options("schedule")[None].label == "1f1b (default)"
    assert options("precision")[None].label == "bf16 (default)"
    assert options("attention", framework="torchtitan")[None].label == "flash2 (default)"
    at = Moment(tree=by_hand(), cluster=pt.clusters.load("dgx-a100"))
    assert None not in options("schedule", at=at) and "by hand" in options("dp", at=at)[1].reason


def test_kernels_that_the_gpu_cannot_run_are_not_offered() -> None:
    found = options("attention")
    assert "does not run on a100-80gb" in found["flash3"].reason and found["flash2"].reason == ""


def test_a_value_that_would_come_to_another_is_not_offered() -> None:
    found = options("schedule", dp=4, tp=4, pp=2, virtual_stages=4, global_batch=64)
    assert found["1f1b"].reason == "with the other settings this becomes interleaved"
    assert found["interleaved"].reason == "" and "virtual_stages=4" in found["gpipe"].reason


@pytest.mark.parametrize("name", MENUS)
def test_what_is_offered_can_be_done(name: str) -> None:
    session = Session(pt.StrategyTree(pt.models.load("tiny-moe")).parallelize(dp=2, tp=2, global_batch=8), MOE_BOX)
    for option in session.possible(name):
        before = session.tree
        if session.change(**{name: option.value}):
            holds = session.decided.value(name)
            assert option.reason == "" or holds != option.value, option
            assert session.undo() and session.tree == before
        else:
            assert option.reason or name in COMPILED, (option, session.error)


MOE_BOX = pt.clusters.load("dgx-a100")
#: what the recipe takes and the compiler may still refuse
COMPILED = ("schedule", "virtual_stages")


@pytest.mark.parametrize("name", MENUS)
def test_the_present_value_is_always_there(name: str) -> None:
    at = moment(devices=8, dp=3, tp=1, global_batch=9)
    value = at.tree.decided.value(name)
    found = options(name, at=at)
    assert value in found or None in found
