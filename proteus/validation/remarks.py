"""What the remarks of a row state in words that the field uses, as ``settings`` of the row.

A table that has a column ``settings`` says there what its sources state, and
its remarks are for people.  A table without that column says it in remarks
alone: words that are known are read, each with the meaning below, and the row
says so; all others decide nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

#: a row as a table has it
Row = Mapping[str, str | None]
#: places of adapters as projects write them, in terms of this one
_LORA_PLACES = {
    "q,k,v,o": "attention",
    "q,v": "attention.qkv",
    "all linear": "",
}


class Remark(NamedTuple):
    """Words of a remark, and what they state.

    `settings` may use the groups of the pattern; `where` is what the column
    of that name must be like for the words to mean this.
    """

    words: str
    settings: str
    where: Mapping[str, str] = {}


REMARKS: Sequence[Remark] = (
    Remark(r"(?<!no )(?<!without )(?<!not )\b(?:torch[. ])?compiled?\b", "compile=true"),
    Remark(r"\b(?:no|without) (?:torch[. ])?compile\b|\btorch eager\b", "compile=false"),
    Remark(r"\bno cuda graphs?\b", "cuda_graphs=false"),
    Remark(r"\browwise\b", "precision=fp8-rowwise", {"precision": r"fp8"}),
    Remark(r"\bchunked ce\b", "loss=in_place"),
    Remark(r"\bqlora\b", "lora_base=nf4"),
    Remark(r"\blora r(?:ank )?(?P<rank>\d+)\b", "lora={rank}"),
    Remark(r"\b(?:cp_comm_type[ =:]*a2a|ulysses)\b", "context=all_to_all"),
    Remark(r"\b(?:etp|expert tensor parallel(?: size| degree)?)\s*[=:]?\s*(?P<etp>\d+)", "etp={etp}"),
    Remark(r"\bfirst layer (?:is )?dense\b", "experts.dense_layers=1"),
    Remark(r"\bfirst (?P<dense>\d+) layers (?:are )?dense\b", "experts.dense_layers={dense}"),
    Remark(r"\b(?:moe[- ])?permute[- ]fusion\b", "fused_permute=true"),
    Remark(r"\bpure bf16 weights\b", "pure=true"),
    # NVIDIA/Megatron-LM moe/token_dispatcher.py: experts padded to a capacity get known numbers of tokens
    Remark(
        r"\b(?:pad-expert-input-to-capacity|tokendrop)\b",
        "host_waits_for_routing=false; merges_tokens=false; expert_s=0",
    ),
    # Rajpurkar et al., arXiv 1606.05250: paragraphs of 120 words, questions of 11 and the answer
    Remark(r"\bsquad\b.*(?<!un)packed\b|(?<!un)packed\b.*\bsquad\b", "document=200", {"seq_len": r"[2-9]\d\d|\d{4,}"}),
)


def stated(row: Row) -> str:
    """The settings that the remarks of a row state, as a cell of ``settings``.

    >>> stated({"notes": "FSDP+compile; LoRA r16 on q,v", "precision": "bf16"})
    'compile=true; lora=16; lora_targets=attention.qkv'
    >>> stated({"notes": "mean of three runs"})
    ''
    """
    notes = (row.get("notes") or "").lower()
    settings: dict[str, str] = {}
    for remark in REMARKS:
        match = re.search(remark.words, notes)
        if match is None or not all(
            re.search(like, (row.get(column) or "").lower()) for column, like in remark.where.items()
        ):
            continue
        for part in remark.settings.format(**match.groupdict()).split(";"):
            name, _, value = part.strip().partition("=")
            settings[name] = value
    if "lora" in settings:
        places = re.search(r"\blora r(?:ank )?\d+ on (?P<places>all linear|[qkvo](?:,[qkvo])*)", notes)
        targets = _LORA_PLACES.get(places["places"], "") if places is not None else ""
        settings |= {"lora_targets": targets} if targets else {}
    return "; ".join(f"{name}={value}" for name, value in settings.items())


def with_remarks_carried(rows: Iterable[Row]) -> Iterator[Row]:
    """Rows whose remark begins with ``+`` have what it says beside what the row above it has in the same table."""
    above, table = "", None
    for row in rows:
        notes = row.get("notes") or ""
        if notes.startswith("+") and row.get("table_id") == table:
            notes = f"{above} {notes}"
        above, table = notes, row.get("table_id")
        yield {**row, "notes": notes}


def with_settings(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows of a table that has no settings, with those that their remarks state."""
    for row in with_remarks_carried(rows):
        notes = (row.get("notes") or "").lower()
        is_unpadded = "unpacked" in notes and "+packed" not in notes
        settings = stated(row)
        said = f"by its remarks: {settings}" if settings else ""
        assumed = "; ".join(filter(None, [row.get("assumed_fields") or "", said]))
        yield {
            **row,
            "settings": settings,
            "assumed_fields": assumed,
            "rate_counts": "tokens without padding" if is_unpadded else "",
        }
