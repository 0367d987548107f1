"""What a spec refuses, and the slots of an expert."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proteus.errors import ModelError
from proteus.model.spec import Experts, Patches, TransformerSpec

SMALL: dict[str, Any] = {"name": "m", "layers": 2, "hidden": 64, "heads": 8, "ffn": 128, "vocab": 100, "seq": 16}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": 0}, "m: layers=0; it must be a whole number, at least 1"),
        ({"seq": 1.5}, "m: seq=1.5; it must be a whole number"),
        ({"hidden": 65}, "hidden=65 is not a multiple of heads=8; give head_dim as well"),
        ({"kv_heads": 3}, "heads=8 is not a multiple of kv_heads=3"),
        ({"positions": 8}, "seq=16 is more than its 8 learned positions; choose seq at most 8"),
        ({"document": 0}, "m: document=0; it must be a whole number, at least 1"),
        ({"layers": True}, "m: layers=True; it must be a whole number"),
        ({"layers": 10**30}, "it must be at most 10000"),
        ({"kv_heads": "8"}, "m: kv_heads='8'; it must be a whole number"),
        ({"dropout": float("nan")}, "m: dropout=nan; it must be a number"),
        ({"dropout": 1.5}, "m: dropout=1.5; it must be from 0 to below 1"),
        ({"tied": "no"}, "m: tied='no'; it must be true or false"),
        ({"norm": "rmsnorm"}, "m: unknown norm 'rmsnorm'; nearest: rms_norm"),
        ({"experts": 8}, "m: experts=8; it must be a value of Experts"),
        ({"experts": Experts(num=0, topk=1, ffn=8)}, "m: experts: num=0; it must be a whole number, at least 1"),
        ({"experts": Experts(num=4, topk=1, ffn=8, capacity_factor=0.0)}, "capacity_factor=0.0; it must be above 0"),
        ({"patches": Patches(image=8, patch=16)}, "patches of 16 px in an image of 8 px"),
        ({"experts": Experts(num=4, topk=5, ffn=8)}, "topk=5 of 4 experts"),
    ],
)
def test_an_impossible_spec_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError) as caught:
        TransformerSpec(**(SMALL | changes))
    assert message in str(caught.value)


def test_heads_default_to_plain_attention() -> None:
    spec = TransformerSpec(**SMALL)
    assert (spec.num_kv_heads, spec.size_per_head) == (8, 8)
    grouped = TransformerSpec(**SMALL, kv_heads=2, head_dim=32)
    sizes = grouped.dims()
    assert (sizes["kv_heads"], sizes["q_per_kv"], sizes["head_dim"]) == (2, 4, 32)


def test_slots_are_balanced() -> None:
    assert Experts(num=8, topk=2, ffn=1).slots(4096) == 1024
    assert Experts(num=8, topk=2, ffn=1, capacity_factor=1.25).slots(4096) == 1280
    assert Experts(num=8, topk=2, ffn=1, dropless=True).slots(4096) == 4096
    assert Experts(num=256, topk=8, ffn=1).slots(1) == 1


@given(st.integers(1, 64), st.integers(1, 10_000), st.data())
def test_slots_hold_all_choices_when_balanced(num: int, tokens: int, data: st.DataObject) -> None:
    topk = data.draw(st.integers(1, num))
    slots = Experts(num=num, topk=topk, ffn=1).slots(tokens)
    assert slots * num >= tokens * topk
    assert (slots - 1) * num < tokens * topk


def test_a_patch_grid() -> None:
    assert Patches(image=224, patch=16).side == 14
