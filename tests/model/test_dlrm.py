"""The paper's recommendation model."""

from __future__ import annotations

import pytest

from proteus.errors import ModelError
from proteus.model import zoo
from proteus.model.graph import OpKind, Role


def test_parameters_of_the_paper() -> None:
    """516M: 8 tables of a million rows of 64, and two MLPs with biases."""
    tables = 8 * 1_000_000 * 64
    bottom = 128 * 512 + 512 * 512 * 2 + 512 * 64 + 3 * 512 + 64
    # 64 dense values and 9 * 8 / 2 = 36 products feed the top
    top = 100 * 1024 + 1024 * 1024 * 3 + 1024 + 4 * 1024 + 1
    model = zoo.load("dlrm")
    assert model.num_params == tables + bottom + top
    assert round(model.num_params / 1e6) == 516


def test_flop() -> None:
    mlps = 128 * 512 + 512 * 512 * 2 + 512 * 64 + 100 * 1024 + 1024 * 1024 * 3 + 1024
    assert zoo.load("dlrm").flop() == 2 * mlps + 2 * 9 * 9 * 64


def test_tables_can_be_placed_or_cut() -> None:
    bag = next(op for op in zoo.load("dlrm").blocks[0].ops if op.kind is OpKind.EMBEDDING_BAG)
    assert bag.dims["tables"].role is Role.PARALLEL
    assert bag.dims["rows"].role is Role.REDUCTION
    assert bag.dims["lookups"].size == bag.attrs["pooling"] == 100


def test_the_bottom_must_end_in_an_embedding() -> None:
    with pytest.raises(ModelError, match="the bottom MLP ends in 32, but embedding_dim=64"):
        zoo.load("dlrm", bottom=[128, 32])
