"""The strategy of a published run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from proteus.costs import precision as precisions
from proteus.errors import StrategyError
from proteus.frameworks import Framework
from proteus.hardware import gpus
from proteus.validation.frameworks import framework_of
from proteus.validation.runs import parse_runs
from proteus.validation.strategy import equal_modules, filled_stages, layers_per_stage, light_last_stage, recipe_of
from tests.validation.rows import table


def recipe(**changes: str) -> tuple[dict[str, Any], list[str]]:
    (run,) = parse_runs(table(dict(changes)), "t")
    assumed: list[str] = []
    found, _ = recipe_of(run, framework_of(run.framework, run.version), assumed)
    return found, assumed


def test_what_the_run_says_is_taken() -> None:
    found, _ = recipe(zero_stage="2", recompute="full", sp="True", pp_schedule="none")
    assert (found["dp"], found["tp"], found["zero"], found["recompute"]) == (4, 2, 2, "full")
    assert found["sequence_parallel"] is True


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("0 (DDP)", 0),
        ("FSDP FULL_SHARD / MP PURE", 3),
        ("FSDP SHARD_GRAD_OP", 2),
        ("FSDP2 (reshard_after_forward: False)", 2),
        ("distributed optimizer (zero1)", 1),
        ("3", 3),
        ("", 0),
        ("none", 0),
        ("DDP", 0),
    ],
)
def test_zero(text: str, stage: int) -> None:
    assert recipe(zero_stage=text)[0]["zero"] == stage


def test_groups_of_hybrid_zero() -> None:
    assert recipe(zero_stage="zero1 size=2")[0]["shard"] == 2
    assert recipe(zero_stage="zero1 size=4")[0]["shard"] is None  # all data-parallel ranks
    assert recipe(zero_stage="zero1 size=-1")[0]["shard"] is None


def test_hybrid_sharding_shards_inside_a_host() -> None:
    found, _ = recipe(zero_stage="HSDP", dp="32", n_gpus="64")
    assert (found["zero"], found["shard"]) == (3, 4)  # hosts of eight hold four pairs of tensor ranks
    assert recipe(zero_stage="HYBRID_SHARD FSDP size=16", dp="32", n_gpus="64")[0]["shard"] == 16
    assert recipe(zero_stage="HSDP")[0]["shard"] is None  # one host


def test_names_of_schedules_are_spelled_in_many_ways() -> None:
    pipeline = {"pp": "2", "dp": "2"}
    for text in ("Interleaved 1F1B", "Interleaved1F1B", "1F1B-interleaved"):
        found, assumed = recipe(**pipeline, pp_schedule=text)
        assert (found["schedule"], found["virtual_stages"]) == ("interleaved", 2)
        assert "2 virtual stages by rank" in assumed
    assert recipe(**pipeline, pp_schedule="Interleaved 1F1B", vpp="4")[0]["virtual_stages"] == 4
    assert recipe(**pipeline, pp_schedule="ZBV zero bubble")[0]["schedule"] == "zb-v"


def test_no_compiler_is_not_a_compiler() -> None:
    titan = {"framework": "torchtitan", "precision": "bf16"}
    eager, compiled = (recipe(**titan, notes=text)[0]["framework"] for text in ("no torch.compile", "FSDP+compile"))
    assert (eager.norm, compiled.norm) == ("chain", "tuned")


def test_sharded_frameworks_are_told_apart() -> None:
    sharded = {"tp": "1", "dp": "8", "precision": "bf16"}
    found, _ = recipe(**sharded, framework="fms-fsdp (PyTorch FSDP)")
    assert (found["framework"].text, found["zero"]) == ("fms-fsdp", 3)
    assert recipe(**sharded, framework="fms-fsdp", notes="compile")[0]["framework"].text == "fms-fsdp, compile=true"
    found, _ = recipe(**sharded, framework="lit-gpt (PyTorch FSDP)")
    assert (found["framework"].name, found["zero"]) == ("fsdp", 3)


def test_deepspeed_sums_gradients_of_bf16_in_fp32() -> None:
    half, brain = (
        precisions.kept_by(recipe(framework="Megatron-DeepSpeed", precision=name)[0]["framework"], name)
        for name in ("fp16", "bf16")
    )
    assert (half.grad_bytes, half.reduce_bytes) == (2.0, 2.0)
    assert (brain.grad_bytes, brain.reduce_bytes) == (4.0, 8.0)


def test_schedules() -> None:
    pipeline = {"pp": "2", "dp": "2"}
    assert recipe(**pipeline)[0]["schedule"] == "1f1b"
    assert recipe(**pipeline, vpp="2")[0]["schedule"] == "interleaved"
    assert recipe(**pipeline, pp_schedule="ZB-2p")[0]["schedule"] == "zb-h2"
    assert recipe(**pipeline, pp_schedule="interleaved 1F1B", vpp="2")[0]["schedule"] == "interleaved"
    with pytest.raises(StrategyError, match="'zigzag' is not known"):
        recipe(**pipeline, pp_schedule="zigzag")


def test_steps_overlap_where_the_optimizer_is_validated_afterwards() -> None:
    fork = {"pp": "2", "dp": "2", "framework": "Megatron-LM fork (zero-bubble)"}
    assert recipe(**fork, pp_schedule="ZB-1p")[0]["overlap_steps"]
    assert not recipe(**fork, pp_schedule="1F1B")[0]["overlap_steps"]
    assert not recipe(pp="2", dp="2", pp_schedule="ZB-1p")[0]["overlap_steps"]


def test_virtual_stages_are_the_most_where_that_is_the_habit() -> None:
    pipeline = {"pp": "2", "dp": "2", "framework": "NeMo", "precision": "bf16"}
    found, assumed = recipe(**pipeline, framework_version="NeMo 24.05")
    assert (found["schedule"], found["virtual_stages"]) == ("interleaved", 4)  # eight layers, two stages
    assert "a virtual stage by layer" in assumed
    assert recipe(**pipeline, framework_version="NeMo 24.05", vpp="2")[0]["virtual_stages"] == 2
    assert recipe(**pipeline, framework_version="NeMo 25.02")[0]["schedule"] == "1f1b"


def test_kernels_change_the_framework() -> None:
    plain = recipe(flash_attention="")[0]["framework"]
    assert plain.attention == "fused_softmax"
    assert recipe(flash_attention="flash_attention2")[0]["framework"].attention == "flash2"
    nemo = {"framework": "NeMo", "precision": "bf16"}
    assert recipe(**nemo)[0]["framework"].overlaps_tensor == "all"
    assert recipe(**nemo, comm_overlap="none")[0]["framework"].overlaps_tensor == "none"
    titan = {"framework": "torchtitan", "precision": "bf16", "comm_overlap": "async TP"}
    assert recipe(**titan)[0]["framework"].overlaps_tensor == "forward"


def test_habits_of_versions_and_of_padded_experts() -> None:
    experts = {"framework": "Megatron-Bridge", "moe_experts": "8", "moe_topk": "2", "moe_ffn": "512"}

    def found(**changes: str) -> Framework:
        return recipe(**experts, **changes)[0]["framework"]

    assert found(precision="mxfp8", framework_version="NeMo 26.08").defaults["cuda_graphs"]
    assert not found(precision="mxfp8", framework_version="NeMo 26.08").launch_s
    assert not found(precision="mxfp8", framework_version="NeMo 26.04").defaults["cuda_graphs"]
    pipeline = {"precision": "mxfp8", "framework_version": "NeMo 26.08", "pp": "2", "dp": "2"}
    assert not found(**pipeline).defaults["cuda_graphs"]
    assert found(**pipeline, vpp="2").defaults["cuda_graphs"]
    assert not found(precision="bf16", framework_version="NeMo 26.08").defaults["cuda_graphs"]
    assert found(precision="bf16").host_waits_for_routing
    assert not found(precision="bf16", model="Some MoE (tokendrop)").host_waits_for_routing
    assert not found(precision="bf16", notes="moe-pad-expert-input-to-capacity").host_waits_for_routing


def test_scripts_of_simumax_overlap_nothing_and_take_the_attention_of_transformer_engine() -> None:
    found, _ = recipe(framework="Megatron-LM (SimuMax validation run)", precision="bf16", flash_attention="True")
    assert not found["overlap_gradients"]
    assert found["framework"].on(gpus.load("b200")).framework.attention == "cudnn"


def test_how_context_parallelism_meets_attention() -> None:
    cut = {"cp": "2", "dp": "2", "precision": "bf16"}
    assert recipe(**cut, framework="torchtitan")[0]["context"] == "all_gather"
    assert recipe(**cut, framework="Megatron-Core")[0]["context"] == "ring"
    for notes, context in (
        ("cp_comm_type a2a", "all_to_all"),
        ("Ulysses", "all_to_all"),
        ("--cp-comm-type p2p", "ring"),
    ):
        assert recipe(**cut, framework="torchtitan", notes=notes)[0]["context"] == context
    assert recipe(**cut, framework="Megatron-Core", notes="cp_comm_type=a2a+p2p; gathers")[0]["context"] == "ring"


def test_automodel_is_not_megatron() -> None:
    automodel = {"framework": "NeMo AutoModel (PyTorch FSDP2)", "precision": "bf16", "zero_stage": ""}
    found, _ = recipe(**automodel)
    assert (found["zero"], found["framework"].name) == (3, "automodel")
    adapters, _ = recipe(**automodel, task="lora")
    assert (adapters["lora"], adapters["lora_targets"]) == (16, ())


@pytest.mark.parametrize("text", ["none", "False", "no", "off", "disabled"])
def test_nothing_is_recomputed_however_that_is_written(text: str) -> None:
    assert recipe(recompute=text)[0]["recompute"] == "none"


@pytest.mark.parametrize("text", ["bf16", "bfloat16", "BF16-mixed", "amp_bf16"])
def test_one_precision_has_many_names(text: str) -> None:
    assert recipe(precision=text)[0]["precision"] == "bf16"


def test_what_is_silent_is_told() -> None:
    _, assumed = recipe(precision="", recompute="", zero_stage="", micro_batch="")
    assert {"precision fp16", "recompute none", "ZeRO stage 0", "micro-batch 1"} <= set(assumed)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": "lora"}, "adapters"),
        ({"dp": "3"}, "is not 8 GPUs"),
        ({"global_batch": ""}, "global batch"),
        ({"precision": "int4"}, "no cost model"),
        ({"zero_stage": "half"}, "not understood"),
    ],
)
def test_what_cannot_be_said_says_why(changes: dict[str, str], words: str) -> None:
    with pytest.raises(StrategyError, match=words):
        recipe(**changes)


@pytest.mark.parametrize("cut", [layers_per_stage, filled_stages, light_last_stage, equal_modules])
@pytest.mark.parametrize(("layers", "chunks"), [(22, 8), (46, 16), (32, 3), (7, 7), (40, 4), (48, 8), (2, 2)])
def test_every_layer_has_a_stage(cut: Callable[[int, int], Sequence[int] | None], layers: int, chunks: int) -> None:
    found = cut(layers, chunks)
    assert found is None or (len(found) == chunks and sum(found) == layers and min(found) >= 0)


def test_frameworks_cut_the_layers_their_own_way() -> None:
    pipeline = {"pp": "4", "dp": "1", "tp": "2", "layers": "32"}
    assert "layers_per_stage" not in recipe(**pipeline)[0]
    assert recipe(**pipeline, framework="LiBai (OneFlow)")[0]["layers_per_stage"] == (8, 9, 9, 6)
    assert recipe(**pipeline, framework="Aleph Alpha scaling")[0]["layers_per_stage"] == (8, 9, 9, 6)
    nemo = {**pipeline, "layers": "61", "framework": "Megatron-Bridge"}
    assert recipe(**nemo)[0]["layers_per_stage"] == (16, 16, 16, 13)
    assert "layers_per_stage" not in recipe(**pipeline, framework="OneFlow GPT")[0]
    uneven = {**pipeline, "layers": "33"}
    assert recipe(**uneven, framework="Megatron-DeepSpeed")[0]["layers_per_stage"] == (9, 9, 9, 6)
    assert recipe(**uneven, framework="Megatron-LM")[0]["layers_per_stage"] == (8, 8, 9, 8)


def test_experts_are_cut_as_stated_or_as_the_ranks_allow() -> None:
    experts = {"moe_experts": "16", "moe_topk": "2", "moe_ffn": "512", "dp": "4", "tp": "2"}
    assert recipe(**experts, ep="4")[0]["etp"] is None  # as all else
    assert recipe(**experts, ep="8")[0]["etp"] == 1  # four copies of two tensor ranks hold no eight pairs
    assert recipe(**experts, ep="4", etp="1")[0]["etp"] == 1
    assert recipe(**experts, ep="4", notes="expert tensor parallel 1")[0]["etp"] == 1


def test_deepspeed_adds_gradients_of_bf16_to_fp32_ones() -> None:
    fork = {"framework": "Megatron-DeepSpeed (BigScience)"}
    half, brain = (recipe(**fork, precision=p)[0]["framework"] for p in ("fp16", "bf16"))
    assert (half.fp32_grads, half.wire_bytes) == (False, 0.0)
    assert (brain.fp32_grads, brain.wire_bytes) == (True, 8.0)  # all of them reach every rank


def test_pure_mixed_precision_is_of_its_time() -> None:
    composer = {"framework": "llm-foundry/Composer (PyTorch FSDP)", "tp": "1", "dp": "8"}
    pure, default = (
        recipe(**composer, zero_stage=f"FSDP FULL_SHARD / MP {mode}")[0]["framework"] for mode in ("PURE", "DEFAULT")
    )
    assert (pure.wire_bytes, pure.stops_early) == (2.0, False)
    assert (default.wire_bytes, default.stops_early) == (0.0, True)
    assert pure.loss_metrics == default.loss_metrics == 2


def test_precisions_are_read_as_tables_write_them() -> None:
    assert [recipe(precision=text)[0]["precision"] for text in ("BF16", "MXFP8", "NVFP4")] == ["bf16", "fp8", "nvfp4"]
    titan = {
        "framework": "torchtitan",
        "precision": "fp8",
        "notes": "async TP, fp8 rowwise",
        "comm_overlap": "async TP",
    }
    found = recipe(**titan)[0]
    assert found["precision"] == "fp8-rowwise"
    assert found["framework"].overlaps_tensor == "forward_scatters"


def test_adapters_are_those_of_the_framework() -> None:
    found, assumed = recipe(task="lora", framework="NeMo", framework_version="NeMo 24.05", precision="fp8")
    assert (found["lora"], found["lora_targets"]) == (32, ("attention.qkv",))
    assert "adapters of rank 32 on attention.qkv" in assumed
    assert recipe(task="lora", framework="NeMo", framework_version="NeMo 25.04")[0]["lora_targets"] == (
        "attention.qkv",
    )
    assert "lora" not in recipe(task="sft", framework="NeMo")[0]


def test_adapters_that_cannot_be_said() -> None:
    with pytest.raises(StrategyError, match="not stated"):
        recipe(task="lora", framework="vtrain")


def test_a_base_is_quantised_where_the_run_says_so() -> None:
    assert recipe(task="lora", framework="torchtune", notes="QLoRA")[0]["lora_base"] == "nf4"
    assert recipe(task="lora", framework="torchtune", notes="LoRA")[0]["lora_base"] == "exact"


def test_a_loss_in_chunks_keeps_the_logits_alone() -> None:
    plain, chunked = (
        recipe(framework="torchtune", notes=f"compile{more}")[0]["framework"] for more in ("", " +chunked CE")
    )
    assert (plain.loss, chunked.loss) == ("softmax", "in_place")
    assert recipe(task="lora", framework="torchtune")[0]["framework"].loss == "in_place"
