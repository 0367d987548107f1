"""Prices of instructions: what is added to an op's own kernels."""

from __future__ import annotations

import pytest

import proteus as pt
from proteus import frameworks
from proteus.compiler.chain import chain
from proteus.compiler.memory import static_memory
from proteus.compiler.price import Pricer
from proteus.compiler.program import Compute, ProgramPhase
from proteus.costs import precision
from proteus.hardware import gpus
from proteus.strategy import StrategyTree

EAGER = frameworks.load("torchtune")
BF16 = precision.kept_by(EAGER, "bf16")
NF4 = 0.5 + 1 / 64 + 1 / 4096


def tree(**settings: object) -> StrategyTree:
    return StrategyTree(pt.models.load("llama3-8b", layers=2, seq=512)).parallelize(lora=8, **settings)


def test_weights_in_four_bits_are_unpacked_for_each_product_that_reads_them() -> None:
    pricer = Pricer(gpus.load("a100-80gb"), BF16, EAGER)
    program = chain(tree(lora_base="nf4", tp=2), element_bytes=2.0, fused_attention=True)[0].links[2].program
    unpacking = {
        i.phase: pricer.unpacked(program, i, (0, 0))
        for i in (*program.forward, *program.backward)
        if isinstance(i, Compute) and i.op.name == "mlp.fc2"
    }
    assert set(unpacking) == {ProgramPhase.FORWARD, ProgramPhase.INPUT_GRAD}
    for (work,) in unpacking.values():
        assert work.bytes == pytest.approx(4096 * 14336 / 2 * (NF4 + 2.0))
    plain = chain(tree(tp=2), element_bytes=2.0, fused_attention=True)[0].links[2].program
    assert all(pricer.unpacked(plain, i, (0, 0)) == () for i in plain.forward if isinstance(i, Compute))


def test_weights_in_four_bits_take_a_quarter_and_a_bit() -> None:
    def parameters(base: str) -> float:
        compiled = tree(lora_base=base)
        chunks = chain(compiled, element_bytes=2.0, fused_attention=True)
        return static_memory(chunks, compiled.training, BF16).parameter

    layer = 4096 * (6144 + 4096 + 2 * 14336) + 14336 * 4096
    assert parameters("exact") - parameters("nf4") == pytest.approx(2 * layer * (2.0 - NF4))


def test_a_quantised_base_is_gathered_as_it_is_kept() -> None:
    cluster = pt.clusters.load("dgx-a100")

    def gathered(base: str) -> float:
        graph = pt.simulate(tree(lora_base=base, dp=8, zero=3, global_batch=8), cluster).graph
        return max(row.size_bytes for row in graph.comm_rows if row.kind == "all_gather" and "layers" in row.name)

    assert 0.25 < gathered("nf4") / gathered("exact") < 0.28
