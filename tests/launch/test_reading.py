"""Small launch files, one per framework: what each says of model, plan and machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import proteus as pt
from proteus.launch import Launch, read

DATA = Path(__file__).parents[1] / "data" / "launch"

#: file → world size, framework, words of the plan, and names of what is needed
EXPECTED: dict[str, tuple[int | None, str, dict[str, Any], set[str]]] = {
    "pretrain.sh": (
        None,
        "megatron-core",
        {
            "dp": 4, "tp": 2, "pp": 2, "virtual_stages": 4, "micro_batch": 1, "global_batch": 128, "zero": 1,
            "sequence_parallel": True, "recompute": "full", "recompute_layers": 2, "overlap_gradients": True,
            "overlap_parameters": True, "precision": "bf16", "seq": 8192,
            "framework": "megatron-core, fused_rope=false",
        },
        set(),
    ),
    "megatron.yaml": (
        16,
        "megatron-core",
        {"dp": 4, "tp": 2, "cp": 2, "ep": 4, "context": "all_to_all", "global_batch": 8, "recompute": "selective",
         "recompute_modules": ("norm",), "zero": 0},
        set(),
    ),
    "torchtitan.toml": (
        16,
        "torchtitan",
        {"dp": 8, "tp": 2, "zero": 3, "shard": 4, "recompute": "op", "precision": "fp8-rowwise", "compile": True,
         "overlap_tensor": "forward", "sequence_parallel": True, "global_batch": 16, "micro_batch": 2,
          "optimizer": "adamw"},
        set(),
    ),
    "nemo.yaml": (
        None,
        "nemo",
        {"dp": 2, "tp": 4, "pp": 2, "virtual_stages": 4, "global_batch": 128, "micro_batch": 1, "zero": 1,
         "overlap_gradients": True, "overlap_parameters": True, "overlap_tensor": "all", "recompute": "selective",
         "precision": "bf16", "seq": 4096},
        {"vocab"},
    ),
    "accelerate_fsdp2.yaml": (
        None,
        "fsdp2",
        {"dp": 16, "zero": 2, "precision": "fp32", "recompute": "full", "offload": ("parameter", "gradient",
         "optimizer")},
        {"micro_batch", "global_batch", "model"},
    ),
    "trainer.yaml": (
        8,
        "deepspeed",
        {"dp": 8, "zero": 3, "lora": 16, "micro_batch": 2, "global_batch": 128, "recompute": "full",
         "precision": "bf16",
         "attention": "flash2", "seq": 2048},
        set(),
    ),
    "torchtune.yaml": (
        4,
        "torchtune",
        {"dp": 4, "zero": 3, "micro_batch": 2, "global_batch": 32, "recompute": "full", "precision": "bf16",
         "seq": 4096},
        set(),
    ),
    "primus.yaml": (
        8,
        "primus",
        {"dp": 8, "tp": 1, "zero": 1, "micro_batch": 2, "global_batch": 128, "overlap_gradients": True,
         "precision": "bf16"},
        set(),
    ),
    "deepspeed.json": (
        8,
        "deepspeed",
        {"dp": 8, "zero": 2, "micro_batch": 2, "global_batch": 64, "bucket_bytes": 4e8, "offload": ("optimizer",),
         "overlap_gradients": True, "precision": "bf16"},
        {"model"},
    ),
    "neox.yml": (
        4,
        "gpt-neox",
        {"dp": 2, "tp": 2, "pp": 1, "zero": 1, "micro_batch": 4, "global_batch": 16, "recompute": "full",
         "precision": "fp16"},
        set(),
    ),
    "nanotron.yaml": (
        None,
        "nanotron",
        {"dp": 2, "tp": 2, "pp": 2, "schedule": "gpipe", "sequence_parallel": True, "zero": 1, "global_batch": 16},
        set(),
    ),
}  # fmt: skip


def loaded(name: str) -> Launch:
    return read(DATA / name, world_size=EXPECTED[name][0])


@pytest.mark.parametrize("name", EXPECTED)
def test_the_plan_of_a_file(name: str) -> None:
    _, framework, plan, needs = EXPECTED[name]
    launch = loaded(name)
    assert launch.framework == framework
    assert {field: launch.plan.said.get(field) for field in plan} == plan
    assert {need.name for need in launch.needs} == needs


@pytest.mark.parametrize("name", [name for name, (*_, needs) in EXPECTED.items() if not needs])
def test_what_needs_nothing_makes_a_tree(name: str) -> None:
    launch = loaded(name)
    launch.check()
    assert launch.model is not None
    pt.StrategyTree(launch.model).parallelize(launch.plan)


def test_every_file_has_an_answer() -> None:
    assert {path.name for path in DATA.iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_name_of_a_file_says_nothing(name: str, tmp_path: Path) -> None:
    other = tmp_path / "x"
    other.write_bytes((DATA / name).read_bytes())
    launch = read(other, world_size=EXPECTED[name][0])
    assert launch.plan == loaded(name).plan


def test_a_script_names_what_it_does_not_understand() -> None:
    launch = loaded("pretrain.sh")
    unknown = {unused.key: unused for unused in launch.not_understood if unused.why.startswith("unknown")}
    assert set(unknown) == {"--frobnicate"}
    lines = (DATA / "pretrain.sh").read_text().split("\n")
    assert "--frobnicate" in lines[unknown["--frobnicate"].line - 1]  # type: ignore[operator]
    assert launch.model is not None
    assert launch.model.num_params == pt.models.load("llama3-8b").num_params


def test_a_need_is_named_before_anything_runs() -> None:
    with pytest.raises(pt.InputError, match=r"needs .*micro_batch.*global_batch.*model"):
        loaded("accelerate_fsdp2.yaml").check()


def test_two_files_of_one_run_are_joined() -> None:
    both = loaded("accelerate_fsdp2.yaml").joined(read(DATA / "deepspeed.json", world_size=16))
    assert both.framework == "deepspeed" and both.plan.global_batch == 64
    assert {need.name for need in both.needs} == {"model"}
    assert both.with_model(pt.models.load("gpt2")).needs == ()


def test_dims_that_a_file_lacks_are_given() -> None:
    launch = read(["--num-layers", "2", "--hidden-size", "64", "--num-attention-heads", "4", "--seq-length", "32",
                   "--micro-batch-size", "1"], world_size=1)  # fmt: skip
    assert [need.name for need in launch.needs] == ["vocab"] and launch.model is None
    assert launch.with_dims(vocab=128).model is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no keys"),
        ("a: 1\n", "none of the launch files"),
        ("{" * 100, "deeper"),
        ("--num-layers 2 --hidden-size two --num-attention-heads 4", "hidden-size=two; it must be a whole number"),
        ("torchrun x.py --a ${A", "never closed"),
        ("\0--num-layers 1", "null bytes"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(pt.InputError, match=message):
        read(path)


def test_a_world_that_does_not_divide_is_refused() -> None:
    with pytest.raises(pt.InputError, match="does not divide the world size 6"):
        read(DATA / "pretrain.sh", world_size=6)
