"""Text from files as people save them."""

from __future__ import annotations

from pathlib import Path

import pytest

from proteus.cluster.readers.text import MAX_FILE_BYTES, read_text
from proteus.errors import InputError


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbfGPU0\r\nGPU1\n",
        "GPU0\nGPU1\n".encode("utf-16"),
        b"\x1b[4mGPU0\x1b[0m\rGPU1\n",
        b"[4mGPU0[0m\nGPU1\n",
        "GPU0\u200b\nGPU1\n".encode(),
    ],
)
def test_marks_line_ends_and_colours_go(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "topo.txt"
    file.write_bytes(data)
    assert read_text(file) == "GPU0\nGPU1\n"


def test_latin_and_hard_blanks(tmp_path: Path) -> None:
    file = tmp_path / "topo.txt"
    file.write_bytes(b"caf\xe9\xa0GPU0\n")
    assert read_text(file) == "café GPU0\n"


def test_what_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "topo.bin"
    file.write_bytes(bytes(1000))
    with pytest.raises(InputError, match=r"topo\.bin: binary data"):
        read_text(file)
    with pytest.raises(InputError, match=r"missing: No such file"):
        read_text(tmp_path / "missing")
    with pytest.raises(InputError, match="Is a directory"):
        read_text(tmp_path)
    with file.open("wb") as out:
        out.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(InputError, match="a topology file has at most"):
        read_text(file)
