"""Names of GPUs in the text around a matrix."""

from __future__ import annotations

from proteus.cluster.readers.models import find_models


def test_one_name_is_taken_for_all_with_a_warning() -> None:
    warnings: list[str] = []
    gpus = find_models(["GPU 0: NVIDIA H100 80GB HBM3 (UUID: x)"], [0, 1], warnings)
    assert [gpu and gpu.name for gpu in gpus] == ["h100-sxm", "h100-sxm"]
    assert warnings == ["the model of GPU 1 is not named; that of the others is taken"]


def test_nothing_named() -> None:
    assert find_models(["GPU 0 is busy", "0: some NVIDIA thing"], [0], []) == [None]
