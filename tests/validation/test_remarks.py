"""Words of remarks that state a setting, in tables that have no column for it."""

from __future__ import annotations

import pytest

from proteus.validation.remarks import REMARKS, stated
from proteus.validation.runs import parse_runs
from proteus.validation.settings import parse
from tests.validation.rows import table


@pytest.mark.parametrize(
    ("notes", "settings"),
    [
        ("FSDP+compile", "compile=true"),
        ("no torch.compile", "compile=false"),
        ("torch.compile; LoRA rank 16, up to 4 adapters", "compile=true; lora=16"),
        ("LoRA r8 on q,k,v,o; nvidia-smi 20000 MiB", "lora=8; lora_targets=attention"),
        ("qlora nf4 bnb, LoRA r16 on all linear layers", "lora_base=nf4; lora=16"),
        ("etp=2; forced balanced routing; no CUDA graphs", "cuda_graphs=false; etp=2"),
        ("first 3 layers are dense; moe-permute-fusion", "experts.dense_layers=3; fused_permute=true"),
        ("rowwise scales", ""),  # of what? the precision is no fp8
        ("mean of three runs", ""),
    ],
)
def test_what_remarks_state(notes: str, settings: str) -> None:
    assert stated({"notes": notes, "precision": "bf16"}) == settings
    parse(settings)


def test_words_need_the_column_that_they_are_about() -> None:
    assert stated({"notes": "rowwise scales", "precision": "FP8"}) == "precision=fp8-rowwise"
    assert stated({"notes": "SQuAD packed to 1024", "seq_len": "1024"}) == "document=200"
    assert stated({"notes": "SQuAD unpacked", "seq_len": "1024"}) == ""


def test_a_row_says_that_its_remarks_were_read() -> None:
    (run,) = parse_runs(table({"notes": "FSDP+compile"}), "t")
    assert run.settings == "compile=true" and "by its remarks: compile=true" in run.table_assumed


def test_a_remark_that_begins_with_plus_goes_on_with_the_row_above() -> None:
    first, second = parse_runs(table({"notes": "chunked CE"}, {"notes": "+packed"}), "t")
    assert first.settings == second.settings == "loss=in_place"


def test_every_remark_is_a_setting_that_reads() -> None:
    for remark in REMARKS:
        parse(remark.settings.format(rank=8, etp=2, dense=1))
