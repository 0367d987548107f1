"""Golden text: the programs of one layer under the usual strategies."""

from __future__ import annotations

from pathlib import Path

import pytest

import proteus as pt
from proteus.compiler.chain import chain
from proteus.compiler.show import show

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "programs"
#: name → model and degrees; each has one layer of 8 tokens
PROGRAMS = {
    "tensor": ("tiny-llama", {"tp": 2}),
    "sequence": ("tiny-llama", {"dp": 2, "tp": 2, "sequence_parallel": True}),
    "sequence-recomputed": ("tiny-llama", {"tp": 2, "sequence_parallel": True, "recompute": "full"}),
    "context": ("tiny-llama", {"cp": 2}),
    "context-heads": ("tiny-llama", {"cp": 2, "context": "all_to_all"}),
    "experts": ("tiny-moe", {"dp": 2, "ep": 2}),
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_golden(name: str) -> None:
    model, degrees = PROGRAMS[name]
    tree = pt.StrategyTree(pt.models.load(model, layers=1, seq=8)).parallelize(**degrees)
    (chunk,) = chain(tree, element_bytes=2.0, fused_attention=True)
    layer = next(link.program for link in chunk.links if link.run.block.name == "layers")
    assert show(layer) == (GOLDEN / f"{name}.txt").read_text()
