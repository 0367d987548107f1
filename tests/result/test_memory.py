"""Memory against closed formulas and against what Megatron-LM's own tests measured."""

from __future__ import annotations

import numpy as np
import pytest

import proteus as pt
from proteus.hardware import load
from proteus.model.spec import TransformerSpec
from proteus.model.transformer import transformer
from proteus.result.memory import OWNERS, MemorySteps, workspace_bytes
from proteus.result.result import Result
from proteus.units import GiB, MiB
from tests.result.samples import STRATEGIES, result

#: NVIDIA/Megatron-LM, tests/functional_tests/test_cases/gpt/<case>/golden_values_dev_dgx_h100.json: mem-max-allocated
#: of the last rank [GiB]; 12 layers of 512, 8 heads, 1024 tokens, micro-batch 4, global batch 32 on 8 H100
MEGATRON = {
    "gpt3_mcore_te_tp1_pp1_resume_torch_dist_dist_optimizer": (2.5069, {"dp": 8, "zero": 1}),
    "gpt3_mcore_te_tp1_pp1_resume_torch_dist_uniform_full_recompute": (2.3854, {"dp": 8, "recompute": "full"}),
    "gpt3_mcore_te_tp2_pp2_resume_torch_dist": (1.3301, {"tp": 2, "pp": 2, "dp": 2}),
    "gpt3_mcore_te_tp4_pp1_resume_torch_dist_dist_optimizer_overlap_grad_reduce": (
        0.9709, {"tp": 4, "dp": 2, "zero": 1},
    ),
    "gpt3_mcore_te_tp2_pp1_resume_torch_dist_cp2_nondeterministic": (
        1.1491, {"tp": 2, "cp": 2, "dp": 2, "sequence_parallel": True},
    ),
}  # fmt: skip


