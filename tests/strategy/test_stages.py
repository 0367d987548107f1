from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import proteus as pt
from proteus.errors import StrategyError
from proteus.strategy.stages import CUTS, balanced_edges, split_chain


def test_equal_layers_when_they_divide() -> None:
    model = pt.models.load("llama3-8b")  # embedding, 32 layers, head
    assert split_chain(model, 4) == ((0, 9), (9, 17), (17, 25), (25, 34))


def test_a_list_of_layers_is_taken_as_it_is() -> None:
    assert split_chain(pt.models.load("llama3-8b"), 2, [20, 12]) == ((0, 21), (21, 34))


def test_a_list_may_count_all_kinds_of_layers() -> None:
    model = pt.models.load("deepseek-v3")  # embedding, 3 dense layers, 58 sparse ones, head
    assert split_chain(model, 4, [2, 30, 29, 0]) == ((0, 3), (3, 33), (33, 62), (62, 63))
    assert split_chain(model, 2, [30, 28]) == ((0, 34), (34, 63))  # of the sparse ones
    with pytest.raises(StrategyError, match="add up to the 58 layers or to all 61"):
        split_chain(model, 2, [30, 30])


def test_uneven_layers_balance_flop() -> None:
    model = pt.models.load("resnet50")
    chunks = split_chain(model, 3)
    flop = [sum(op.flop() for op in block.ops) for block in model.blocks for _ in range(block.count)]
    heaviest = max(sum(flop[a:b]) for a, b in chunks)
    every = (
        max(sum(flop[:a]), sum(flop[a:b]), sum(flop[b:])) for a, b in itertools.combinations(range(1, len(flop)), 2)
    )
    assert heaviest == pytest.approx(min(every))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.data())
def test_balanced_edges_are_the_best_of_all_cuts(cost: list[int], data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, len(cost)))
    edges = balanced_edges(tuple(cost), parts)

    def heaviest(cuts: tuple[int, ...]) -> int:
        return max(sum(cost[a:b]) for a, b in itertools.pairwise((0, *cuts, len(cost))))

    assert edges[0] == 0 and edges[-1] == len(cost) and all(a < b for a, b in itertools.pairwise(edges))
    best = min(heaviest(cuts) for cuts in itertools.combinations(range(1, len(cost)), parts - 1))
    assert heaviest(tuple(edges[1:-1])) == best


def test_more_chunks_than_blocks_are_refused() -> None:
    with pytest.raises(StrategyError, match="7 pipeline chunks for 6 blocks"):
        split_chain(pt.models.load("tiny-llama"), 7)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(("layers", "chunks"), [(22, 8), (46, 16), (32, 3), (7, 7), (40, 4), (48, 8), (2, 2)])
def test_every_layer_has_a_stage(cut: str, layers: int, chunks: int) -> None:
    layer_counts = CUTS[cut](layers, chunks)
    assert layer_counts is None or (
        len(layer_counts) == chunks and sum(layer_counts) == layers and min(layer_counts) >= 0
    )
