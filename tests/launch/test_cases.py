"""Real launch files with their right answers, from a folder beside the checkout."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from proteus.launch import read

ROOT = Path(__file__).parents[2]
CASES = ROOT.parent / "shared" / "cases"
#: columns of the index → fields of the plan
PLAN = {"mbs": "micro_batch", "gbs": "global_batch", "tp": "tp", "pp": "pp", "cp": "cp", "ep": "ep"}
DIMS = {"layers": "layers", "hidden": "hidden", "heads": "heads", "kv_heads": "kv_heads", "ffn": "ffn",
        "vocab": "vocab", "seq": "seq", "experts": "experts", "topk": "topk"}  # fmt: skip


def index() -> list[dict[str, str]]:
    path = CASES / "configs.csv"
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines())) if path.is_file() else []


def whole(text: str) -> int | None:
    """The number of a cell such as ``49152 (default 4h)`` or ``2x4x2 = 16``."""
    words = text.rpartition("=")[2].split()
    return int(words[0]) if words and words[0].isdecimal() else None


def test_the_index_is_read(shared: Path) -> None:
    assert len(index()) >= 20 and shared == CASES.parent


@pytest.mark.parametrize("row", index(), ids=lambda row: row["file"])
def test_a_real_file(row: dict[str, str]) -> None:
    launch = read(CASES / "configs" / row["file"])
    said = launch.to_dict()
    model, plan = said["model"] or {}, said["plan"]
    for column, name in DIMS.items():
        value = whole(row[column])
        if value is None:
            continue
        if name == "ffn" and "3 x 28672" in row["notes"]:
            value = 28672  # the index names the file's number and says that it is no width
        if name == "seq" and row["kind"] == "Hugging Face config.json":
            name = "max_positions"  # a config says no training length
        assert model.get(name) == value, (column, launch)
    for column, name in PLAN.items():
        value = whole(row[column])
        assert value is None or (plan[name] or 1) == value, (column, launch)
    if row["zero"]:
        stage = "3" if "FULL_SHARD" in row["zero"] else row["zero"].split()[0].strip(",")
        assert plan["zero"] == int(stage), launch
    if row["precision"] and "float" not in row["precision"]:
        assert plan["precision"] == ("fp8" if "fp8" in row["precision"] else row["precision"]), launch
    if row["recompute"] == "yes":
        assert plan["recompute"] == "full"
    unknown = [unused.key for unused in launch.not_understood if unused.why.startswith("unknown")]
    assert len(unknown) <= 1, unknown


@pytest.mark.parametrize(
    ("file", "needs"),
    [
        ("C01_megatron_gpt3_175b.args.txt", {"world_size", "vocab"}),
        ("C03_megatron_bert_340m.args.txt", {"world_size", "vocab", "pp"}),
        ("C36_hf_deepseek_v2.json", {"plan", "world_size", "model"}),
        ("C42_deepspeed_zero3_cpu_offload.json", {"precision", "global_batch", "micro_batch", "world_size", "model"}),
    ],
)
def test_traps_are_named(file: str, needs: set[str], shared: Path) -> None:
    assert {need.name for need in read(shared / "cases" / "configs" / file).needs} == needs
