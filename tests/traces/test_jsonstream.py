"""The event reader on whole, cut and damaged text, compressed and not."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proteus.errors import InputError
from proteus.traces import jsonstream
from proteus.traces.jsonstream import EventFile

EVENTS = [
    {
        "ph": "X",
        "name": f'kernel "{i}" }}, {{',
        "ts": i * 1.5,
        "args": {"list": [{"a": 1}, {"b": [2]}], "id": f"{i**31:x}"},
    }
    for i in range(100)
]
TEXT = json.dumps({"schemaVersion": 1, "traceEvents": EVENTS, "traceName": "é"}, ensure_ascii=False)


def read(path: Path, content: bytes) -> tuple[EventFile, list[object]]:
    path.write_bytes(content)
    file = EventFile(path=path)
    return file, list(file.events())


@pytest.mark.parametrize("chunk", [1, 7, 100, 1 << 20])
@pytest.mark.parametrize("compress", [False, True])
def test_whole(chunk: int, compress: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonstream, "CHUNK_BYTES", chunk)
    content = TEXT.encode()
    file, events = read(tmp_path / "a", gzip.compress(content) if compress else content)
    assert events == EVENTS
    assert file.fields == {"schemaVersion": 1, "traceName": "é"}
    assert (file.warnings, file.num_damaged) == ([], 0)


def test_the_array_format_may_stay_open(tmp_path: Path) -> None:
    file, events = read(tmp_path / "a", b'[{"a": 1},\n{"a": 2},\n')
    assert events == [{"a": 1}, {"a": 2}] and not file.warnings


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_cut_files_give_what_is_whole_and_say_so(share: float, compress: bool, tmp_path: Path) -> None:
    content = TEXT.encode()
    if compress:
        content = gzip.compress(content)
    file, events = read(tmp_path / "a", content[: int(len(content) * share)])
    assert events == EVENTS[: len(events)] and 0 < len(events) < len(EVENTS)
    assert any("cut" in warning for warning in file.warnings)


def test_a_damaged_event_is_skipped_and_counted(tmp_path: Path) -> None:
    good = '{"ph": "X", "n": 1}'
    for bad in ('{"ph": "X", "n": }', '{"ph": X}', '{"ph" "X"}', "7", "@@@@", '{"ph": "\\q"}'):
        text = f'{{"traceEvents": [{", ".join([good] * 3)}, {bad}, {", ".join([good] * 20)}]}}'
        file, events = read(tmp_path / "a", text.encode())
        assert file.num_damaged >= 1, bad
        assert 20 <= len(events) <= 23, bad  # what is taken is whole
        assert all(event == {"ph": "X", "n": 1} for event in events)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"  \n ", "is empty"),
        (b"hello", "is no JSON trace"),
        (b'{"a": 1}', "holds no list traceEvents"),
        (b'{"a": [1, 2', "is damaged"),
        (b'{"traceEvents": 5}', "holds no list traceEvents"),
        (b'{"a" 5, "traceEvents": []}', "is damaged"),
        (b"\x1f\x8b\x08", "is empty"),
        (b"\x1f\x8b garbage of no gzip", "damaged"),
        (b"\xff\xfe{\x00}\x00", "is no JSON trace"),
        (b"[" * 100_000, ""),
        (b'{"a": ' * 100_000, "is damaged"),
    ],
)
def test_what_is_no_trace_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    if says:
        with pytest.raises(InputError, match=says):
            read(tmp_path / "a", content)
    else:
        assert read(tmp_path / "a", content)[1] == []


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        list(EventFile(path=tmp_path / "nowhere").events())


def test_a_bomb_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonstream, "MAX_TEXT_BYTES", 10_000_000)
    with pytest.raises(InputError, match="unpacks to more than"):
        read(tmp_path / "a", gzip.compress(b"[" + b" " * 50_000_000))


@given(st.binary(max_size=200))
def test_any_bytes_end_well(content: bytes) -> None:
    import tempfile

    for front in (b"", b'{"traceEvents": [', b"[{", b"\x1f\x8b"):
        with tempfile.NamedTemporaryFile() as file:
            file.write(front + content)
            file.flush()
            try:
                assert all(isinstance(event, dict) for event in EventFile(path=Path(file.name)).events())
            except InputError as error:
                assert str(error)
