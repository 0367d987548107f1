"""Degrees follow each other, and settings survive the way through a tree."""

from __future__ import annotations

import pytest

import proteus as pt
from proteus.errors import InputError
from proteus.strategy import NodeConfig
from proteus_widgets.settings import Settings, edits_of, follow, settings_of, tree_for

BASE = Settings(dp=4, tp=4, pp=2, global_batch=64)


def changed(**changes: object) -> Settings:
    return follow(BASE.changed(**changes), frozenset(changes), 32)


def test_dp_fills_what_tp_and_pp_leave() -> None:
    assert changed(tp=8).dp == 2
    assert changed(tp=2).dp == 8
    assert changed(pp=1).dp == 8


def test_dp_stays_when_the_user_sets_it() -> None:
    assert changed(dp=2).dp == 2
    assert changed(dp=2, tp=8).dp == 2


def test_dp_divides_the_batch() -> None:
    assert follow(Settings(tp=2, dp=4, global_batch=12), frozenset({"tp"}), 16).dp == 6


def test_a_batch_may_shrink_dp_but_not_grow_it() -> None:
    assert follow(Settings(dp=4, global_batch=6), frozenset({"global_batch"}), 32).dp == 3
    assert follow(Settings(dp=1, global_batch=64), frozenset({"global_batch"}), 32).dp == 1


def test_interleaving_and_virtual_stages_come_together() -> None:
    assert changed(schedule="interleaved").virtual_stages == 2
    interleaved = changed(virtual_stages=4)
    assert (interleaved.schedule, interleaved.virtual_stages) == ("interleaved", 4)
    assert follow(interleaved.changed(schedule="gpipe"), frozenset({"schedule"}), 32).virtual_stages == 1


def test_unknown_names_and_wrong_types_are_refused() -> None:
    with pytest.raises(InputError, match="nearest: tp"):
        BASE.changed(tpp=2)
    with pytest.raises(InputError, match="must be a int"):
        BASE.changed(tp="4")
    with pytest.raises(InputError, match="must be a int"):
        BASE.changed(tp=True)


@pytest.mark.parametrize(
    "settings",
    [
        BASE,
        Settings(dp=8, zero=3, recompute="full", global_batch=32),
        Settings(dp=2, tp=4, sequence_parallel=True, global_batch=8, precision="fp16", optimizer="sgd"),
        Settings(pp=4, schedule="interleaved", virtual_stages=2, global_batch=8),
    ],
)
def test_settings_read_off_a_tree_are_those_it_was_made_with(settings: Settings) -> None:
    model = pt.models.load("llama3-8b")
    tree, lost = tree_for(model, settings, ())
    assert lost == []
    assert settings_of(tree) == settings
    assert edits_of(tree, settings) == ()


def test_edits_go_on_top_of_the_recipe() -> None:
    model = pt.models.load("gpt2")
    settings = Settings(dp=2, global_batch=4)
    edits = (("layers.0-3", NodeConfig(recompute="full")),)
    tree, _ = tree_for(model, settings, edits)
    assert dict(tree.configs)["layers.0-3"].recompute == "full"
    assert edits_of(tree, settings) == edits


def test_an_edit_that_no_longer_fits_is_dropped_with_a_word() -> None:
    model = pt.models.load("gpt2")
    edits = (("layers.0.mlp.fc1", NodeConfig(partition={"ffn": ("cp",)})),)
    tree, lost = tree_for(model, Settings(dp=2, global_batch=4), edits)
    assert len(lost) == 1 and "cp" in lost[0]
    assert tree == tree_for(model, Settings(dp=2, global_batch=4), ())[0]
