from __future__ import annotations

import pytest

import proteus as pt
from proteus.errors import StrategyError
from proteus.strategy import StrategyTree
from proteus.strategy.degrees import possible_tensor_degrees, tensor_axes


def load(name: str, **degrees: object) -> StrategyTree:
    return StrategyTree(pt.models.load(name)).parallelize(**degrees)


def test_the_recipe_writes_configs_that_a_user_could_write() -> None:
    tree = load("llama3-8b", dp=2, tp=2, global_batch=4, zero=1)
    by_hand = (
        tree.on(tree.model)
        .with_mesh(tree.mesh, tree.stages)
        .with_training(micro_batch=1, global_batch=4)
        .set(
            "",
            partition={"batch": "dp", "kv_heads": "tp", "ffn": "tp", "vocab": "tp"},
            memory={"optimizer": pt.Memory(axes=("dp",))},
            recompute="none",
        )
    )
    assert by_hand.diff(tree) == []


def test_ranks_order_as_in_megatron() -> None:
    tree = load("mixtral-8x7b", dp=8, tp=2, pp=2, ep=4, cp=2, global_batch=16)
    assert repr(tree.mesh) == "mesh(pp=2, dp=4, ep=2, cp_ep=2, tp=2)"
    assert [stage.first_device for stage in tree.stages] == [0, 32]


@pytest.mark.parametrize(
    ("model", "degrees", "message"),
    [
        ("falcon-7b", {"tp": 8}, "tp=8 does not divide 71 attention heads; possible: 1, 71"),
        ("llama3-8b", {"tp": 3}, "tp=3 does not divide 32 attention heads; possible: 1, 2, 4, 8, 16, 32"),
        (
            "llama3-8b",
            {"dp": 3, "global_batch": 10},
            r"multiple of micro_batch × dp = 1 × 3 = 3; nearest: 9 or 12; with this batch dp could be 2",
        ),
        ("llama3-8b", {"pp": 99}, "99 pipeline chunks for 34 blocks"),
        ("llama3-8b", {"ep": 2, "dp": 2}, "a model without experts; possible: 1"),
        ("mixtral-8x7b", {"ep": 3, "dp": 3}, "8 experts on dp=3 × cp=1 × tp=1 with etp=1; possible: 1"),
        ("llama3-8b", {"cp": 3}, "multiple of 2·cp=6"),
        ("llama3-8b", {"schedule": "1f2b"}, "unknown schedule '1f2b'; nearest: 1f1b"),
        ("llama3-8b", {"dp": 0}, "dp=0; it must be a whole number of at least 1"),
        ("llama3-8b", {"zero": 4}, "zero=4; it must be a whole number from 0 to 3"),
        ("llama3-8b", {"recompute": "ful"}, "unknown recompute 'ful'; nearest: full"),
        ("llama3-8b", {"pp": 2, "layers_per_stage": [30, 3]}, "add up to the 32 layers"),
        ("resnet50", {"tp": 2}, "tp=2 does not divide the dims that tensor parallelism cuts; possible: 1"),
    ],
)
def test_impossible_degrees_name_rule_numbers_and_possible_values(
    model: str, degrees: dict[str, object], message: str
) -> None:
    with pytest.raises(StrategyError, match=message):
        load(model, **degrees)


@pytest.mark.parametrize(
    ("model", "tp", "axes"),
    [("llama3-8b", 8, (8, 1)), ("llama3-8b", 16, (8, 2)), ("falcon-7b", 71, (1, 71)), ("gpt2", 4, (4, 1))],
)
def test_query_heads_may_outnumber_key_value_heads(model: str, tp: int, axes: tuple[int, int]) -> None:
    loaded = pt.models.load(model)
    assert tensor_axes(loaded, tp) == axes
    assert tp in possible_tensor_degrees(loaded)


def test_zero_cuts_more_with_every_stage() -> None:
    cut = []
    for zero in range(4):
        memory = dict(load("tiny-llama", dp=2, global_batch=2, zero=zero).configs)[""].memory or {}
        cut.append({role for role, kept in memory.items() if kept.axes})
    assert cut == [set(), {"optimizer"}, {"optimizer", "gradient"}, {"optimizer", "gradient", "parameter"}]


def test_sequence_parallelism_names_the_ops_that_tensor_parallelism_leaves_whole() -> None:
    tree = load("tiny-llama", tp=2, sequence_parallel=True)
    named = [selector for selector, _ in tree.configs if selector]
    assert named == [
        "layers.*.attention.norm",
        "layers.*.attention.residual",
        "layers.*.mlp.norm",
        "layers.*.mlp.residual",
        "head.final_norm",
    ]


def test_virtual_stages_deal_chunks_round() -> None:
    tree = load("tiny-llama", pp=2, virtual_stages=2)
    assert tree.schedule.name == "interleaved"
    assert [(stage.rank, stage.blocks) for stage in tree.stages] == [
        (0, (0, 2)),
        (1, (2, 3)),
        (0, (3, 4)),
        (1, (4, 6)),
    ]


