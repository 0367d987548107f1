"""Steps of a block: what waits for what, and what runs with the weight gradients."""

from __future__ import annotations

import proteus as pt
from proteus.compiler.chain import chain
from proteus.compiler.memory import saved_tensors
from proteus.compiler.program import BlockProgram, Move, ProgramPhase, reads, writes
from proteus.compiler.steps import PORT, phases, runs_weights_apart
from proteus.strategy.schedules.pipeline_plan import B, F, W


def programs(regathers: bool = True, stops_early: bool = False, **degrees: object) -> dict[str, BlockProgram]:
    tree = pt.StrategyTree(pt.models.load("tiny-llama", layers=1, seq=8)).parallelize(**degrees)
    (chunk,) = chain(tree, element_bytes=2.0, fused_attention=True, regathers=regathers, stops_early=stops_early)
    return {link.run.block.name: link.program for link in chunk.links}


def test_forward_of_a_tensor_parallel_layer() -> None:
    """compute, all_reduce, compute, all_reduce, compute."""
    forward = phases(programs(tp=2)["layers"], False)[F]
    assert [step.is_comm for step in forward.steps] == [False, True, False, True, False]
    assert [sorted(step.preds) for step in forward.steps] == [[PORT], [0], [1], [2], [3]]
    assert forward.outputs == (4,)


def test_backward_and_weight_gradients_hold_every_instruction_once() -> None:
    for program in programs(tp=2, sequence_parallel=True, recompute="full").values():
        whole, split = phases(program, False), phases(program, True)
        assert len(whole[B].instructions) == len(split[B].instructions) + len(split[W].instructions)
        late = split[W].instructions
        assert all(i.phase is ProgramPhase.WEIGHT_GRAD or isinstance(i, Move) for i in late)


def test_nothing_early_reads_what_is_late() -> None:
    for program in programs(tp=2, sequence_parallel=True, recompute="full").values():
        early, late = phases(program, True)[B], phases(program, True)[W]
        made = {value for i in late.instructions for value in writes(i)}
        assert not made & {value for i in early.instructions for value in reads(i)}


def test_an_embedding_has_no_weight_phase() -> None:
    """There is nothing to compute before its weight gradient."""
    program_of_block = programs(tp=2)
    assert not runs_weights_apart(program_of_block["embedding"], True)
    assert runs_weights_apart(program_of_block["layers"], True) and not runs_weights_apart(
        program_of_block["layers"], False
    )


def regathered(program: BlockProgram) -> list[str]:
    return [
        program.values[i.target].tensor
        for i in program.backward
        if isinstance(i, Move) and i.phase is ProgramPhase.RECOMPUTE
    ]


def test_what_sequence_parallelism_gathers_is_kept_or_gathered_again() -> None:
    again, kept = (programs(regathers, tp=2, sequence_parallel=True)["layers"] for regathers in (True, False))
    products = ["mlp.norm.out", "attention.norm.out"]
    assert regathered(again) == products
    assert regathered(kept) == []
    for name in products:
        assert saved_tensors(kept)[name] == 2 * saved_tensors(again)[name]


def test_a_ring_never_holds_what_goes_round() -> None:
    for regathers in (True, False):
        assert regathered(programs(regathers, cp=2, context="ring")["layers"])
    assert not regathered(programs(False, cp=2, context="all_gather")["layers"])


def test_recomputation_that_stops_early_leaves_out_the_last_product() -> None:
    """Its result is needed by nobody; its input, which the activation before makes, is."""
    whole, early = (
        [i.op.name for i in programs(False, stop, tp=2, recompute="full")["layers"].recompute] for stop in (False, True)
    )
    assert whole[: len(early)] == early
    assert early[-1] == "mlp.activation"
    assert "mlp.fc2" in whole and "mlp.fc2" not in early


def test_selective_recomputation_ends_with_what_is_needed() -> None:
    """Attention's result is an input of the product after it, so nothing is left out."""
    whole, early = (programs(False, stop, recompute="selective")["layers"].recompute for stop in (False, True))
    assert whole == early
