"""Which framework a free text means."""

from __future__ import annotations

import pytest

from proteus.validation.frameworks import framework_of
from proteus.validation.runs import shipped_runs


@pytest.mark.parametrize(
    ("text", "version", "generation", "name"),
    [
        ("megatron-lm", "", "ampere", "megatron-lm@2"),
        ("megatron-lm", "core_r0.7", "ampere", "megatron-bridge"),
        ("megatron-lm", "", "hopper", "megatron-bridge"),
        ("megatron-lm fork (zero-bubble)", "", "hopper", "megatron-lm@2"),
        ("nemo (megatron-core)", "nemo 24.03.01", "hopper", "nemo@24.03.01"),
        ("nemo (megatron-core)", "nemo 24.07", "hopper", "nemo@24.07"),
        ("nemo (megatron-core)", "nemo 25.02", "hopper", "nemo@25.02"),
        ("gpt-neox (megatron-deepspeed)", "", "ampere", "gpt-neox"),
        ("nanotron", "", "hopper", "nanotron"),
        ("hugging face transformers + deepspeed zero-3", "", "volta", "deepspeed"),
        ("hugging face trainer", "", "ampere", "huggingface"),
        ("something new", "", "", "ddp"),
    ],
)
def test_a_text_its_version_and_its_gpu_name_the_framework(text: str, version: str, generation: str, name: str) -> None:
    assert framework_of(text, version, generation).framework.text == name


def test_every_run_has_a_framework_and_a_source() -> None:
    for run in (*shipped_runs(), *shipped_runs("later"), *shipped_runs("classic")):
        published = framework_of(run.framework, run.version)
        assert published.framework.sources and published.entry.source
