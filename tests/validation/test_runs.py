"""Reading tables of published runs."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from proteus.errors import InputError
from proteus.validation.runs import Run, parse_runs, read_runs, shipped_runs
from tests.validation.rows import table

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "training"


def test_a_row_is_read_leniently() -> None:
    (run,) = parse_runs(
        table(
            {
                "tp": "2.0",
                "dp": "",
                "sp": "True",
                "n_params": "about 3e9",
                "peak_memory_gb": "2",
                "memory_kind": "GiB max allocated",
            }
        ),
        "t",
    )
    assert (run.tp, run.dp, run.sequence_parallel, run.num_params) == (2, None, True, None)
    assert run.peak_memory_bytes == 2 * 2**30
    assert run.memory_is_exact


def test_step_time_follows_from_tokens() -> None:
    (run,) = parse_runs(table({"step_time_s": "", "tokens_per_s_per_gpu": "4096"}), "t")
    assert run.step_time_s == pytest.approx(64 * 1024 / 8 / 4096)


def test_rows_without_names_are_numbered() -> None:
    first, second = parse_runs(table({"id": ""}, {"id": ""}), "t")
    assert (first.id, second.id) == ("1", "2")


def test_packed_tables_and_files(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv.gz"
    path.write_bytes(gzip.compress(table({})))
    assert read_runs(path)[0].hidden == 1024


def test_benchmarks_are_told_by_their_columns() -> None:
    text = "model,gpu,n_gpus,batch_per_gpu,images_or_samples_per_s,unit,seq_len,grad_accum\n"
    text += "BERT pretrain,V100,2,8,100,sequences/s,128,4 and 2\nresnet50,V100,1,8,,,61.5,\n"
    first, second = parse_runs(text.encode(), "t")
    assert (first.kind, first.seq, first.global_batch) == ("classic", 128, 64)
    assert first.step_time_s == pytest.approx(0.64)
    assert (second.seq, second.step_time_s) == (None, None)


def benchmark(batch: int, precision: str, accumulated: str) -> Run:
    header = "model,gpu,n_gpus,batch_per_gpu,images_or_samples_per_s,unit,precision,grad_accum\n"
    return parse_runs(f"{header}BERT,V100,1,{batch},100,sequences/s,{precision},{accumulated}\n".encode(), "t")[0]


def test_of_two_accumulations_the_second_is_that_of_mixed_precision() -> None:
    both = "64 and 32"
    assert benchmark(128, "TF32", both).global_batch == benchmark(256, "AMP", both).global_batch == 8192
    assert benchmark(128, "FP32 (TF32 on Ampere+)", both).global_batch == 8192


def test_a_batch_too_large_to_be_accumulated_is_that_of_the_step() -> None:
    run = benchmark(4096, "AMP", "128 and 64")
    assert (run.micro_batch, run.global_batch) == (64, 4096)
    assert run.step_time_s == pytest.approx(40.96)


@pytest.mark.parametrize("raw", [b"\xff\xfe\x00", b"a,b\n1,2\n", b"", b"\x1f\x8bnot packed"])
def test_what_is_no_table_is_refused(raw: bytes) -> None:
    with pytest.raises(InputError, match=r"t\.csv"):
        parse_runs(raw, "t.csv")


def test_the_missing_column_is_named() -> None:
    with pytest.raises(InputError, match="'gpu' is missing"):
        parse_runs(b"n_gpus,global_batch,hidden,layers,seq_len\n1,1,1,1,1\n", "t.csv")


def test_every_shipped_row_names_its_source() -> None:
    runs = shipped_runs()
    assert len(runs) == len({run.id for run in runs}) == 1601
    assert all(run.source for run in (*runs, *shipped_runs("classic")))


@pytest.mark.skipif(not SHARED.is_dir(), reason="the folder of source tables is not here")
def test_shipped_rows_are_those_of_the_sources() -> None:
    with (SHARED / "llm.csv").open(encoding="utf-8", newline="") as file:
        times = {row["id"]: row["step_time_s"] for row in csv.DictReader(file) if row["step_time_s"]}
    shipped = {run.id: run.step_time_s for run in shipped_runs()}
    assert all(shipped[name] == pytest.approx(float(time_s)) for name, time_s in times.items())


def test_what_sources_state_stands_in_columns() -> None:
    (run,) = parse_runs(
        table({"settings": "compile=true", "etp": "2", "rate_counts": "Tokens", "assumed_fields": "vocab"}), "t"
    )
    assert (run.settings, run.expert_tp, run.rate_counts, run.table_assumed) == ("compile=true", 2, "tokens", "vocab")
