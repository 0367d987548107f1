"""JSON on stdout."""

from __future__ import annotations

import json

import numpy as np
import pytest

from proteus.cli.output import announce, plain, print_json


def test_numpy_values_become_plain() -> None:
    value = {"n": np.int64(3), "x": np.float64(0.5), "ok": np.bool_(True), "many": np.arange(2), 7: (1,)}
    assert json.dumps(plain(value)) == '{"n": 3, "x": 0.5, "ok": true, "many": [0, 1], "7": [1]}'


@pytest.mark.parametrize("number", [float("inf"), float("nan"), np.float64("nan")])
def test_what_is_not_finite_is_null(number: float) -> None:
    assert plain([number]) == [None]


def test_one_value_on_stdout_and_talk_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    announce("working")
    print_json({"a": 1})
    out, err = capsys.readouterr()
    assert json.loads(out) == {"a": 1} and err == "proteus: working\n"
