"""The strategy of a published run."""

from __future__ import annotations

from typing import Any

import pytest

from proteus import Plan, hardware
from proteus.costs import precision as precisions
from proteus.errors import InputError, StrategyError
from proteus.frameworks import Framework
from proteus.validation.case import Case, case_of
from proteus.validation.runs import parse_runs
from tests.validation.rows import table


def case(**changes: str) -> Case:
    (run,) = parse_runs(table(dict(changes)), "t")
    return case_of(run)


def said(**changes: str) -> Plan:
    """What the row itself says."""
    return case(**changes).plan


def decided(name: str, **changes: str) -> Any:
    """A field of the plan as it is carried out."""
    return case(**changes).tree.decided.value(name)


def ran(**changes: str) -> Framework:
    """The framework as the row had it."""
    return case(**changes).tree.training.framework


def test_what_the_run_says_is_taken_and_nothing_else() -> None:
    plan = said(zero_stage="2", recompute="full", sp="True", pp_schedule="none")
    assert (plan.dp, plan.tp, plan.zero, plan.recompute, plan.sequence_parallel) == (4, 2, 2, "full", True)
    assert (plan.optimizer, plan.overlap_gradients, plan.attention, plan.context) == (None, None, None, None)


@pytest.mark.parametrize(
    ("text", "version", "name"),
    [
        ("Megatron-LM", "", "megatron-lm"),
        ("Megatron-LM", "core_r0.7", "megatron-lm@0.7"),
        ("Megatron-LM", "v2.x", "megatron-lm@2"),
        ("NeMo (Megatron-Core)", "NeMo 24.03.01", "nemo@24.03.01"),
        ("NeMo (Megatron-Core)", "NeMo 25.02", "nemo@25.02"),
        ("GPT-NeoX (Megatron-DeepSpeed)", "", "gpt-neox"),
        ("Nanotron", "", "nanotron"),
        ("Hugging Face Transformers + DeepSpeed ZeRO-3", "", "deepspeed"),
        ("Hugging Face Trainer", "", "huggingface"),
    ],
)
def test_a_text_and_its_version_name_the_framework(text: str, version: str, name: str) -> None:
    assert said(framework=text, framework_version=version, precision="bf16").framework == name


def test_an_unknown_framework_is_said_and_stays_open() -> None:
    unknown = case(framework="something new")
    assert unknown.plan.framework is None
    assert any("framework 'something new' is not known" in line for line in unknown.assumed)
    assert any("no framework is stated" in line for line in case(framework="").assumed)


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("0 (DDP)", 0),
        ("FSDP FULL_SHARD / MP PURE", 3),
        ("FSDP SHARD_GRAD_OP", 2),
        ("FSDP2 (reshard_after_forward: False)", 2),
        ("distributed optimizer (zero1)", 1),
        ("ZeRO-3", 3),
        ("3", 3),
        ("", None),
        ("none", 0),
        ("DDP", 0),
    ],
)
def test_zero(text: str, stage: int | None) -> None:
    framework = {"framework": "llm-foundry"} if "PURE" in text else {}
    assert said(zero_stage=text, **framework).zero == stage


def test_groups_of_hybrid_zero() -> None:
    assert said(zero_stage="zero1 size=2").shard == 2
    assert said(zero_stage="zero1 size=4").shard is None  # all data-parallel ranks
    assert said(zero_stage="zero1 size=-1").shard is None
    assert said(zero_stage="Megatron-FSDP group 2").shard == 2


def test_hybrid_sharding_shards_inside_a_host() -> None:
    plan = said(zero_stage="HSDP", dp="32", n_gpus="64", global_batch="128")
    assert (plan.zero, plan.shard) == (3, 4)  # hosts of eight hold four pairs of tensor ranks
    more = {"dp": "32", "n_gpus": "64", "global_batch": "128"}
    assert said(zero_stage="HYBRID_SHARD FSDP size=16", **more).shard == 16
    assert said(zero_stage="HSDP").shard is None  # one host


def test_what_lies_in_host_memory_is_said() -> None:
    assert said(zero_stage="ZeRO-2 offload optimizer").offload == ("optimizer",)
    assert said(zero_stage="ZeRO-3 offload optimizer and parameters").offload == ("optimizer", "parameter")
    assert said(recompute="full+offload").offload == ("activation",)


