"""Write the tables of published runs that Proteus ships: the needed columns, packed.

    python benchmarks/ship_runs.py ../shared/data/training      llm and classic
    python benchmarks/ship_runs.py --later FILE.csv ...         later, from one or more files of its columns

Every row keeps the source it was copied from.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
from pathlib import Path

from stated import complete

TARGET = Path(__file__).parents[1] / "proteus" / "validation" / "data"
COLUMNS = {
    "llm": [
        "id",
        "source",
        "table_id",
        "framework",
        "framework_version",
        "task",
        "model",
        "n_params",
        "hidden",
        "layers",
        "heads",
        "kv_heads",
        "ffn_hidden",
        "vocab",
        "seq_len",
        "moe_experts",
        "moe_topk",
        "moe_ffn",
        "gpu",
        "gpus_per_node",
        "n_gpus",
        "intra_node_link",
        "inter_node_gbps_per_gpu",
        "precision",
        "dp",
        "tp",
        "sp",
        "pp",
        "vpp",
        "cp",
        "ep",
        "zero_stage",
        "micro_batch",
        "global_batch",
        "recompute",
        "flash_attention",
        "comm_overlap",
        "pp_schedule",
        "step_time_s",
        "tokens_per_s_per_gpu",
        "peak_memory_gb",
        "memory_kind",
        "outcome",
        "assumed_fields",
        "notes",
        "etp",
        "rate_counts",
        "settings",
    ],
    "classic": [
        "source",
        "framework",
        "model",
        "gpu",
        "n_gpus",
        "gpus_per_node",
        "link",
        "precision",
        "batch_per_gpu",
        "images_or_samples_per_s",
        "unit",
        "ms_per_step",
        "notes",
        "seq_len",
        "grad_accum",
        "settings",
    ],
}


def main() -> int:
    if sys.argv[1] == "--later":
        pack("later", [Path(name) for name in sys.argv[2:]])
    else:
        for name in COLUMNS:
            pack(name, [Path(sys.argv[1]) / f"{name}.csv"])
    return 0


def pack(name: str, files: list[Path]) -> None:
    """Write the shipped table `name` from the rows of `files`, with what their sources state (:mod:`stated`)."""
    rows = []
    for path in files:
        with path.open(encoding="utf-8", newline="") as file:
            rows += list(csv.DictReader(file))
    write(name, complete("classic" if name == "classic" else "llm", rows))


def write(name: str, rows: list[dict[str, str]]) -> None:
    """Write the shipped table `name`."""
    text = io.StringIO()
    columns = COLUMNS["classic" if name == "classic" else "llm"]
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    packed = gzip.compress(text.getvalue().encode("utf-8"), compresslevel=9, mtime=0)
    (TARGET / f"{name}.csv.gz").write_bytes(packed)
    print(f"{name}: {len(rows)} rows, {len(packed)} bytes")


if __name__ == "__main__":
    raise SystemExit(main())
