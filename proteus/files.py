"""Files: untrusted input is read safely, and output is written completely or not at all.

:func:`read_yaml` and :func:`read_json` refuse what is too large, nested too
deeply or says a thing twice before anything is made of it, in time that grows
with the size of the file only, and never raise but :class:`InputError`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from proteus.errors import InputError

#: bytes; a strategy tree of the largest built-in model takes 20 kB
MAX_BYTES = 1_000_000
#: mappings and lists inside each other; the files that Proteus writes have at most 6
MAX_DEPTH = 32

#: Line of every key of a document, by its path: ``("mesh", "dp")`` → 3; entries of lists by their number.
Lines = dict[tuple[str, ...], int]

_BRACKET_OR_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)


def read_text(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> str:
    """The text of a file in UTF-8.

    Raises
    ------
    InputError
        It cannot be read, is no such text, or is longer than `max_bytes`.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > max_bytes:
        raise InputError(f"{path}: is larger than {max_bytes} bytes, more than a file of this kind can need")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is no UTF-8 text (byte {error.start}); save it as UTF-8") from None


def _text_of(source: str, text_or_path: str | Path, max_bytes: int) -> str:
    if isinstance(text_or_path, Path):
        return read_text(text_or_path, max_bytes=max_bytes)
    if len(text_or_path) > max_bytes:
        raise InputError(f"{source}: is larger than {max_bytes} bytes, more than a file of this kind can need")
    return text_or_path


def read_yaml(
    text_or_path: str | Path, *, source: str | None = None, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> tuple[Any, Lines]:
    """The document of a YAML file, and the line of each of its keys.

    The document holds mappings, lists, text, numbers, true, false and null;
    dates and times of day stay text.

    Parameters
    ----------
    text_or_path
        Text, or the ``Path`` of a file.
    source
        What error messages call it; None takes the path.
    max_bytes, max_depth
        Limits: size, and mappings and lists inside each other.

    Raises
    ------
    InputError
        With file and line: what is not YAML, breaks a limit, or uses
        aliases, tags, merge keys or the same key twice.

    Examples
    --------
    >>> read_yaml("mesh: {dp: 2}\\nname: mine")
    ({'mesh': {'dp': 2}, 'name': 'mine'}, {('mesh',): 1, ('mesh', 'dp'): 1, ('name',): 2})
    >>> read_yaml("a: 1\\na: 2", source="mine.yaml")
    Traceback (most recent call last):
    ...
    proteus.errors.InputError: mine.yaml, line 2: a is given twice; keep one
    """
    from proteus.yaml_nodes import read_document  # here, so that `import proteus` stays quick

    source = source or (str(text_or_path) if isinstance(text_or_path, Path) else "text")
    return read_document(_text_of(source, text_or_path, max_bytes), source, max_depth)


def read_json(
    text_or_path: str | Path, *, source: str | None = None, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> tuple[Any, str]:
    """The document of a JSON file, and its text, in which a caller may look for the line of a field.

    Parameters as of :func:`read_yaml`.

    Raises
    ------
    InputError
        With file and line: what is not JSON, breaks a limit, or says the same
        field twice.

    Examples
    --------
    >>> read_json('{"a": [1, 2]}')
    ({'a': [1, 2]}, '{"a": [1, 2]}')
    """
    source = source or (str(text_or_path) if isinstance(text_or_path, Path) else "text")
    text = _text_of(source, text_or_path, max_bytes)
    depth = 0
    for match in _BRACKET_OR_TEXT.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
        if depth > max_depth:
            line = 1 + text.count("\n", 0, match.start())
            raise InputError(f"{source}, line {line}: is nested deeper than {max_depth} levels")
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _once(pairs, text, source)), text
    except json.JSONDecodeError as error:
        raise InputError(f"{source}, line {error.lineno}: is not JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:  # a whole number of thousands of digits
        if isinstance(error, InputError):
            raise
        raise InputError(f"{source}: is not JSON that can be read: {error}") from None


def _once(pairs: list[tuple[str, Any]], text: str, source: str) -> dict[str, Any]:
    """The object of these fields, each of which may stand there once."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        written = [match.start() for match in re.finditer(rf"{re.escape(json.dumps(twice))}\s*:", text)]
        line = f", line {1 + text.count(chr(10), 0, written[-1])}" if written else ""
        raise InputError(f"{source}{line}: {twice} is given twice; keep one")
    return values


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path that becomes `path` when the block ends well.

    An error or Ctrl-C inside the block removes the temporary file and leaves
    what was at `path` before.  The temporary name ends as `path` does, so
    that writers which choose their format by the suffix choose the same one.
    A file that is replaced keeps its mode; through a symbolic link the file
    behind it is written; a pipe or a device is written into.

    Raises
    ------
    InputError
        The folder does not exist or cannot be written to.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder, "trace.json")
    ...     with atomic_write(target) as temporary:
    ...         size = temporary.write_text("{}")
    ...     print(sorted(p.name for p in Path(folder).iterdir()))
    ['trace.json']
    """
    target = Path(os.path.realpath(path))  # a link stays, and the file that it names is written
    if target.is_dir():
        raise InputError(f"{path} is a folder; name a file in it")
    there = target.stat() if target.exists() else None
    is_special = there is not None and not stat.S_ISREG(there.st_mode)
    try:
        folder = None if is_special else target.parent
        handle, name = tempfile.mkstemp(dir=folder, prefix=".partial-", suffix=f"-{target.name}")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        if is_special:  # a pipe or a device is written into; a file put in its place would be another thing
            with temporary.open("rb") as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink)
            return
        # mkstemp makes files that only the owner reads; give what open() would have given.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask if there is None else stat.S_IMODE(there.st_mode))
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