def test_padding_grows_the_vocabulary_to_a_multiple() -> None:
    tree = load("gpt2", tp=4, pad_vocab=128)
    assert tree.model.num_params == pt.models.load("gpt2").num_params + (50688 - 50257) * 768
    assert tree.notes == ("vocabulary padded from 50257 to 50688",)
    assert load("llama3-8b", tp=2, pad_vocab=128).notes == ()  # 128256 = 501 * 256


def test_a_vocabulary_that_does_not_divide_is_padded_unless_told_not_to() -> None:
    assert load("gpt2", tp=2).notes == ("vocabulary padded from 50257 to 50432",)
    assert load("gpt2", tp=2, pad_vocab=0).model.num_params == pt.models.load("gpt2").num_params
    assert load("gpt2", dp=2).notes == ()
    # grown once: what was compiled for it is found again
    assert load("gpt2", tp=2).model is load("gpt2", tp=2).model


def test_first_copies_of_every_stage_recompute() -> None:
    tree = load("tiny-llama", pp=2, recompute="full", recompute_layers=1)
    assert [run.path for run in tree.runs()] == ["embedding", "layers.0", "layers.1", "layers.2", "layers.3", "head"]


def test_hybrid_shard_cuts_states_in_groups_and_keeps_copies_between_them() -> None:
    tree = load("tiny-llama", dp=4, zero=3, shard=2, global_batch=4)
    assert repr(tree.mesh) == "mesh(pp=1, dp=2, shard=2, tp=1)"
    assert tree.samples_per_micro_batch == 4
    result = pt.simulate(tree, pt.clusters.load("dgx-a100"), fold=False)
    kinds = {(row.kind, row.axes) for row in result.graph.comm_rows}
    assert kinds == {("all_gather", ("shard",)), ("reduce_scatter", ("shard",)), ("all_reduce", ("dp",))}
    with pytest.raises(StrategyError, match="shard=3 does not divide 4 data-parallel ranks; possible: 1, 2, 4"):
        load("tiny-llama", dp=4, zero=3, shard=3)


def test_adapters_are_trained_and_nothing_else() -> None:
    tree = load("llama3-8b", lora=16, lora_targets=("attention",), lora_dropout=0.1)
    assert tree.model.lora == pt.Lora(rank=16, targets=("attention",), dropout=0.1)
    frozen_by_path = {path: config.frozen for path, config in tree.configs if config.frozen is not None}
    adapters = [f"layers.*.attention.{op}.lora_{part}" for op in ("qkv", "proj") for part in "ab"]
    assert frozen_by_path == {"": True, **dict.fromkeys(adapters, False)}


def test_a_recipe_keeps_the_adapters_of_a_model() -> None:
    once = load("llama3-8b", lora=16)
    again = once.parallelize(dp=2, global_batch=2)
    assert again.model is once.model
    assert dict(again.configs)[""].frozen is True
    assert again.parallelize(lora=4, global_batch=1).model.base is once.model.base


def test_what_is_frozen_on_top() -> None:
    tree = load("llama3-8b", freeze=("embedding", "layers.0-15"))
    assert {path for path, config in tree.configs if config.frozen} == {"embedding", "layers.0-15"}


def test_places_of_adapters_without_a_rank_say_nothing() -> None:
    with pytest.raises(StrategyError, match="give the rank"):
        load("llama3-8b", lora_targets=("attention",))


def test_adapters_survive_a_file() -> None:
    tree = load("llama3-8b", lora=16, lora_targets=("mlp",), dp=2, global_batch=2)
    read = StrategyTree.from_yaml(tree.to_yaml())
    assert read == tree
    assert read != load("llama3-8b", lora=8, lora_targets=("mlp",), dp=2, global_batch=2)
    assert tree.diff(load("llama3-8b", dp=2, global_batch=2))[0].startswith("lora: None → Lora(rank=16")
    bad = tree.to_yaml().replace("lora: 16", "lora: many")
    with pytest.raises(StrategyError, match=r"plan\.lora: lora='many'; it must be a whole number of at least 1"):
        StrategyTree.from_yaml(bad)


def test_a_base_in_four_bits() -> None:
    tree = load("llama3-8b", lora=16, lora_base="nf4")
    frozen_by_path = {
        path: config.frozen for path, config in tree.configs if config.frozen is not None and "lora" not in path
    }
    assert frozen_by_path == {"": True, "layers": "nf4"}
    with pytest.raises(StrategyError, match="give the rank"):
        load("llama3-8b", lora_base="nf4")
    with pytest.raises(StrategyError, match="nf4"):
        load("llama3-8b", lora=16, lora_base="nf5")
    assert StrategyTree.from_yaml(tree.to_yaml()) == tree
    again = tree.parallelize(dp=2, global_batch=2)  # the base is the model's, as its adapters are
    assert dict(again.configs)["layers"].frozen == "nf4"
