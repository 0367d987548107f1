"""Dims in a line of text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proteus.errors import InputError
from proteus.model.dims import parse, text

SCALARS = st.integers(0, 10**9) | st.booleans() | st.none() | st.sampled_from(["gelu", "rms_norm"]) | st.floats(0.01, 9)
NAMES = st.sampled_from(["layers", "hidden", "dropout", "norm"])


@given(st.dictionaries(NAMES, SCALARS, min_size=1), st.dictionaries(NAMES, SCALARS, min_size=1))
def test_what_is_written_is_read_again(dims: dict[str, Any], nested: dict[str, Any]) -> None:
    whole = {**dims, "experts": nested, "sizes": [1, 2]}
    assert parse(text(whole)) == whole


@pytest.mark.parametrize(
    "line", ["layers", "layers=", "=4", "layers=4,,hidden=2", "layers=4,layers=5", "a=1,a.b=2", "a.b=2,a=1"]
)
def test_what_is_no_dim_is_refused(line: str) -> None:
    with pytest.raises(InputError):
        parse(line)
