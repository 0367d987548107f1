"""A digest follows content: not the order of keys, not the process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from proteus.model.digest import digest
from proteus.model.graph import Dim, Role


def test_it_follows_content() -> None:
    values = [{"a": 1}, {"a": 2}, {"b": 1}, [1, 2], [2, 1], "1", 1, None, Dim(4, Role.PARALLEL), Dim(4, Role.REDUCTION)]
    assert len({digest(value) for value in values}) == len(values)
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})


def test_it_reads_no_arbitrary_objects() -> None:
    with pytest.raises(TypeError, match="object has no digest"):
        digest(object())


def test_it_is_the_same_in_every_process() -> None:
    code = "import proteus as pt; print(pt.models.load('tiny-moe').digest)"
    digests = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        digests.add(
            subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout
        )
    assert len(digests) == 1
