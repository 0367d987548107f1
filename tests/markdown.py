"""Fenced code blocks of a Markdown page, and running them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A fenced block: its language, its text and the line of its first row."""

    language: str
    text: str
    line: int


def code_blocks(page: Path) -> list[Code]:
    """All fenced blocks of a page, from top to bottom."""
    source = page.read_text(encoding="utf-8")
    return [
        Code(
            language=match["info"].strip(),
            text=match["text"],
            line=source.count("\n", 0, match.start("text")) + 1,
        )
        for match in FENCE.finditer(source)
    ]


def run_python(page: Path, codes: list[Code]) -> dict[str, Any]:
    """Run Python blocks one after another, as a reader would paste them; returns the names they made."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for code in codes:
        # Blank lines in front make line numbers of a traceback those of the page.
        exec(compile("\n" * (code.line - 1) + code.text, str(page), "exec"), names)
    return names


def commands(code: Code) -> list[list[str]]:
    """The ``$ proteus ...`` lines of a console block as argument lists, continued lines joined."""
    joined = code.text.replace("\\\n", " ")
    lines = [line[2:] for line in joined.splitlines() if line.startswith("$ ")]
    split = [shlex.split(line, comments=True) for line in lines]
    return [words[1:] for words in split if words and words[0] == "proteus"]


def local_links(page: Path) -> list[Path]:
    """Files that a page points to."""
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = [match["target"].split("#")[0] for match in LINK.finditer(prose)]
    return [page.parent / target for target in targets if target and "://" not in target and ":" not in target]
