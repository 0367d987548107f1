"""Rows of tables for the tests: one language model, as the shipped table writes it."""

from __future__ import annotations

import csv
import io
from typing import Any

ROW = {
    "id": "a-1",
    "source": "made up",
    "table_id": "a",
    "framework": "Megatron-LM",
    "model": "GPT-small",
    "hidden": "1024",
    "layers": "8",
    "heads": "16",
    "kv_heads": "16",
    "ffn_hidden": "4096",
    "vocab": "50257",
    "seq_len": "1024",
    "gpu": "A100-80GB-SXM",
    "gpus_per_node": "8",
    "n_gpus": "8",
    "precision": "fp16",
    "dp": "4",
    "tp": "2",
    "pp": "1",
    "micro_batch": "4",
    "global_batch": "64",
    "recompute": "none",
    "step_time_s": "0.5",
    "outcome": "ok",
}


def table(*rows: dict[str, Any]) -> bytes:
    """A CSV of :data:`ROW` with changes."""
    text = io.StringIO()
    full = [{**ROW, **row} for row in rows]
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in full for name in row)))
    writer.writeheader()
    writer.writerows(full)
    return text.getvalue().encode()