def test_names_of_schedules_are_spelled_in_many_ways() -> None:
    pipeline = {"pp": "2", "dp": "2"}
    for text in ("Interleaved 1F1B", "Interleaved1F1B", "1F1B-interleaved"):
        run_case = case(**pipeline, pp_schedule=text)
        assert (run_case.plan.schedule, run_case.plan.virtual_stages) == ("interleaved", None)
        assert run_case.tree.decided.value("virtual_stages") == 2
        assert any("virtual stages of the interleaved schedule are not stated" in line for line in run_case.assumed)
    assert said(**pipeline, pp_schedule="Interleaved 1F1B", vpp="4").virtual_stages == 4
    assert said(**pipeline, pp_schedule="ZBV zero bubble").schedule == "zb-v"


def test_no_compiler_is_not_a_compiler() -> None:
    titan = {"framework": "torchtitan", "precision": "bf16"}
    eager, compiled = (ran(**titan, settings=text) for text in ("compile=false", "compile=true"))
    assert (eager.norm, compiled.norm) == ("chain", "tuned")


def test_sharded_frameworks_are_told_apart() -> None:
    sharded = {"tp": "1", "dp": "8", "precision": "bf16"}
    run_case = case(**sharded, framework="fms-fsdp (PyTorch FSDP)")
    assert (run_case.plan.framework, run_case.tree.decided.value("zero")) == ("fms-fsdp", 3)
    run_case = case(**sharded, framework="lit-gpt (PyTorch FSDP)")
    assert (run_case.plan.framework, run_case.tree.decided.value("zero")) == ("fsdp", 3)


def test_deepspeed_sums_gradients_of_bf16_in_fp32() -> None:
    half, brain = (
        precisions.kept_by(ran(framework="Megatron-DeepSpeed", precision=name), name) for name in ("fp16", "bf16")
    )
    assert (half.grad_bytes, half.reduce_bytes) == (2.0, 2.0)
    assert (brain.grad_bytes, brain.reduce_bytes) == (4.0, 8.0)


def test_schedules() -> None:
    pipeline = {"pp": "2", "dp": "2"}
    assert decided("schedule", **pipeline) == "1f1b"
    assert decided("schedule", **pipeline, vpp="2") == "interleaved"
    assert decided("schedule", **pipeline, pp_schedule="ZB-2p") == "zb-h2"
    assert decided("schedule", **pipeline, pp_schedule="interleaved 1F1B", vpp="2") == "interleaved"
    with pytest.raises(StrategyError, match="'zigzag' is not understood"):
        said(**pipeline, pp_schedule="zigzag")


def test_steps_overlap_where_the_source_says_so() -> None:
    fork = {"pp": "2", "dp": "2", "framework": "Megatron-LM fork (zero-bubble)", "pp_schedule": "ZB-1p"}
    assert decided("overlap_steps", **fork, settings="overlap_steps=true")
    assert not decided("overlap_steps", **fork)


def test_virtual_stages_are_the_most_where_that_is_the_default() -> None:
    pipeline = {"pp": "2", "dp": "2", "framework": "NeMo", "precision": "bf16"}
    run_case = case(**pipeline, framework_version="NeMo 24.05").tree.decided
    assert (run_case.value("schedule"), run_case.value("virtual_stages")) == (
        "interleaved",
        4,
    )  # eight layers, two stages
    assert run_case["virtual_stages"].who == "framework"
    assert decided("virtual_stages", **pipeline, framework_version="NeMo 24.05", vpp="2") == 2
    assert decided("schedule", **pipeline, framework_version="NeMo 25.02") == "1f1b"


def test_kernels_change_the_framework() -> None:
    old = {"framework_version": "v2.x"}
    assert ran(**old).attention == "fused_softmax"
    assert ran(**old, flash_attention="flash_attention2").attention == "flash2"
    assert ran(**old, flash_attention="True").attention == "flash2"
    assert said(flash_attention="True").attention is None  # the framework's own kernel is one
    assert said(flash_attention="False").attention == "fused_softmax"
    assert ran(flash_attention="flash_attention2 + RMS kernel", framework="torchtitan").norm == "tuned"
    nemo = {"framework": "NeMo", "precision": "bf16"}
    assert ran(**nemo).overlaps_tensor == "all"
    assert ran(**nemo, comm_overlap="none").overlaps_tensor == "none"
    titan = {"framework": "torchtitan", "precision": "bf16", "comm_overlap": "async TP"}
    assert ran(**titan).overlaps_tensor == "forward"
    assert said(comm_overlap="grad reduce, param gather") == said().changed(
        overlap_gradients=True, overlap_parameters=True
    )


