"""Published training runs, read from a table.

Two kinds of table are understood, distinguished by their columns: language
models (``micro_batch``, ``tp``, ``pp``, ...) and the older image, BERT and
recommendation benchmarks (``batch_per_gpu``).  Cells are read leniently, since the
tables were written by many hands: an empty or odd cell is None and what
stands in for it is a documented default, told with the row.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from proteus.errors import InputError
from proteus.units import GB, MS, GiB
from proteus.validation.remarks import with_settings

#: the tables that come with Proteus
DATA = Path(str(resources.files("proteus.validation"))) / "data"
#: files beyond this are refused: no table of published runs is so large
MAX_TABLE_BYTES = 200_000_000
Outcome = Literal["ok", "oom", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One measured run: what was trained, where, how, and what came out.

    Texts are as the source wrote them, lower case; None or an empty text is
    what the source did not say.

    Parameters
    ----------
    kind
        ``llm`` or ``classic`` (a named model with a batch per GPU).
    expert_tp
        Tensor degree of the experts.
    node_Gbps
        Network of one GPU [Gb/s].
    settings
        What the source states beside the columns: see :mod:`proteus.validation.settings`.
    table_assumed
        What the makers of the table assumed.
    rate_counts
        What the rate counts where that is not all tokens of the step.
    memory_is_exact
        Whether `peak_memory_bytes` is what the framework's allocator counted.
    """

    id: str
    table_id: str
    kind: Literal["llm", "classic"]
    source: str = ""
    framework: str = ""
    version: str = ""
    task: str = ""
    model: str = ""
    hidden: int | None = None
    layers: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    ffn: int | None = None
    vocab: int | None = None
    seq: int | None = None
    experts: int | None = None
    topk: int | None = None
    expert_ffn: int | None = None
    num_params: float | None = None
    gpu: str = ""
    gpus_per_node: int | None = None
    num_gpus: int | None = None
    link: str = ""
    gpu_Gbps: float | None = None
    precision: str = ""
    dp: int | None = None
    tp: int | None = None
    pp: int | None = None
    cp: int | None = None
    ep: int | None = None
    expert_tp: int | None = None
    virtual_stages: int | None = None
    sequence_parallel: bool | None = None
    zero: str = ""
    micro_batch: int | None = None
    global_batch: int | None = None
    recompute: str = ""
    attention: str = ""
    overlap: str = ""
    schedule: str = ""
    notes: str = ""
    settings: str = ""
    table_assumed: str = ""
    rate_counts: str = ""
    outcome: Outcome = "ok"
    step_time_s: float | None = None
    peak_memory_bytes: float | None = None
    memory_kind: str = ""

    @property
    def memory_is_exact(self) -> bool:
        return any(word in self.memory_kind for word in ("allocated", "active", "peak (paper)"))


def number(text: str | None) -> float | None:
    """A finite number, or None.

    >>> number(" 1,024 "), number("about 3"), number("")
    (1024.0, None, None)
    """
    try:
        value = float((text or "").replace(",", "").strip())
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def count(text: str | None) -> int | None:
    """A positive whole number, or None."""
    value = number(text)
    return int(value) if value is not None and value >= 1 and value == int(value) else None


def truth(text: str | None) -> bool | None:
    """Yes, no, or not said."""
    return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(
        (text or "").strip().lower()
    )


def read_runs(path: str | os.PathLike[str]) -> tuple[Run, ...]:
    """The runs of a CSV file (``.csv`` or ``.csv.gz``).

    Raises
    ------
    InputError
        Not a table, or one without the columns that both kinds need.
    """
    try:
        size = Path(path).stat().st_size
        raw = Path(path).read_bytes() if size <= MAX_TABLE_BYTES else b""
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    if size > MAX_TABLE_BYTES:
        raise InputError(f"{path}: {size} bytes; a table of runs has at most {MAX_TABLE_BYTES}")
    return parse_runs(raw, str(path))


def shipped_runs(name: Literal["llm", "classic", "later"] = "llm") -> tuple[Run, ...]:
    """A table of published runs that comes with Proteus.

    Parameters
    ----------
    name
        ``llm``: language models; ``later``: more of them, collected when
        everything that is fitted had been fitted; ``classic``: benchmarks of
        named models.

    >>> len(shipped_runs()) > 1000
    True
    """
    return parse_runs((DATA / f"{name}.csv.gz").read_bytes(), f"{name}.csv.gz")


def parse_runs(raw: bytes, where: str) -> tuple[Run, ...]:
    """:func:`read_runs` of bytes; `where` names them in messages."""
    try:
        if raw[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
                raw = file.read(MAX_TABLE_BYTES + 1)
            if len(raw) > MAX_TABLE_BYTES:
                raise InputError(f"{where}: unpacks to more than {MAX_TABLE_BYTES} bytes")
        text = raw.decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""))
        columns = set(reader.fieldnames or ())
        rows = list(reader)
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, csv.Error) as error:
        raise InputError(f"{where}: not a CSV table in UTF-8 ({error})") from error
    if "batch_per_gpu" in columns:
        needed, read = {"model", "gpu", "n_gpus", "batch_per_gpu"}, _classic
    else:
        needed, read = {"gpu", "n_gpus", "global_batch", "hidden", "layers", "seq_len"}, _llm
    missing = sorted(needed - columns)
    if missing:
        raise InputError(
            f"{where}: column {missing[0]!r} is missing; a table of language models has micro_batch, dp, tp, pp, ..., "
            "one of benchmarks has batch_per_gpu (docs/accuracy.md lists the columns)"
        )
    is_in_remarks = read is _llm and "settings" not in columns
    return tuple(read(row, line) for line, row in enumerate(with_settings(rows) if is_in_remarks else rows, start=1))


