"""A framework as a value: changes, facts of a run, GPUs."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from proteus import frameworks
from proteus.errors import InputError
from proteus.frameworks.framework import GROUPS, KINDS, PLAN_FIELDS
from proteus.hardware import gpus
from proteus.units import MiB


@pytest.mark.parametrize("name", frameworks.names())
def test_every_value_has_a_source(name: str) -> None:
    framework = frameworks.load(name)
    for field in (*KINDS, *framework.defaults, *framework.recipes):
        assert framework.sources[field], field
    assert framework.describe().count("no source") == 0
    assert framework.title and 0 <= framework.launch_s < 1e-4


def test_groups_hold_every_field_once() -> None:
    names = [name for group in GROUPS.values() for name in group]
    assert len(names) == len(set(names)) == len(KINDS)
    assert set(PLAN_FIELDS.values()) <= set(names)


def test_a_framework_cannot_be_changed_in_place() -> None:
    framework = frameworks.load("nemo")
    with pytest.raises(FrozenInstanceError):
        framework.attention = "flash1"  # type: ignore[misc]
    with pytest.raises(TypeError):
        framework.defaults["zero"] = 3  # type: ignore[index]


@pytest.mark.parametrize(
    "changes",
    [{"attentoin": "flash1"}, {"attention": "flash9"}, {"attention": 2}, {"op_s": "1"}, {"op_s": float("nan")},
     {"op_s": -1.0}, {"pure": 1}, {"loss_metrics": 1.5}, {"sends_wait": "1f1b"}, {"name": "mine"}],
)  # fmt: skip
def test_a_change_that_cannot_be_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InputError):
        frameworks.load("nemo").but(**changes)


def test_own_values_simulate() -> None:
    import proteus as pt

    framework = frameworks.load("nemo").but(op_s=1e-6)
    tree = pt.StrategyTree(pt.models.load("gpt2", layers=2)).parallelize(dp=2, global_batch=2, framework=framework)
    assert tree.training.framework.op_s == 1e-6
    assert pt.simulate(tree, pt.clusters.load("dgx-a100")).step_time_s > 0


def test_what_the_user_says_wins_over_rules() -> None:
    eager = frameworks.load("torchtitan, norm=native")
    assert eager.given(compile=True).norm == "native"
    assert eager.given(compile=True).fused_rope


def test_facts_can_be_told_anew() -> None:
    megatron = frameworks.load("megatron-core")
    assert megatron.given(precision="fp16").fp32_grads is False
    assert megatron.given(precision="fp16").given(precision="bf16") == megatron.given(precision="bf16")
    assert megatron.given(precision=None, compile=True) == megatron  # no rule of Megatron-Core asks for compile
    with pytest.raises(InputError, match="fact"):
        megatron.given(precison="fp16")


def test_versions_choose() -> None:
    def launcher(version: str) -> tuple[object, ...]:
        framework = frameworks.load(f"nemo@{version}")
        return framework.attention, framework.master_bytes, framework.defaults.get("virtual_stages")

    assert launcher("24.05") == ("flash2", 2.0, "max")
    assert launcher("24.09") == ("flash2", 4.0, None)
    old, new = frameworks.load("megatron-lm@2.6"), frameworks.load("megatron-lm")
    assert (old.attention, new.attention) == ("fused_softmax", "flash2")
    assert (old.host_waits_for_passes, new.host_waits_for_passes) == (True, False)
    assert frameworks.load("ddp@1.13").attention == "unfused"


def test_graphs_are_the_default_of_a_version_where_they_can_be() -> None:
    def launch_s(text: str, **facts: object) -> float:
        return frameworks.load(text).given(precision="mxfp8", experts=True, **facts).launch_s

    assert launch_s("megatron-bridge@26.06") == launch_s("megatron-bridge@26.06", virtual_stages=2) == 0.0
    assert launch_s("megatron-bridge@26.06", virtual_stages=1) > 0
    assert launch_s("megatron-bridge@26.04") > 0
    assert launch_s("megatron-bridge@26.06", cuda_graphs=False) > 0
    assert launch_s("megatron-bridge", cuda_graphs=True) == 0.0


def test_buckets_are_those_of_the_framework() -> None:
    bucket = {name: frameworks.load(name).bucket_size_bytes(4.0, 8) for name in ("ddp", "megatron-core", "deepspeed")}
    assert bucket == {"ddp": 25 * MiB, "megatron-core": 160e6, "deepspeed": 2e9}
    assert frameworks.load("megatron-core").bucket_size_bytes(2.0, 100) == 200e6
    assert frameworks.load("ddp").first_bucket_bytes == MiB


@pytest.mark.parametrize(
    ("framework", "gpu", "attention"),
    [
        ("megatron-core", "a100", "flash2"),
        ("megatron-core", "h100", "cudnn"),
        ("megatron-core", "v100", "fused_softmax"),
        ("megatron-lm@2", "h100", "fused_softmax"),
        ("nemo@24.05", "h100", "flash2"),
        ("deepspeed", "h100", "flash2"),
        ("huggingface", "v100", "memory_efficient"),
        ("huggingface", "titan-xp", "memory_efficient"),
        ("huggingface", "k80", "unfused"),
        ("llm-foundry", "t4", "flash1"),
        ("maxtext", "v100", "unfused"),
        ("torchtitan", "mi300x", "flash2"),
        ("ddp", "mi50", "unfused"),
    ],
)
def test_kernels_are_those_that_run_on_the_gpu(framework: str, gpu: str, attention: str) -> None:
    loaded = frameworks.load(framework)
    here, notes = loaded.on(gpus.load(gpu))
    assert here.attention == attention
    is_replaced = attention not in (loaded.attention, "cudnn")
    assert len(notes) == is_replaced
    assert all(loaded.title in note and attention in note for note in notes)


def test_a_kernel_that_the_user_asks_for_is_not_replaced_in_silence() -> None:
    with pytest.raises(InputError, match=r"flash3 does not run on a100.*9\.0; this GPU has 8\.0.*runs flash2 there"):
        frameworks.load("megatron-core, attention=flash3").on(gpus.load("a100"))
    assert frameworks.load("ddp, attention=flash3").on(gpus.load("h100")).framework.attention == "flash3"
