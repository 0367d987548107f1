"""Published runs as cases."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from proteus.errors import ProteusError
from proteus.model import zoo
from proteus.validation.case import Case, case_of
from proteus.validation.runs import parse_runs, shipped_runs
from tests.validation.rows import table

PACKAGE = Path(__file__).resolve().parents[2] / "proteus"


def one(**changes: str) -> Case:
    (run,) = parse_runs(table(changes), "t")
    return case_of(run)


def test_sizes_come_from_the_run() -> None:
    case = one()
    assert case.tree.model.facts["layers"] == 8
    assert case.tree.model.blocks[-1].dims["vocab"] == 50432  # a multiple of 128 x tp, as Megatron pads it
    assert case.cluster.num_devices == 8


UNSIZED = {"hidden": "", "layers": "", "heads": "", "kv_heads": "", "ffn_hidden": "", "vocab": "", "seq_len": ""}


def test_a_name_stands_for_the_sizes_that_a_run_does_not_state() -> None:
    (run,) = parse_runs(table({**UNSIZED, "model": "Llama 3 8B", "n_params": "8e9"}), "t")
    case = case_of(run)
    assert (case.tree.model.facts["layers"], case.tree.model.facts["seq"]) == (32, 8192)
    assert "sizes of llama3-8b" in case.assumed
    (run,) = parse_runs(table({**UNSIZED, "model": "Llama 3 8B", "n_params": "13e9"}), "t")
    with pytest.raises(ProteusError, match="hidden of the model is not stated"):
        case_of(run)


def test_a_named_model_keeps_what_its_columns_cannot_say() -> None:
    sizes = {"hidden": "2048", "layers": "27", "heads": "16", "kv_heads": "16", "ffn_hidden": "10944"}
    experts = {"moe_experts": "64", "moe_topk": "6", "moe_ffn": "1408", "vocab": "102400", "seq_len": "4096"}
    (run,) = parse_runs(table({**sizes, **experts, "model": "DeepSeek-V2-Lite", "tp": "1", "dp": "8"}), "t")
    model = case_of(run).tree.model
    assert model.num_params == pytest.approx(zoo.load("deepseek-v2-lite").num_params, rel=1e-3)


def test_remarks_in_a_name_do_not_hide_the_model() -> None:
    sizes = {"hidden": "2048", "layers": "27", "heads": "16", "kv_heads": "16", "ffn_hidden": "10944"}
    experts = {"moe_experts": "64", "moe_topk": "6", "moe_ffn": "1408", "vocab": "102400", "seq_len": "4096"}
    row = {**sizes, **experts, "tp": "1", "dp": "8"}
    for name in ("DeepSeek-V2-Lite (tokendrop)", "DeepSeek V2 Lite 16B"):
        (run,) = parse_runs(table({**row, "model": name}), "t")
        assert case_of(run).tree.model.facts["shared_ffn"] == 2816
    (run,) = parse_runs(table({**row, "model": "DeepSeek-V2-Lite (half)", "hidden": "1024"}), "t")
    assert not case_of(run).tree.model.facts.get("shared_ffn")  # another model of that family


def test_packed_documents_do_not_attend_to_each_other() -> None:
    assert one(settings="document=200").tree.model.facts["document"] == 200
    assert one().tree.model.facts["document"] is None


def test_a_shortened_model_is_still_of_its_family() -> None:
    known = zoo.fields("deepseek-v3")
    sizes = {"hidden": known["hidden"], "heads": known["heads"], "kv_heads": known["heads"], "ffn_hidden": known["ffn"]}
    experts = {"moe_experts": "256", "moe_topk": "8", "moe_ffn": "2048", "layers": "4", "vocab": "129280"}
    row = {**sizes, **experts, "tp": "1", "dp": "8", "precision": "bf16"}

    def blocks(**changes: str) -> dict[str, int]:
        model = one(**{**row, "model": "DeepSeek-V3 truncated to 4 layers", **changes}).tree.model
        assert any("kv_down" in op.name or "latent" in op.name for block in model.blocks for op in block.ops)
        return {block.name: block.count for block in model.blocks if block.indexed}

    assert blocks() == {"dense_layers": 3, "layers": 1}
    assert blocks(settings="experts.dense_layers=1") == {"dense_layers": 1, "layers": 3}


def test_an_architecture_by_name_or_by_shape_says_so() -> None:
    gated = {"ffn_hidden": "2752", "kv_heads": "4"}
    named, plain, shaped = one(model="qwen3 of ours", **gated), one(model="no such name"), one(model="no such", **gated)
    assert [case.model.name for case in (named, plain, shaped)] == ["qwen3", "gpt", "llama"]
    assert "architecture qwen3, by the name 'qwen3 of ours'" in named.assumed
    assert "architecture llama, by the shape of the MLP" in shaped.assumed


@pytest.mark.parametrize("name", ["llama-7b", "llama2-70b", "Llama 3 8B (remark)", "my llama"])
def test_of_stated_sizes_a_name_moves_nothing(name: str) -> None:
    sizes = {"ffn_hidden": "2752", "kv_heads": "8", "tp": "2"}
    assert one(model=name, **sizes).model == one(model="llama", **sizes).model


def test_a_model_of_another_size_than_stated_is_told() -> None:
    assert not any("parameters" in line for line in one(n_params="0.16e9").assumed)
    (line,) = [line for line in one(n_params="0.32e9").assumed if "parameters" in line]
    assert line == "the model built has 0.153 B parameters, -52% of the stated ones"


def test_what_the_table_assumed_is_told() -> None:
    assert "by the table itself: micro batch" in one(assumed_fields="micro batch").assumed


def test_recomputation_as_needed_is_the_frameworks() -> None:
    case = one(framework="NeMo (Megatron-Core)", recompute="", precision="bf16")
    assert case.plan.recompute is None
    assert case.tree.decided["recompute"].value == "auto"


def test_norms_that_always_run_again() -> None:
    for recompute, expected in (("none", ["layers.*.attention.norm", "layers.*.mlp.norm"]), ("full", ["layers"])):
        case = one(framework="InternEvo", recompute=recompute, precision="bf16")
        again = [path for path, config in case.tree.configs if config.recompute == "full"]
        assert [path for path in again if path in expected] == expected


def test_most_shipped_runs_can_be_expressed() -> None:
    reasons: dict[str, int] = {}
    for run in shipped_runs():
        try:
            case_of(run)
        except ProteusError as error:
            reasons[str(error)] = reasons.get(str(error), 0) + 1
    assert not reasons


def strings(path: Path) -> list[str]:
    if path.suffix == ".py":
        tree = ast.parse(path.read_text("utf-8"))
        return [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return [path.read_text("utf-8")]


@pytest.mark.parametrize("folder", ["validation", "costs", "compiler", "htae", "result"])
def test_no_row_or_table_is_a_special_case(folder: str) -> None:
    """Neither code nor data that shape a prediction name a row, a table or one model of the tables."""
    runs = shipped_runs()
    names = {name for run in (*runs, *shipped_runs("later")) for name in (run.id, run.table_id)}
    names |= {run.model for run in runs if any(c.isdigit() for c in run.model)}
    # words that only the page about accuracy says
    pages = {"document.py", "accuracy_notes.md", "held_out.json", "later_first.json"}
    names -= set(zoo.names())  # families say which published architecture they are like
    pattern = re.compile("|".join(rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in sorted(names)), re.IGNORECASE)
    for path in sorted((PACKAGE / folder).rglob("*")):
        if path.suffix in (".py", ".yaml", ".json", ".md") and path.name not in pages:
            for text in strings(path):
                match = pattern.search(text)
                assert match is None, f"{path.name}: {match.group()!r} is a row, a table or a model of the tables"