def _text(row: Mapping[str, str | None], column: str) -> str:
    value = row.get(column)
    return value.strip() if isinstance(value, str) else ""


def _lower(row: Mapping[str, str | None], column: str) -> str:
    return _text(row, column).lower()


def _llm(row: Mapping[str, str | None], line: int) -> Run:
    seq, gpus, batch = count(row.get("seq_len")), count(row.get("n_gpus")), count(row.get("global_batch"))
    step_s = number(row.get("step_time_s"))
    rate = number(row.get("tokens_per_s_per_gpu"))
    if step_s is None and rate and seq and gpus and batch:
        step_s = batch * seq / gpus / rate
    kind = _lower(row, "memory_kind")
    peak = number(row.get("peak_memory_gb"))
    outcome = _lower(row, "outcome")
    return Run(
        id=_text(row, "id") or str(line),
        table_id=_text(row, "table_id") or _text(row, "source_table") or "table",
        kind="llm",
        source=_text(row, "source"),
        framework=_lower(row, "framework"),
        version=_lower(row, "framework_version"),
        task=_lower(row, "task"),
        model=_lower(row, "model"),
        hidden=count(row.get("hidden")),
        layers=count(row.get("layers")),
        heads=count(row.get("heads")),
        kv_heads=count(row.get("kv_heads")),
        ffn=count(row.get("ffn_hidden")),
        vocab=count(row.get("vocab")),
        seq=seq,
        experts=count(row.get("moe_experts")),
        topk=count(row.get("moe_topk")),
        expert_ffn=count(row.get("moe_ffn")),
        num_params=number(row.get("n_params")),
        gpu=_lower(row, "gpu"),
        gpus_per_node=count(row.get("gpus_per_node")),
        num_gpus=gpus,
        link=_lower(row, "intra_node_link"),
        gpu_Gbps=number(row.get("inter_node_gbps_per_gpu")),
        precision=_lower(row, "precision"),
        dp=count(row.get("dp")),
        tp=count(row.get("tp")),
        pp=count(row.get("pp")),
        cp=count(row.get("cp")),
        ep=count(row.get("ep")),
        expert_tp=count(row.get("etp")),
        virtual_stages=count(row.get("vpp")),
        sequence_parallel=truth(row.get("sp")),
        zero=_lower(row, "zero_stage"),
        micro_batch=count(row.get("micro_batch")),
        global_batch=batch,
        recompute=_lower(row, "recompute"),
        attention=_lower(row, "flash_attention"),
        overlap=_lower(row, "comm_overlap"),
        schedule=_lower(row, "pp_schedule"),
        notes=_lower(row, "notes"),
        settings=_text(row, "settings"),
        table_assumed=_text(row, "assumed_fields"),
        rate_counts=_lower(row, "rate_counts"),
        outcome="ok" if outcome in ("", "ok") else "oom" if outcome == "oom" else "error",
        step_time_s=step_s if step_s and step_s > 0 else None,
        peak_memory_bytes=peak * (GiB if "gib" in kind else GB) if peak else None,
        memory_kind=kind,
    )


#: units of a rate that counts samples: times per step follow from the batch
_SAMPLE_UNITS = ("samples/s", "images/s", "images_or_samples/s", "sequences/s")


#: most samples that one GPU accumulates: the largest batch of a step that BERT is trained with on any number of GPUs
#: (You et al., arXiv 1904.00962, 65,536 sequences)
MAX_ACCUMULATED = 65536


def _accumulated(text: str, precision: str) -> int:
    """Micro-batches of a step, of a column such as ``64 and 32``.

    Of two numbers the first is that of the wide and the second that of the mixed precision, as the READMEs head such
    a column.
    """
    wide, joined, mixed = (part.strip() for part in text.partition(" and "))
    is_mixed = joined and re.search(r"\bamp\b|fp16|mixed", precision)
    return count(mixed if is_mixed else wide) or 1


def _classic(row: Mapping[str, str | None], line: int) -> Run:
    gpus, batch = count(row.get("n_gpus")), count(row.get("batch_per_gpu"))
    accumulated = _accumulated(_lower(row, "grad_accum"), _lower(row, "precision"))
    if batch and accumulated > 1 and batch * accumulated > MAX_ACCUMULATED:
        batch = max(1, batch // accumulated)  # the batch of a whole step stands in the column
    whole = batch * gpus * accumulated if batch and gpus else None
    step_ms, rate = number(row.get("ms_per_step")), number(row.get("images_or_samples_per_s"))
    step_s = step_ms * MS * accumulated if step_ms else None
    if step_s is None and rate and whole and _lower(row, "unit") in _SAMPLE_UNITS:
        step_s = whole / rate
    return Run(
        id=_text(row, "id") or str(line),
        table_id=_text(row, "table_id") or f"{_text(row, 'source')}: {_text(row, 'model')}",
        kind="classic",
        source=_text(row, "source"),
        framework=_lower(row, "framework"),
        model=_lower(row, "model"),
        seq=count(row.get("seq_len")),
        gpu=_lower(row, "gpu"),
        gpus_per_node=count(row.get("gpus_per_node")),
        num_gpus=gpus,
        link=_lower(row, "link"),
        precision=_lower(row, "precision"),
        dp=gpus,
        micro_batch=batch,
        global_batch=whole,
        notes=_lower(row, "notes"),
        settings=_text(row, "settings"),
        step_time_s=step_s,
    )
