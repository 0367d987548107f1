"""The events of a Chrome trace file, one at a time, in memory that does not grow with the file.

The file is untrusted.  It may be compressed, cut, or damaged in the middle::

    {"schemaVersion": 1, "traceEvents": [ {...}, {...}, ... ], "traceName": ...}     Kineto
    [ {...}, {...}, ...                                                              the JSON array format

A chunk of text is decoded at a time and the C scanner of :mod:`json` takes one
event after the other from it.  An event that is no JSON is skipped and
counted; the next one begins at the next ``}, {"``.
"""

from __future__ import annotations

import codecs
import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from proteus.errors import InputError

#: bytes read, or decompressed, at a time
CHUNK_BYTES = 1 << 20
#: characters; an event with stacks and shapes takes some thousand, a list of process groups some hundred thousand
MAX_VALUE_CHARS = 16 << 20
#: bytes of text in one file, decompressed; the largest traces in practice hold 2 GB
MAX_TEXT_BYTES = 64 << 30
#: an event cut at the end of the text fails within so many characters of it, or in an open string
_TAIL_CHARS = 16

_SEPARATORS = re.compile(r"[\s,]*").match
_NEXT_EVENT = re.compile(r'[}\]]\s*,?\s*(?=\{\s*")')


@dataclass(slots=True, kw_only=True)
class EventFile:
    """Reads one file; iterate :meth:`events` once, then look at the rest.

    Parameters
    ----------
    fields
        The other fields of the document, such as ``distributedInfo``.
    num_events, num_damaged
        Events given, and those skipped because they are no JSON.
    warnings
        What is wrong with the file, in words.
    """

    path: Path
    fields: dict[str, Any] = field(default_factory=dict)
    num_events: int = 0
    num_damaged: int = 0
    warnings: list[str] = field(default_factory=list)

    def events(self) -> Iterator[dict[str, Any]]:
        """Every event that is a JSON object.

        Raises
        ------
        InputError
            The file cannot be read, is empty, or is no trace.
        """
        try:
            with open(self.path, "rb") as file:
                yield from self._document(_Text(file, self.warnings))
        except (OSError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None

    def _document(self, text: _Text) -> Iterator[dict[str, Any]]:
        first = text.peek()
        if not first:
            raise InputError("; ".join(["is empty", *self.warnings]) + "; profile again")
        if first == "[":
            text.at += 1
            yield from self._list(text, may_stay_open=True)
            return
        if first != "{":
            start = text.text[text.at : text.at + 20]
            raise InputError(f"is no JSON trace: it starts with {start!r}; give a Chrome trace (.json or .json.gz)")
        text.at += 1
        has_events = False
        try:
            while (char := text.peek()) and char != "}":
                key = text.value()
                if text.peek() != ":":
                    raise _Damaged("a name without a value")
                text.at += 1
                if key == "traceEvents" and text.peek() == "[":
                    text.at += 1
                    has_events = True
                    yield from self._list(text, may_stay_open=False)
                elif isinstance(key, str):
                    self.fields[key] = text.value()
            if not char and not has_events:
                raise _Damaged("it ends early")
        except _Damaged as damage:
            if not has_events:
                raise InputError(f"is damaged at character {text.position}, before its events: {damage}") from None
            self.warnings.append(f"is damaged after its events, at character {text.position}: {damage}")
        if not has_events:
            raise InputError("holds no list traceEvents; give a trace of the PyTorch profiler")

    def _list(self, text: _Text, *, may_stay_open: bool) -> Iterator[dict[str, Any]]:
        scan = text.scan
        while True:
            found = _SEPARATORS(text.text, text.at)
            assert found is not None  # it matches the empty text
            text.at = found.end()
            if text.at >= len(text.text):
                if text.more():
                    continue
                if not may_stay_open:
                    self.warnings.append(f"is cut after event {self.num_events}: the list of events is not closed")
                return
            if text.text[text.at] == "]":
                text.at += 1
                return
            try:
                event, text.at = scan(text.text, text.at)
            except (json.JSONDecodeError, StopIteration, RecursionError, ValueError) as error:
                if _is_cut(error, text.text) and len(text.text) - text.at < MAX_VALUE_CHARS:
                    if text.more():
                        continue
                    self.warnings.append(f"is cut in event {self.num_events + 1}, at character {text.position}")
                    return
                if not self.num_damaged:
                    self.warnings.append(f"event {self.num_events + 1}, at character {text.position}, is no JSON")
                self.num_damaged += 1
                if not _skip(text):
                    self.warnings.append("nothing that can be read follows a damaged event")
                    return
                continue
            if type(event) is dict:
                self.num_events += 1
                yield event
            else:
                self.num_damaged += 1


class _Damaged(Exception):
    """A place that is no JSON."""


class _Text:
    """A window of text over a file; `at` is the next character that nobody has taken."""

    def __init__(self, file: BinaryIO, warnings: list[str]) -> None:
        self.text, self.at = "", 0
        self._taken = 0  # characters before `text`
        self._blocks = _blocks(file, warnings)
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._is_done = False
        decoder = json.JSONDecoder(strict=False)
        self.scan: Callable[[str, int], tuple[Any, int]] = decoder.scan_once  # type: ignore[attr-defined]

    @property
    def position(self) -> int:
        return self._taken + self.at

    def more(self) -> bool:
        """Take the next block; False where there is none."""
        if self._is_done:
            return False
        block = next(self._blocks, b"")
        self._is_done = not block
        new = self._decoder.decode(block, final=not block)
        if not block and not new:
            return False
        self._taken += self.at
        self.text, self.at = self.text[self.at :] + new, 0
        return True

    def peek(self) -> str:
        """The next character that separates nothing; the empty text at the end."""
        while True:
            found = _SEPARATORS(self.text, self.at)
            assert found is not None
            self.at = found.end()
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    def value(self) -> Any:
        """The next whole value."""
        self.peek()
        while True:
            try:
                value, end = self.scan(self.text, self.at)
            except (json.JSONDecodeError, StopIteration, RecursionError, ValueError) as error:
                if _is_cut(error, self.text) and len(self.text) - self.at < MAX_VALUE_CHARS and self.more():
                    continue
                raise _Damaged(str(error) or "no JSON value") from None
            if end >= len(self.text) - _TAIL_CHARS and self.more():  # a number may go on in the next block
                continue
            self.at = end
            return value


def _is_cut(error: BaseException, text: str) -> bool:
    """Whether an error may come from the end of the text rather than from what is written."""
    if isinstance(error, json.JSONDecodeError):
        return error.pos >= len(text) - _TAIL_CHARS or error.msg.startswith("Unterminated")
    return isinstance(error, StopIteration) and int(error.value or 0) >= len(text) - _TAIL_CHARS


def _skip(text: _Text) -> bool:
    """Go to the next event; False where none follows."""
    text.at += 1
    while True:
        found = _NEXT_EVENT.search(text.text, text.at)
        if found:
            text.at = found.end()
            return True
        text.at = max(text.at, len(text.text) - 1024)  # the mark itself may be cut
        if not text.more():
            return False


def _blocks(file: BinaryIO, warnings: list[str]) -> Iterator[bytes]:
    """The bytes of a file, decompressed where it is gzip, as far as they go."""
    total = 0
    inflate: Any = None
    rest = file.read(2) + file.read(CHUNK_BYTES)
    if not rest.startswith(b"\x1f\x8b"):
        while rest:
            total += len(rest)
            if total > MAX_TEXT_BYTES:
                raise InputError(f"is larger than {MAX_TEXT_BYTES} bytes, more than a trace can need")
            yield rest
            rest = file.read(CHUNK_BYTES)
        return
    while rest or (rest := file.read(CHUNK_BYTES)):
        if inflate is None:
            if not rest.strip(b"\0"):
                continue  # padding between members
            inflate = zlib.decompressobj(wbits=31)
        try:
            block = inflate.decompress(rest, CHUNK_BYTES)
        except zlib.error as error:
            warnings.append(f"its compressed data are damaged after {total} bytes of text ({error})")
            return
        rest = inflate.unconsumed_tail
        if inflate.eof:
            rest, inflate = inflate.unused_data, None
        total += len(block)
        if total > MAX_TEXT_BYTES:
            raise InputError(f"unpacks to more than {MAX_TEXT_BYTES} bytes, more than a trace can need")
        if block:
            yield block
    if inflate is not None:
        warnings.append(f"its compressed data are cut after {total} bytes of text")
