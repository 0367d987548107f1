"""Which GPUs a kernel runs on."""

from __future__ import annotations

import pytest

from proteus.frameworks import kernels
from proteus.frameworks.framework import KEEPS_SCORES, KINDS
from proteus.hardware import gpus


def runs(kernel: str, gpu: str) -> bool:
    return kernels.cannot_run(kernel, kernels.Chip.of(gpus.load(gpu))) is None


def test_every_fused_kernel_has_a_requirement_with_its_source() -> None:
    assert set(kernels.names()) == set(KINDS["attention"].choices) - set(KEEPS_SCORES)
    assert all(kernels.source(name) for name in kernels.names())


@pytest.mark.parametrize(
    ("kernel", "yes", "no"),
    [
        ("flash1", ("t4", "a100", "h100", "mi250x"), ("v100", "titan-xp", "mi100")),
        ("flash2", ("a100", "rtx-4090", "h100", "b200", "mi300x"), ("v100", "titan-xp", "t4", "mi50")),
        ("flash3", ("h100", "h200"), ("a100", "b200", "mi300x")),
        ("cudnn", ("a100", "b200"), ("v100", "mi300x")),
        ("memory_efficient", ("titan-xp", "v100", "m40", "mi300x"), ("k80", "mi50")),
    ],
)
def test_requirements(kernel: str, yes: tuple[str, ...], no: tuple[str, ...]) -> None:
    assert [gpu for gpu in yes if not runs(kernel, gpu)] == []
    assert [gpu for gpu in no if runs(kernel, gpu)] == []


def test_plain_kernels_run_everywhere() -> None:
    assert all(runs(kernel, gpu) for kernel in KEEPS_SCORES for gpu in gpus.names())


def test_a_chip_that_is_not_known_is_not_judged() -> None:
    assert kernels.cannot_run("flash2", kernels.Chip(vendor="other", generation="x", compute_capability=None)) is None