def test_transformer_engine_chooses_by_the_gpu() -> None:
    assert said(flash_attention="TE").attention == "flash2"
    assert said(flash_attention="TE", gpu="H100-80GB-SXM").attention == "cudnn"


def test_a_kernel_that_the_gpu_cannot_run_is_an_error_of_the_row() -> None:
    from proteus.validation.score import score_run

    (run,) = parse_runs(table({"gpu": "V100-32GB", "flash_attention": "True (FA3)"}), "t")
    scored = score_run(run)
    assert scored.status == "not_expressible" and "flash3 does not run on v100" in scored.reason


def test_defaults_of_versions_and_of_padded_experts() -> None:
    experts = {"framework": "Megatron-Bridge", "moe_experts": "8", "moe_topk": "2", "moe_ffn": "512"}

    def found(**changes: str) -> Framework:
        return ran(**experts, **changes)

    assert found(precision="mxfp8", framework_version="NeMo 26.08").defaults["cuda_graphs"]
    assert not found(precision="mxfp8", framework_version="NeMo 26.08").launch_s
    assert not found(precision="mxfp8", framework_version="NeMo 26.04").defaults["cuda_graphs"]
    pipeline = {"precision": "mxfp8", "framework_version": "NeMo 26.08", "pp": "2", "dp": "2"}
    assert not found(**pipeline).defaults["cuda_graphs"]
    assert found(**pipeline, vpp="2").defaults["cuda_graphs"]
    assert not found(precision="bf16", framework_version="NeMo 26.08").defaults["cuda_graphs"]
    assert found(precision="bf16").host_waits_for_routing
    assert not found(precision="bf16", settings="host_waits_for_routing=false").host_waits_for_routing


def test_megatron_takes_the_attention_of_transformer_engine() -> None:
    framework = ran(framework="Megatron-LM (SimuMax validation run)", precision="bf16", flash_attention="True")
    assert framework.on(hardware.load("b200")).framework.attention == "cudnn"


def test_how_context_parallelism_meets_attention() -> None:
    cut = {"cp": "2", "dp": "2", "precision": "bf16"}
    assert decided("context", **cut, framework="torchtitan") == "all_gather"
    assert decided("context", **cut, framework="Megatron-Core") == "ring"
    assert decided("context", **cut, framework="torchtitan", settings="context=all_to_all") == "all_to_all"


def test_automodel_is_not_megatron() -> None:
    automodel = {"framework": "NeMo AutoModel (PyTorch FSDP2)", "precision": "bf16", "zero_stage": ""}
    assert (decided("zero", **automodel), said(**automodel).framework) == (3, "automodel")
    adapters = case(**automodel, task="lora").tree.decided
    assert (adapters.value("lora"), adapters.value("lora_targets")) == (16, ())


@pytest.mark.parametrize("text", ["none", "False", "no", "off", "disabled"])
def test_nothing_is_recomputed_however_that_is_written(text: str) -> None:
    assert said(recompute=text).recompute == "none"


@pytest.mark.parametrize("text", ["bf16", "bfloat16", "BF16-mixed", "amp_bf16"])
def test_one_precision_has_many_names(text: str) -> None:
    assert said(precision=text).precision == "bf16"


@pytest.mark.parametrize(
    ("text", "recompute", "modules"),
    [
        ("every_layer", "full", None),
        ("selective", "selective", None),
        ("selective (per op)", "op", None),
        ("selective (moe_act, layernorm)", "none", ("norm", "activation")),
        ("selective (core_attn, layernorm)", "selective", ("norm",)),
        ("selective (minimal_flash)", "none", ("norm", "activation")),
    ],
)
def test_recomputation(text: str, recompute: str, modules: tuple[str, ...] | None) -> None:
    plan = said(recompute=text)
    assert (plan.recompute, plan.recompute_modules) == (recompute, modules)


def test_every_second_layer() -> None:
    plan = said(recompute="selective (layer)", pp="2", dp="2", layers="16")
    assert (plan.recompute, plan.recompute_layers) == ("full", 4)


def test_what_is_silent_is_told_with_who_decided() -> None:
    silent = {"precision": "", "recompute": "", "zero_stage": "", "micro_batch": "", "framework_version": "v2.x"}
    by_framework, by_proteus = case(**silent).assumed[-2:]
    assert "precision fp16" in by_framework and by_framework.endswith("defaults of megatron-lm@2, precision=fp16")
    assert "zero 0" in by_framework and "recompute none" in by_framework
    assert by_proteus == "micro_batch 1: defaults of Proteus"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": "lora"}, "adapters"),
        ({"dp": "3"}, "is not 8 GPUs"),
        ({"global_batch": ""}, "global batch"),
        ({"precision": "int4"}, "not understood"),
        ({"recompute": "selective mla_up_proj"}, "'mla_up_proj' is not understood"),
        ({"zero_stage": "half"}, "not understood"),
    ],
)
def test_what_cannot_be_said_says_why(changes: dict[str, str], words: str) -> None:
    with pytest.raises((StrategyError, InputError), match=words):
        said(**changes)