def tiny(tp: int) -> pt.Model:
    vocab = -(-50257 // (128 * tp)) * 128 * tp  # GPT-2's, padded as Megatron pads
    return transformer(
        TransformerSpec(
            name="gpt3-345m", layers=12, hidden=512, heads=8, ffn=2048, vocab=vocab, seq=1024, positions=1024,
            norm="layer_norm", activation="gelu", qkv_bias=True, proj_bias=True, mlp_bias=True, tied=True, dropout=0.1,
            attention_dropout=0.1,
        )
    )  # fmt: skip


@pytest.mark.parametrize("case", MEGATRON)
def test_equals_what_megatron_measured(case: str) -> None:
    measured, settings = MEGATRON[case]
    tree = pt.StrategyTree(tiny(settings.get("tp", 1))).parallelize(**settings, micro_batch=4, global_batch=32)
    outcome = pt.simulate(tree, pt.clusters.load("dgx-h100"))
    folding = outcome.graph.folding
    last = int(folding.representatives[folding.rank_class[7]])  # the rank that writes the log
    assert outcome.memory_over_time[last].peak_bytes / GiB == pytest.approx(measured, rel=0.02)


def peak_of_layers(outcome: Result) -> float:
    return sum(n.activation_bytes for n in outcome.memory_by_node() if n.path.startswith("layers"))


def test_activations_of_a_layer_are_34_sbh() -> None:
    """Korthikanti et al. (arXiv 2205.05198) section 4.1, without the 5 a s / h of scores that flash attention drops."""
    outcome = pt.simulate(
        pt.StrategyTree(tiny(1)).parallelize(micro_batch=4, global_batch=4), pt.clusters.load("dgx-h100")
    )
    seq, batch, hidden, layers, heads = 1024, 4, 512, 12, 8
    log_sum_exp = 4 * seq * batch * heads
    assert peak_of_layers(outcome) == pytest.approx(layers * (34 * seq * batch * hidden + log_sum_exp), rel=1e-12)


def peak_with(framework: str) -> float:
    """Peak of the layers in one framework [bytes]."""
    tree = pt.StrategyTree(tiny(1)).parallelize(micro_batch=4, global_batch=4, framework=framework)
    return peak_of_layers(pt.simulate(tree, pt.clusters.load("dgx-h100")))


def test_unfused_attention_keeps_5_a_s_s_b_more() -> None:
    """The same paper: softmax output 2, dropout mask 1 and dropout output 2 bytes per score."""
    unfused, fused = (peak_with(framework) for framework in ("megatron-lm@2", "megatron"))
    heads, seq, batch, layers, hidden = 8, 1024, 4, 12, 512
    scores = 5 * heads * seq * seq * batch
    # instead of the log-sum-exp, and attention's output is kept either way
    assert unfused - fused == pytest.approx(layers * (scores - 4 * seq * batch * heads), rel=1e-9), hidden


def test_a_softmax_in_operators_keeps_its_fp32_result_besides() -> None:
    operators, kernel = (
        peak_with(framework) for framework in ("megatron-lm@2, attention=unfused_fp32", "megatron-lm@2")
    )
    heads, seq, batch, layers = 8, 1024, 4, 12
    assert operators - kernel == pytest.approx(layers * 4 * heads * seq * seq * batch, rel=1e-9)


def test_a_loss_that_holds_its_logits_peaks_at_14_bytes_each() -> None:
    """The logits 2, log_softmax 4, the gradients of nll_loss and of log_softmax 4 and 4."""
    tree = pt.StrategyTree(tiny(1)).parallelize(micro_batch=4, global_batch=4, framework="megatron, loss=held")
    (steps,) = pt.simulate(tree, pt.clusters.load("dgx-h100")).memory_over_time.values()
    layers = 12 * (34 * 1024 * 4 * 512 + 4 * 1024 * 4 * 8)
    logits = steps.bytes.max() - steps.static_bytes - layers
    assert logits / (4 * 1024 * 50304) == pytest.approx(14, rel=0.02)


def test_fragments_are_a_share_of_what_comes_and_goes() -> None:
    def steps(framework: str) -> MemorySteps:
        tree = pt.StrategyTree(tiny(1)).parallelize(micro_batch=4, global_batch=4, framework=framework)
        (outcome,) = pt.simulate(tree, pt.clusters.load("dgx-h100")).memory_over_time.values()
        return outcome

    whole, cut = steps("megatron"), steps("megatron, fragmentation=0.5")
    assert cut.peak_bytes == whole.peak_bytes
    assert cut.reserve_bytes - whole.reserve_bytes == pytest.approx(0.5 * (whole.peak_bytes - whole.static_bytes))


def test_1f1b_keeps_as_many_micro_batches_as_stages_follow() -> None:
    outcome = pt.simulate(pt.StrategyTree(tiny(1)).parallelize(pp=4, global_batch=16), pt.clusters.load("dgx-h100"))
    kept = [steps.by_owner["activations"].max() for steps in outcome.memory_over_time.values()]
    layer = 34 * 1024 * 512 + 4 * 1024 * 8
    assert kept[1] == pytest.approx(3 * 3 * layer, rel=1e-12)  # second stage: 3 layers, 3 micro-batches
    assert kept[2] == pytest.approx(2 * 3 * layer, rel=1e-12)


@pytest.mark.parametrize("name", STRATEGIES)
def test_owners_add_up(name: str) -> None:
    outcome = result(name)
    for device, steps in outcome.memory_over_time.items():
        assert set(steps.by_owner) == set(OWNERS)
        total = sum(column for owner, column in steps.by_owner.items() if owner != "reserve")
        np.testing.assert_allclose(total, steps.bytes, rtol=1e-9)
        assert (np.diff(steps.time_s) > 0).all()
        assert all((column >= 0).all() for column in steps.by_owner.values())
        assert steps.bytes[-1] == pytest.approx(steps.static_bytes), "what was taken is given back"
        assert sum(steps.owners_at_peak().values()) == pytest.approx(steps.peak_bytes + steps.reserve_bytes)
        nodes = outcome.memory_by_node(device)
        held = sum(node.total_bytes for node in nodes) + steps.owners_at_peak()["workspaces"]
        assert held == pytest.approx(steps.peak_bytes, rel=1e-9)


def test_zero_divides_what_it_cuts() -> None:
    held = {}
    for zero in range(4):
        tree = pt.StrategyTree(tiny(1)).parallelize(dp=8, global_batch=8, zero=zero)
        steps = next(iter(pt.simulate(tree, pt.clusters.load("dgx-h100")).memory_over_time.values()))
        held[zero] = {owner: steps.by_owner[owner][0] for owner in ("parameters", "gradients", "optimizer")}
    for owner, stage in (("optimizer", 1), ("gradients", 2), ("parameters", 3)):
        for zero in range(4):
            parts = 8 if zero >= stage else 1
            assert held[zero][owner] == pytest.approx(held[0][owner] / parts, rel=1e-4)
    params = tiny(1).num_params
    assert [held[0][owner] / params for owner in held[0]] == pytest.approx([2, 4, 12])  # bf16, fp32 sums, fp32 Adam


def test_workspaces() -> None:
    hopper, ampere = load("h100"), load("a100")
    assert workspace_bytes(hopper, has_engine=False) == 64 * MiB
    assert workspace_bytes(ampere, has_engine=False) < workspace_bytes(ampere, has_engine=True) < 32 * MiB
