"""What a row states beside its columns."""

from __future__ import annotations

import pytest

from proteus.errors import ProteusError
from proteus.validation.case import case_of
from proteus.validation.runs import parse_runs, shipped_runs
from proteus.validation.settings import parse
from tests.validation.rows import table


def test_a_setting_goes_where_its_field_is() -> None:
    text = "framework=ddp; recompute_layers=2; loss=in_place; pure=true; experts.dense_layers=1; links=none"
    said = parse(text)
    assert said.plan == {"framework": "ddp", "recompute_layers": 2}
    assert said.framework == {"loss": "in_place", "pure": True}
    assert said.model == {"experts": {"dense_layers": 1}}
    assert said.hosts == {"links": "none"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zero", "write field=value"),
        ("zer=1", "unknown field 'zer'; nearest: zero"),
        ("zero=7", "whole number"),
        ("loss=loud", "unknown loss 'loud'"),
        ("links=rope", "one of none"),
        ("network_Gbps=-1", "above 0"),
    ],
)
def test_a_wrong_setting_is_an_error_of_the_row(text: str, message: str) -> None:
    (run,) = parse_runs(table({"settings": text}), "t")
    with pytest.raises(ProteusError, match=message):
        case_of(run)


def test_a_setting_wins_over_its_column() -> None:
    (run,) = parse_runs(table({"precision": "fp8", "settings": "precision=fp8-rowwise"}), "t")
    assert case_of(run).plan.precision == "fp8-rowwise"


def test_every_setting_of_the_shipped_tables_is_one() -> None:
    for name in ("llm", "later", "classic"):
        for text in {run.settings for run in shipped_runs(name)}:  # type: ignore[arg-type]
            parse(text)


def test_remarks_decide_nothing_beside_settings() -> None:
    notes = "FSDP+compile; fp8 rowwise; chunked CE; SQuAD packed to 1024; etp=2; first layer dense"
    plain, told = parse_runs(table({"settings": ""}, {"settings": "", "notes": notes}), "t")
    assert case_of(plain).command == case_of(told).command
