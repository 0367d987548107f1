"""Published runs as cases."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from proteus.errors import ProteusError
from proteus.model import zoo
from proteus.strategy.config import Memory
from proteus.validation.architecture import family, model_of, spec_of
from proteus.validation.case import case_of
from proteus.validation.runs import parse_runs, shipped_runs
from tests.validation.rows import table

PACKAGE = Path(__file__).resolve().parents[2] / "proteus"


def test_sizes_come_from_the_run() -> None:
    (run,) = parse_runs(table({}), "t")
    case = case_of(run)
    assert case.tree.model.facts["layers"] == 8
    assert case.tree.model.facts["vocab"] == 50432  # a multiple of 128 x tp, as Megatron pads it
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
    for notes, document in (("SQuAD packed to 1024", 200), ("packed", None), ("SQuAD", None)):
        (run,) = parse_runs(table({"notes": notes}), "t")
        case = case_of(run)
        assert case.tree.model.facts["document"] == document
        assert ("documents of 200 tokens" in case.assumed) == (document is not None)


def test_a_shortened_model_is_still_of_its_family() -> None:
    known = zoo.fields("deepseek-v3")
    sizes = {"hidden": known["hidden"], "heads": known["heads"], "kv_heads": known["heads"], "ffn_hidden": known["ffn"]}
    experts = {"moe_experts": "256", "moe_topk": "8", "moe_ffn": "2048", "layers": "4", "vocab": "129280"}

    def blocks(**changes: str) -> dict[str, int]:
        row = {**sizes, **experts, "model": "DeepSeek-V3 truncated to 4 layers", **changes}
        (run,) = parse_runs(table(row), "t")
        spec = spec_of(run, [], vocab=1, vocab_multiple=1, dropout=False)
        assert spec.latent is not None
        return {block.name: block.count for block in model_of(spec).blocks if block.indexed}

    assert blocks() == {"dense_layers": 3, "layers": 1}
    assert blocks(notes="first layer dense") == {"dense_layers": 1, "layers": 3}


def test_families_by_name_or_by_shape() -> None:
    assert family("qwen3_30b_a3b", False)[1]["qk_norm"]
    assert family("no such name", True)[1]["norm"] == "layer_norm"
    assert family("no such name", False)[1]["rope"]


def test_recompute_as_needed_starts_with_none() -> None:
    (run,) = parse_runs(table({"framework": "NeMo (Megatron-Core)", "recompute": "", "precision": "bf16"}), "t")
    found = case_of(run)
    assert not any(config.recompute == "full" for _, config in found.tree.configs)
    ((*some, most),) = found.savings
    assert all(any(config.recompute == "full" for _, config in tree.configs) for tree in some)
    assert [path for path, config in most.configs if config.recompute == "full"] == ["layers"]


def test_norms_that_always_run_again() -> None:
    for recompute, expected in (("none", ["layers.*.attention.norm", "layers.*.mlp.norm"]), ("full", ["layers"])):
        changes = {"framework": "InternEvo", "recompute": recompute, "precision": "bf16"}
        (run,) = parse_runs(table(changes), "t")
        again = [path for path, config in case_of(run).tree.configs if config.recompute == "full"]
        assert again == expected


def test_activations_may_go_to_a_grace_cpu() -> None:
    changes = {"framework": "Megatron-Bridge", "recompute": "", "precision": "bf16", "gpus_per_node": "4"}
    plain, grace = (
        case_of(parse_runs(table({**changes, "gpu": gpu}), "t")[0]).savings for gpu in ("B200-SXM", "GB200")
    )
    assert len(plain) == 1 and len(grace) == 2
    kept = [
        [path for path, config in tree.configs if (config.memory or {}).get("activation") == Memory(offload=True)]
        for tree in grace[1]
    ]
    assert kept == [["layers.0-1"], ["layers.0-3"], ["layers.0-5"]]


def test_a_head_that_is_a_layer_runs_again_with_the_layers() -> None:
    changes = {"model": "LLaMA", "tp": "1", "dp": "8", "precision": "bf16"}
    for recompute in ("none", "every_layer"):
        for framework in ("Aleph Alpha scaling", "Megatron-LM"):
            (run,) = parse_runs(table({**changes, "framework": framework, "recompute": recompute}), "t")
            again = [path for path, config in case_of(run).tree.configs if config.recompute == "full"]
            expected = ["layers", "head.final_norm", "head.head"] if "Aleph" in framework else ["layers"]
            assert again == (expected if recompute == "every_layer" else [])


def test_most_shipped_runs_can_be_expressed() -> None:
    reasons: dict[str, int] = {}
    for run in shipped_runs():
        try:
            case_of(run)
        except ProteusError as error:
            reasons[str(error)] = reasons.get(str(error), 0) + 1
    assert sum(reasons.values()) < 30, reasons


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
    found = re.compile("|".join(rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in sorted(names)), re.IGNORECASE)
    for path in sorted((PACKAGE / folder).rglob("*")):
        if path.suffix in (".py", ".yaml", ".json", ".md") and path.name not in pages:
            for text in strings(path):
                match = found.search(text)
                assert match is None, f"{path.name}: {match.group()!r} is a row, a table or a model of the tables"
