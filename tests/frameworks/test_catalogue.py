"""Names, aliases, versions and changes in a line of text."""

from __future__ import annotations

import pickle

import pytest

from proteus import frameworks
from proteus.errors import InputError
from proteus.frameworks import Framework

WANTED = {
    "megatron-lm", "megatron-core", "megatron-bridge", "nemo", "megatron-deepspeed", "deepspeed", "huggingface",
    "accelerate", "ddp", "fsdp", "fsdp2", "torchtitan", "torchtune", "fms-fsdp", "llm-foundry", "gpt-neox", "nanotron",
    "automodel", "maxtext", "internevo", "libai", "oneflow", "primus", "mxnet", "tensorflow", "apex-bert",
}  # fmt: skip


def test_the_frameworks_people_use_are_there() -> None:
    assert set(frameworks.names()) >= WANTED


@pytest.mark.parametrize("name", frameworks.names())
def test_text_reads_back_to_an_equal_value(name: str) -> None:
    for framework in (
        frameworks.load(name),
        frameworks.load(f"{name}@2.0"),
        frameworks.load(name).given(precision="fp16", compile=True, experts=True),
        frameworks.load(name).but(attention="flash1", op_s=1e-6, sends_wait=["1f1b"], fallback_attention=[]),
    ):
        again = frameworks.load(framework.text)
        assert again == framework and hash(again) == hash(framework)
        assert pickle.loads(pickle.dumps(framework)) == framework


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("pytorch", "ddp"), ("DDP", "ddp"), ("hf", "huggingface"), ("NVIDIA NeMo", "nemo"), ("mosaic", "llm-foundry"),
        ("neox", "gpt-neox"), ("megatron", "megatron-core"), ("apex", "apex-bert"),
        ("bigscience", "megatron-deepspeed"),
        ("torch_titan", "torchtitan"),
    ],
)  # fmt: skip
def test_aliases(text: str, name: str) -> None:
    assert frameworks.load(text).name == name


def test_changes_stand_after_the_name() -> None:
    framework = frameworks.load(
        "nemo@24.07, attention=flash1, fp32_grads=TRUE, op_s=5e-6, sends_wait=none, compile=true"
    )
    assert (framework.version, framework.attention, framework.fp32_grads) == ("24.07", "flash1", True)
    assert (framework.op_s, framework.sends_wait, framework.sources["attention"]) == (5e-6, (), "you")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("megatorn", "nearest: megatron"),
        ("", "unknown framework ''"),
        ("nemo@", "no version after @"),
        ("nemo@latest", "version 'latest' has no number"),
        ("nemo, attention", "changes nothing"),
        ("nemo, attentoin=flash1", "nearest: attention"),
        ("nemo, attention=flash9", "nearest: flash3, flash2, flash1"),
        ("nemo, op_s=fast", "expected a number"),
        ("nemo, op_s=-1", "finite number of at least 0"),
        ("nemo, op_s=nan", "finite number of at least 0"),
        ("nemo, loss_metrics=1.5", "expected a whole number"),
        ("nemo, fp32_grads=1", "expected true or false"),
        ("nemo, sends_wait=1f1b+zigzag", "zigzag"),
        ("nemo, op_s=1e-6, op_s=2e-6", "is given twice"),
        ("nemo, name=mine", "unknown framework field 'name'"),
        ("missing.yaml", "No such file"),
    ],
)
def test_what_is_not_understood_says_what_is_known(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        frameworks.load(text)


@pytest.mark.parametrize(
    ("text", "version", "found"),
    [
        ("gpt-neox (megatron-deepspeed)", "", "gpt-neox"),
        ("megatron-deepspeed zero-3", "", "megatron-deepspeed"),
        ("nemo (megatron-core)", "nemo 24.03.01", "nemo@24.03.01"),
        ("nemo automodel (pytorch fsdp2, te)", "", "automodel"),
        ("hugging face transformers + deepspeed zero-3", "", "deepspeed"),
        ("lit-gpt (pytorch fsdp)", "", "fsdp"),
        ("llm-foundry/composer (pytorch fsdp)", "", "llm-foundry"),
        ("tensorflow+horovod synthetic benchmark", "", "tensorflow"),
        ("pytorch", "1.13", "ddp@1.13"),
        ("torchtitan", "commit e156d2f", "torchtitan"),
    ],
)
def test_find_reads_free_text(text: str, version: str, found: str) -> None:
    framework = frameworks.find(text, version)
    assert framework is not None and framework.text == found


def test_find_knows_what_it_does_not_know() -> None:
    assert frameworks.find("something new") is None
    assert frameworks.find("fsdp2048") is None


def test_without_a_name_it_is_plain_megatron_core() -> None:
    framework = frameworks.load()
    assert framework.name == frameworks.DEFAULT == "megatron-core"
    off = ("zero", "overlap_gradients", "overlap_parameters", "sequence_parallel", "cuda_graphs")
    assert not any(framework.defaults[name] for name in off)
    assert framework.defaults["context"] == "ring"
    assert isinstance(framework, Framework)
