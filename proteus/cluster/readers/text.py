"""Getting text out of files that people saved, pasted and mailed."""

from __future__ import annotations

import os
import re
from pathlib import Path

from proteus.errors import InputError

#: far above any topology; what is larger is something else [bytes]
MAX_FILE_BYTES = 16 * 2**20

#: terminal colours, also where the escape character itself was lost on the way
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[()][A-B0-2]|\[[0-9;]{1,6}m")
_BLANKS = dict.fromkeys(map(ord, "\u00a0\u2002\u2003\u2007\u2009\u202f\u3000"), " ")
_NOTHING = dict.fromkeys(map(ord, "\ufeff\u200b\u200e\u200f\x00\x07\x08"), None)


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a file, with line ends and odd blanks made plain.

    Raises
    ------
    InputError
        The file cannot be read, is far too large, or is not text.
    """
    name = os.fspath(path)
    try:
        size = Path(path).stat().st_size
        if size > MAX_FILE_BYTES:
            raise InputError(f"{name}: {size} bytes; a topology file has at most {MAX_FILE_BYTES}")
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}; give the path of a topology file") from error
    return plain(decode(data, name))


def decode(data: bytes, name: str) -> str:
    """Text in UTF-8, UTF-16 with a mark, or Latin-1."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    if data[:2000].count(0) > len(data[:2000]) // 10:
        raise InputError(f"{name}: binary data, not text; a topology is a text or XML file")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def plain(text: str) -> str:
    """`text` with ``\\n`` line ends and without escapes, marks and exotic blanks.

    >>> plain("\\ufeff\\x1b[4mGPU0\\x1b[0m\\r\\n")
    'GPU0\\n'
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _ESCAPES.sub("", text).translate(_BLANKS).translate(_NOTHING)
