"""An image as tokens."""

from __future__ import annotations

import pytest

from proteus.errors import ModelError
from proteus.model import zoo


def test_tokens_of_an_image() -> None:
    block = zoo.load("vit-b/16").blocks[0]
    ops = {op.name: op for op in block.ops}
    assert block.shape("patch.out") == (1, 768, 14, 14)
    assert ops["flatten"].attrs == {"merge": {"patches": ("rows", "columns")}}
    assert block.shape("flatten.out") == (1, 196, 768)
    assert block.shape("join.out") == (1, 197, 768)
    assert ops["patch"].flop() == 2 * 196 * 768 * 3 * 16 * 16


def test_a_length_that_is_not_the_grid() -> None:
    with pytest.raises(
        ModelError, match="seq=100, but a 224 px image in patches of 16 px gives 196 tokens and one class"
    ):
        zoo.load("vit-b/16", seq=100)