def test_frameworks_cut_the_layers_their_own_way() -> None:
    pipeline = {"pp": "4", "dp": "1", "tp": "2", "layers": "32"}

    def layers(**changes: str) -> Any:
        return decided("layers_per_stage", **{**pipeline, **changes})

    assert layers() is None
    assert layers(framework="LiBai (OneFlow)") == (8, 9, 9, 6)
    assert layers(settings="pipeline_cut=modules") == (8, 9, 9, 6)
    assert layers(framework="Megatron-Bridge", layers="61", precision="bf16") == (16, 16, 16, 13)
    assert layers(framework="OneFlow GPT") is None
    assert layers(framework="Megatron-DeepSpeed", layers="33") == (9, 9, 9, 6)
    assert layers(framework="Megatron-LM", layers="33") == (8, 8, 9, 8)


def test_experts_are_cut_as_stated_or_as_the_ranks_allow() -> None:
    experts = {"moe_experts": "16", "moe_topk": "2", "moe_ffn": "512", "dp": "4", "tp": "2"}
    assert said(**experts, ep="4").etp is None  # as all else
    assert said(**experts, ep="8").etp == 1  # four copies of two tensor ranks hold no eight pairs
    assert said(**experts, ep="4", etp="1").etp == 1


def test_deepspeed_adds_gradients_of_bf16_to_fp32_ones() -> None:
    fork = {"framework": "Megatron-DeepSpeed (BigScience)"}
    half, brain = (ran(**fork, precision=p) for p in ("fp16", "bf16"))
    assert (half.fp32_grads, half.wire_bytes) == (False, 0.0)
    assert (brain.fp32_grads, brain.wire_bytes) == (True, 8.0)  # all of them reach every rank


def test_pure_mixed_precision_is_of_its_time() -> None:
    composer = {"framework": "llm-foundry/Composer (PyTorch FSDP)", "tp": "1", "dp": "8"}
    pure, default = (
        ran(**composer, zero_stage=f"FSDP FULL_SHARD / MP {mode}", precision="bf16") for mode in ("PURE", "DEFAULT")
    )
    assert (pure.wire_bytes, pure.stops_early) == (2.0, False)
    assert (default.wire_bytes, default.stops_early) == (0.0, True)
    assert pure.loss_metrics == default.loss_metrics == 2


def test_precisions_are_read_as_tables_write_them() -> None:
    assert [said(precision=text).precision for text in ("BF16", "MXFP8", "NVFP4")] == ["bf16", "fp8", "nvfp4"]
    assert said(precision="MXFP8", framework="Megatron-Bridge").framework == "megatron-bridge, precision=mxfp8"


def test_adapters_are_those_of_the_framework() -> None:
    nemo = {"task": "lora", "framework": "NeMo", "precision": "bf16"}
    run_case = case(**nemo, framework_version="NeMo 24.05")
    assert (run_case.plan.lora, run_case.plan.lora_targets) == (32, ("attention.qkv",))
    assert "adapters of rank 32 on attention.qkv" in run_case.assumed
    assert said(**nemo, framework_version="NeMo 25.04").lora_targets == ("attention.qkv",)
    assert said(**{**nemo, "task": "sft"}).lora is None
    assert said(**nemo, settings="lora=8; lora_targets=mlp").lora == 8


def test_adapters_that_cannot_be_said() -> None:
    with pytest.raises(StrategyError, match="not stated"):
        said(task="lora", framework="Megatron-LM")


def test_a_base_is_quantised_where_the_run_says_so() -> None:
    assert decided("lora_base", task="lora", framework="torchtune", settings="lora_base=nf4", precision="bf16") == "nf4"
    assert decided("lora_base", task="lora", framework="torchtune", precision="bf16") == "exact"


def test_a_loss_in_chunks_keeps_the_logits_alone() -> None:
    plain, chunked = (
        ran(framework="torchtune", precision="bf16", settings=f"compile=true{more}") for more in ("", "; loss=in_place")
    )
    assert (plain.loss, chunked.loss) == ("softmax", "in_place")
