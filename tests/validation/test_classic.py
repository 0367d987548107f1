"""Benchmarks of named models: what their rows say, and how a framework lays images out."""

from __future__ import annotations

import pytest

from proteus.cluster import LinkKind
from proteus.errors import StrategyError
from proteus.frameworks import Framework
from proteus.validation.case import Case, case_of
from proteus.validation.classic import as_clocked
from proteus.validation.runs import parse_runs


def case(framework: str, precision: str, model: str = "resnet50", gpu: str = "A100") -> Case:
    header = "model,framework,gpu,n_gpus,batch_per_gpu,images_or_samples_per_s,unit,precision\n"
    row = f"{model},{framework},{gpu},1,32,100,images/s,{precision}\n"
    return case_of(parse_runs((header + row).encode(), "t")[0])


def ran(framework: str, precision: str, model: str = "resnet50") -> Framework:
    """The framework as a row had it."""
    return case(framework, precision, model).tree.training.framework


def test_ampere_is_no_mixed_precision() -> None:
    text = '"FP32 (TF32 on Ampere+, inferred)"'
    assert case("PyTorch", text).plan.precision == "tf32"
    assert case("PyTorch", text, gpu="V100").plan.precision == "fp32"
    assert case("PyTorch", "AMP/FP16").plan.precision == "fp16"
    with pytest.raises(StrategyError, match="int8"):
        case("PyTorch", "INT8")


def test_images_lie_channels_last_where_the_scripts_say_so() -> None:
    last = {
        name: ran(name, precision).channels_last
        for name, precision in (("PyTorch", "AMP"), ("PyTorch (fork)", "AMP"), ("MxNet", "AMP"), ("TensorFlow", "AMP"))
    }
    assert last == {"PyTorch": True, "PyTorch (fork)": False, "MxNet": True, "TensorFlow": True}
    assert not ran("PyTorch", "TF32").channels_last
    assert not ran("MxNet", "TF32").channels_last


@pytest.mark.parametrize("framework", ["MxNet", "TensorFlow"])
def test_graph_executors_fuse_norms_with_mixed_precision_alone(framework: str) -> None:
    found = [ran(framework, precision) for precision in ("AMP", "TF32")]
    assert [p.fused_norm_activation for p in found] == [True, False]


def test_squad_has_a_fused_optimizer_with_mixed_precision_alone() -> None:
    found = [ran("PyTorch", precision, "bert_base_squad") for precision in ("AMP", "TF32")]
    assert [p.optimizer_kernels for p in found] == ["fused", "loop"]


@pytest.mark.parametrize(
    ("framework", "stated", "tokens", "masked"),
    [("PyTorch", 128, 128, 20), ("PyTorch", 512, 288, 44), ("TensorFlow", 512, 512, 77)],
)
def test_bert_reads_sequences_in_bins_and_predicts_what_is_masked(
    framework: str, stated: int, tokens: int, masked: int
) -> None:
    header = "model,framework,gpu,n_gpus,batch_per_gpu,images_or_samples_per_s,unit,precision,seq_len\n"
    row = f"BERT pretrain,{framework},A100,1,32,100,sequences/s,AMP,{stated}\n"
    run_case = case_of(parse_runs((header + row).encode(), "t")[0])
    model = run_case.tree.model
    assert (model.seq, model.blocks[-1].dims["masked"]) == (tokens, masked)
    assert any("bins of 64" in line for line in run_case.assumed) is (tokens != stated)


@pytest.mark.parametrize(
    ("gpus", "batch", "rate", "step_s"),
    # a published log: 47.003 s for 101 steps that settle at 0.449 s; eight GPUs read all there is in 70 steps
    [(1, 176, 374.44, 0.449), (8, 320, 9175.0, (100 * 0.279 - 1.8) / 70)],
)
def test_a_rate_of_squad_is_not_that_of_its_steps(gpus: int, batch: int, rate: float, step_s: float) -> None:
    header = "model,framework,gpu,n_gpus,batch_per_gpu,images_or_samples_per_s,unit,precision\n"
    row = f"bert_base_squad,PyTorch,A100,{gpus},{batch},{rate},samples/s,AMP\n"
    run = parse_runs((header + row).encode(), "t")[0]
    assert as_clocked(run).step_time_s == pytest.approx(step_s, rel=0.005)
    images = parse_runs((header + row.replace("bert_base_squad", "resnet50")).encode(), "t")[0]
    assert as_clocked(images) is images


def test_scripts_that_switch_peer_to_peer_off_go_through_host_memory() -> None:
    header = (
        "model,framework,gpu,n_gpus,gpus_per_node,link,batch_per_gpu,images_or_samples_per_s,unit,precision,settings\n"
    )
    kinds = {}
    for settings in ("", "peer_to_peer=false"):
        row = f"resnet50,PyTorch,H100 80GB SXM5,2,2,NVLink,64,100,images/s,AMP,{settings}\n"
        cluster = case_of(parse_runs((header + row).encode(), "t")[0]).cluster
        kinds[settings] = {LinkKind(cluster.link_kind[i]) for i in cluster.routes([0], [1])[0] if i >= 0}
    direct, through = kinds.values()
    assert direct == {LinkKind.NVSWITCH}
    assert LinkKind.HOST_MEMORY in through


def test_settings_count_for_benchmarks_too() -> None:
    header = "model,framework,gpu,n_gpus,batch_per_gpu,images_or_samples_per_s,unit,precision,settings\n"
    row = "resnet50,PyTorch,A100,1,32,100,images/s,AMP,channels_last=false; optimizer=adam\n"
    run_case = case_of(parse_runs((header + row).encode(), "t")[0])
    assert (run_case.tree.training.framework.channels_last, run_case.plan.optimizer) == (False, "adam")
