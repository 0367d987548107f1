from __future__ import annotations

import pytest

import proteus as pt
from proteus.errors import StrategyError
from proteus.strategy.select import Match, check_selector, match_block

LLAMA = pt.models.load("tiny-llama")
RESNET = pt.models.load("resnet50")


@pytest.mark.parametrize(
    ("selector", "block", "found"),
    [
        ("", "layers", Match(None, ())),
        ("layers", "layers", Match(None, ())),
        ("layers.*", "layers", Match(None, ())),
        ("layers.2", "layers", Match(range(2, 3), ())),
        ("layers.1-9.mlp", "layers", Match(range(1, 4), ("mlp",))),
        ("*.*.attention", "layers", Match(None, ("attention",))),
        ("layers.*.*.norm", "layers", Match(None, ("*", "norm"))),
        ("head.loss", "head", Match(None, ("loss",))),
        ("head", "layers", None),
        ("layers.7", "layers", None),
        ("layers.*.mlp.fc9", "layers", None),
    ],
)
def test_match(selector: str, block: str, found: Match | None) -> None:
    assert match_block(selector, next(b for b in LLAMA.blocks if b.name == block)) == found


def test_blocks_that_share_a_name_count_on() -> None:
    """ResNet's layer1.0 is a block of its own; layer1.1 and layer1.2 are copies of another."""
    first = next(block for block in RESNET.blocks if block.name == "layer1.0")
    rest = next(block for block in RESNET.blocks if block.name == "layer1")
    assert match_block("layer1.0", first) == Match(None, ())
    assert match_block("layer1.*", first) == Match(None, ())
    assert match_block("layer1.0", rest) is None
    assert match_block("layer1.2", rest) == Match(range(1, 2), ())


def test_an_unknown_node_names_the_nearest() -> None:
    with pytest.raises(StrategyError, match=r"unknown tree node 'layers.\*.atention'; nearest: .*attention"):
        check_selector("layers.*.atention", LLAMA)
