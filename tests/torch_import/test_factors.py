"""Dims split, merge and become one as views and ops need it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proteus.torch_import.factors import Factor, atoms, fresh, reshape, size_of, unify


def sizes(axes: list[list[Factor]]) -> list[list[int]]:
    return [[f.size for f in atoms(axis)] for axis in axes]


def test_a_view_splits_and_a_flatten_lists() -> None:
    batch, hidden = Factor(3), Factor(12)
    split = reshape([[batch], [hidden]], (3, 4, 3))
    assert split is not None and sizes(split) == [[3], [4], [3]]
    merged = reshape(split, (12, 3))
    assert merged is not None and sizes(merged) == [[3, 4], [3]]
    back = reshape(merged, (3, 12))
    assert back is not None and back[1] != [] and [id(f) for f in atoms(back[1])] == [id(f) for f in atoms([hidden])]


def test_what_is_split_is_split_wherever_it_stands() -> None:
    hidden = Factor(12)
    weight = [[Factor(5)], [hidden]]
    reshape([[hidden]], (4, 3))
    assert sizes(weight) == [[5], [4, 3]]


def test_unified_dims_share_their_splits_and_names() -> None:
    one, two = Factor(12), Factor(12)
    two.hint("hidden", 1)
    assert unify([one], [two])
    reshape([[one]], (2, 6))
    assert [id(f) for f in atoms([one])] == [id(f) for f in atoms([two])]
    assert "hidden" in one.hints


def test_grouped_heads_are_found_by_unifying() -> None:
    heads, kv_heads, repeats = Factor(8), Factor(2), Factor(4)
    assert unify([heads], [kv_heads, repeats])
    assert sizes([[heads]]) == [[2, 4]]


def test_parts_that_do_not_fit_are_refused() -> None:
    assert not unify([Factor(6)], [Factor(4)])
    assert reshape([[Factor(4)], [Factor(3)]], (6, 2)) is None
    whole = Factor(6)
    whole.is_whole = True
    assert reshape([[whole]], (2, 3)) is None
    assert not unify([whole], [Factor(2), Factor(3)])


def test_a_dim_of_one_has_no_factors() -> None:
    assert fresh(1) == []
    assert reshape([[Factor(4)]], (1, 4, 1)) is not None


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.data())
def test_reshape_keeps_every_element(parts: list[int], data: st.DataObject) -> None:
    axes = [fresh(size) for size in parts]
    cut = data.draw(st.integers(0, len(parts)))
    shape = (size_of(f for a in axes[:cut] for f in a), size_of(f for a in axes[cut:] for f in a))
    made = reshape(axes, shape)
    assert made is not None
    assert [size_of(axis) for axis in made] == list(shape)
    again = reshape(made, parts)
    assert again is not None and sizes(again) == sizes(axes)
