"""Spans as columns, for pandas and for those without it."""

from __future__ import annotations

import sys

import pytest

from proteus.errors import InputError
from tests.result.samples import result


def test_columns_are_as_long_as_the_spans() -> None:
    outcome = result("interleaved")
    columns = outcome.to_columns()
    assert {len(column) for column in columns.values()} == {len(outcome.spans)}
    assert set(columns["stream"]) >= {"compute", "tensor", "pipeline"}
    assert (columns["bytes"][columns["kind"] == "forward"] == 0).all()
    assert (columns["bytes"][columns["kind"] == "pipeline_comm"] > 0).all()
    assert columns["is_critical"].sum() == len(outcome.critical_path.spans)


def test_table_of_pandas() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    outcome = result("tensor")
    table = outcome.to_dataframe()
    assert isinstance(table, pandas.DataFrame)
    device = outcome.devices[0]
    exposed = table[table.device == device.device].groupby("kind")["exposed_s"].sum()
    assert exposed["tensor_comm"] == pytest.approx(device.exposed_s["tensor"])


def test_without_pandas_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="to_columns"):
        result("tensor").to_dataframe()
