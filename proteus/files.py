"""Writing files so that nobody ever finds half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from proteus.errors import InputError


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path that becomes `path` when the block ends well.

    An error or Ctrl-C inside the block removes the temporary file and leaves
    what was at `path` before.  The temporary name ends as `path` does, so
    that writers which choose their format by the suffix choose the same one.

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
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target} is a folder; name a file in it")
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=".partial-", suffix=f"-{target.name}")
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error.strerror}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes files that only the owner reads; give what open() would have given.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
