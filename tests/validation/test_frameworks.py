"""Which framework's habits a free text means."""

from __future__ import annotations

import pytest

from proteus.costs import profile as profiles
from proteus.validation.frameworks import framework_of
from proteus.validation.runs import shipped_runs


@pytest.mark.parametrize(
    ("text", "version", "generation", "name"),
    [
        ("megatron-lm", "", "ampere", "megatron-lm"),
        ("megatron-lm", "core_r0.7", "ampere", "megatron-core"),
        ("megatron-lm", "", "hopper", "megatron-lm since Hopper"),
        ("megatron-lm fork (zero-bubble)", "", "hopper", "zero-bubble"),
        ("nemo (megatron-core)", "nemo 24.03.01", "hopper", "nemo-launcher before 24.07"),
        ("nemo (megatron-core)", "nemo 24.07", "hopper", "nemo-launcher"),
        ("nemo (megatron-core)", "nemo 25.02", "hopper", "megatron-bridge"),
        ("gpt-neox (megatron-deepspeed)", "", "ampere", "gpt-neox"),
        ("nanotron", "", "hopper", "nanotron"),
        ("hugging face transformers + deepspeed zero-3", "", "volta", "deepspeed"),
        ("hugging face trainer", "", "ampere", "huggingface"),
        ("something new", "", "", "torch"),
    ],
)
def test_a_text_its_version_and_its_gpu_name_the_habits(text: str, version: str, generation: str, name: str) -> None:
    assert framework_of(text, version, generation).name == name


def test_every_framework_has_a_profile_and_a_source() -> None:
    for run in (*shipped_runs(), *shipped_runs("later"), *shipped_runs("classic")):
        framework = framework_of(run.framework, run.version)
        profiles.load(framework.profile)
        assert framework.source
