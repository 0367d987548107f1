"""Every word of every table has a documented meaning, or is refused."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from proteus.errors import StrategyError, TopologyError
from proteus.validation import words
from proteus.validation.machines import links_of
from proteus.validation.runs import DATA

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "training"


def cells() -> Iterator[tuple[str, str]]:
    """(column, lower-case text) of every shipped table and, where it is here, of every table of the shared folder."""
    texts = [gzip.decompress((DATA / f"{name}.csv.gz").read_bytes()).decode() for name in ("llm", "later")]
    texts += [path.read_text("utf-8") for path in (SHARED / "llm.csv", SHARED / "stacks.csv") if path.is_file()]
    seen = set()
    for text in texts:
        for row in csv.DictReader(text.splitlines()):
            for column in (*words.COLUMNS, "intra_node_link"):
                seen.add((column, (row.get(column) or "").strip().lower()))
    yield from sorted(seen)


def understand(column: str, text: str) -> None:
    if column == "intra_node_link":
        links_of(text)
    elif column == "comm_overlap":
        for part in text.split(","):
            words.read(column, part.strip())
    elif column == "pp_schedule":
        words.read(column, words.squeezed(text))
    else:
        word = words.read(column, words.without_offload(text)[0])
        if word.meaning.special == "modules":
            words.modules(word.parts.get("modules") or word.parts["more"])


@pytest.mark.parametrize(("column", "text"), [cell for cell in cells() if cell[1]])
def test_every_word_of_the_tables_is_understood(column: str, text: str) -> None:
    understand(column, text)


@pytest.mark.parametrize("column", words.COLUMNS)
def test_every_meaning_has_a_source(column: str) -> None:
    assert all(len(source) > 5 for _, _, source in words.COLUMNS[column])


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("recompute", "selective mla_up_proj"),
        ("recompute", "selective (mlp)"),
        ("recompute", "a bit"),
        ("flash_attention", "warp attention"),
        ("zero_stage", "zero-4"),
        ("zero_stage", "zero-2 offload the rest"),
        ("zero_stage", "1.5"),
        ("comm_overlap", "telepathy"),
        ("pp_schedule", "zigzag"),
        ("precision", "int8"),
        ("intra_node_link", "string and cans"),
    ],
)
def test_what_has_no_meaning_here_is_refused_by_name(column: str, text: str) -> None:
    with pytest.raises((StrategyError, TopologyError), match="is not understood"):
        understand(column, text)


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("cudnn", "cudnn"),
        ("fused", "cudnn"),  # FusedAttention of Transformer Engine
        ("xformers", "memory_efficient"),
        ("true (fa3)", "flash3"),
        ("flash_attention2 + rms kernel", "flash2"),
        ("flash_attentionv1.0.8", "flash1"),
        ("eager", "unfused"),
    ],
)
def test_attention_kernels(text: str, kernel: str) -> None:
    assert words.read("flash_attention", text).meaning.plan == {"attention": kernel}


def test_what_lies_in_host_memory_is_not_lost() -> None:
    assert words.without_offload("zero-2 offload optimizer") == ("zero-2", ("optimizer",))
    assert words.without_offload("zero-3 offload optimizer and parameters") == ("zero-3", ("optimizer", "parameter"))
    assert words.without_offload("full with offload") == ("full", ())
