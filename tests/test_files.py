"""A file is written whole or not at all, and read as if a stranger had written it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from proteus import yaml_nodes
from proteus.errors import InputError
from proteus.files import atomic_write, read_json, read_yaml


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")
    with atomic_write(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert names(tmp_path) == ["out.json"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_leaves_everything_as_it_was(tmp_path: Path, error: type[BaseException]) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")
    with pytest.raises(error), atomic_write(target) as temporary:
        temporary.write_text("half")
        raise error
    assert target.read_text() == "old"
    assert names(tmp_path) == ["out.json"]


def test_temporary_name_ends_alike(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "trace.json.gz") as temporary:
        assert temporary.name.endswith("trace.json.gz")


def test_mode_is_that_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with atomic_write(tmp_path / "out"):
        pass
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "out")}
    assert len(modes) == 1


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "trace.json"
    target.write_text("old")
    target.chmod(0o640)
    with atomic_write(target) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new" and target.stat().st_mode & 0o777 == 0o640


def test_the_file_behind_a_link_is_written(tmp_path: Path) -> None:
    target, link = tmp_path / "real.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    with atomic_write(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink() and target.read_text() == "new"


def test_a_pipe_is_written_into_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    with atomic_write(pipe) as temporary:
        temporary.write_text("through")
    reader.join(timeout=10)
    assert received == [b"through"] and pipe.is_fifo()


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"nowhere/out\.json cannot be written: No such file"),
        atomic_write(tmp_path / "nowhere" / "out.json"),
    ):
        pass


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"), atomic_write(tmp_path):
        pass


# -- reading what a stranger wrote -------------------------------------------------

PARSERS = [yaml.SafeLoader, *([yaml.CSafeLoader] if yaml.__with_libyaml__ else [])]


@pytest.fixture(params=PARSERS, ids=lambda parser: parser.__name__)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Each of PyYAML's parsers: the one in C is not there everywhere."""
    monkeypatch.setattr(yaml_nodes, "_Loader", request.param)
    return request.param


def test_a_document_and_its_lines(parser: Any) -> None:
    document, lines = read_yaml("a: 1\nb:\n  c: [x, 2.5]\n  d: {e: null, f: true}\n7: z\n")
    assert document == {"a": 1, "b": {"c": ["x", 2.5], "d": {"e": None, "f": True}}, 7: "z"}
    assert lines == {
        ("a",): 1, ("b",): 2, ("b", "c"): 3, ("b", "c", "0"): 3, ("b", "c", "1"): 3, ("b", "d"): 4,
        ("b", "d", "e"): 4, ("b", "d", "f"): 4, ("7",): 5,
    }  # fmt: skip
    assert read_yaml("") == (None, {})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e6", 1e6),
        ("-2.5e-6", -2.5e-6),
        ("'1e6'", "1e6"),
        ("2024-07-01", "2024-07-01"),
        ("12:30:45", "12:30:45"),
        ("1.5:30", "1.5:30"),
        ("0x10", 16),
        ("'5'", "5"),
        ("~", None),
        ("|\n two\n lines", "two\nlines"),
    ],
)
def test_scalars_are_what_they_look_like(parser: Any, text: str, value: object) -> None:
    document, _ = read_yaml(f"a: {text}")
    assert document == {"a": value} and type(document["a"]) is type(value)


DEEP = {
    "brackets": "[" * 20_000,
    "braces": "{a: " * 5_000,
    "entries": "[1, " * 5_000,
    "dashes": "- " * 10_000,
    "questions": "? " * 10_000,
    "indentation": "\n".join(" " * level + "a:" for level in range(190)),
}


@pytest.mark.parametrize("name", DEEP)
def test_depth_is_refused_at_once(name: str) -> None:
    begin = time.perf_counter()
    with pytest.raises(InputError, match=r"deep.yaml, line \d+: is nested deeper than 32 levels"):
        read_yaml(DEEP[name], source="deep.yaml")
    assert time.perf_counter() - begin < 0.1


@pytest.mark.parametrize("name", DEEP)
def test_depth_is_refused_without_the_parser_in_c(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_nodes, "_Loader", yaml.SafeLoader)
    begin = time.perf_counter()
    with pytest.raises(InputError, match="is nested deeper than 32 levels"):
        read_yaml(DEEP[name])
    assert time.perf_counter() - begin < 1.0  # it looks 1,024 characters ahead before the first event


def test_depth_within_the_limit_is_read(parser: Any) -> None:
    document, _ = read_yaml("[" * 32 + "]" * 32)
    for _ in range(31):
        (document,) = document
    assert document == []
    assert read_json("[" * 32 + "]" * 32)[0] == read_yaml("[" * 32 + "]" * 32)[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x 1\nb: *x", "f.yaml, line 2: alias *x; write the value out"),
        ("a: &x [*x]", "f.yaml, line 1: alias *x; write the value out"),
        ("<<: {a: 1}", "f.yaml, line 1: merge key <<; write the values out"),
        ("a: 1\nb: 2\na: 3", "f.yaml, line 3: a is given twice; keep one"),
        ("b:\n  a: 1\n  a: 3", "f.yaml, line 3: b.a is given twice; keep one"),
        ("1: a\n0x1: b", "f.yaml, line 2: 0x1 is given twice; keep one"),
        ("1: a\n'1': b", "f.yaml, line 2: 1 is given twice; keep one"),
        ("a:\n  [x]: 1", "f.yaml, line 2: a key that is a list or a mapping; a key is one word or number"),
        ("a: !!python/object:os.system x", "f.yaml, line 1: tag tag:yaml.org,2002:python/object:os.system; write"),
        ("a: !!set {x}", "f.yaml, line 1: tag tag:yaml.org,2002:set; write plain values without tags"),
        ("a: !mine x", "f.yaml, line 1: tag !mine; write plain values without tags"),
        ("a: !!binary aGk=", "f.yaml, line 1: tag tag:yaml.org,2002:binary; write plain values"),
        ("a: !!int x", "f.yaml, line 1: x: no value that can be read: invalid literal for int()"),
        ("a: " + "9" * 5000, "999...: no value that can be read: Exceeds the limit (4300 digits)"),
        ("a: [1", "f.yaml, line 1: not YAML: "),
        ("a: b: c", "f.yaml, line 1: not YAML: mapping values are not allowed"),
        ("--- a\n--- b", "not YAML: but found another document"),
        ("a: \x00", "f.yaml: not YAML: "),
        ("a: \ud800", "f.yaml: not YAML"),
    ],
)
def test_what_is_no_plain_yaml_is_refused(parser: Any, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_yaml(text, source="f.yaml")
    assert message in str(caught.value) and len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "f.json, line 1: is nested deeper than 32 levels"),
        ('\n{"a":' * 100, "f.json, line 34: is nested deeper than 32 levels"),
        ('{"a": 1,\n "a": 2}', "f.json, line 2: a is given twice; keep one"),
        ('{"a": [{"b": 1,\n "b": 2}]}', "f.json, line 2: b is given twice; keep one"),
        ('{"a": 1', "f.json, line 1: is not JSON: Expecting ',' delimiter at column 8"),
        ("", "f.json, line 1: is not JSON: Expecting value at column 1"),
        ("9" * 5000, "f.json: is not JSON that can be read: Exceeds the limit (4300 digits)"),
        ('"' + "[" * 100, "f.json, line 1: is not JSON: Unterminated string"),
    ],
)
def test_what_is_no_plain_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_json(text, source="f.json")
    assert message in str(caught.value)


def test_brackets_in_text_are_no_depth() -> None:
    text = json.dumps({"a": "[" * 100, "b": '\\"' + "{" * 100})
    assert read_json(text)[0] == json.loads(text)
    assert read_yaml("a: '" + "[" * 100 + "'")[0] == {"a": "[" * 100}


@pytest.mark.parametrize("read", [read_yaml, read_json])
def test_files_have_limits(read: Any, tmp_path: Path) -> None:
    path = tmp_path / "some.file"
    with pytest.raises(InputError, match=r"some\.file: cannot be read: No such file or directory"):
        read(path)
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read(Path("a\0b"))
    path.write_text('"' + "x" * 1000 + '"')
    assert read(path)[0] == "x" * 1000
    with pytest.raises(InputError, match=r"some\.file: is larger than 100 bytes"):
        read(path, max_bytes=100)
    with pytest.raises(InputError, match=r"mine: is larger than 100 bytes"):
        read("x" * 101, source="mine", max_bytes=100)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"some\.file: is no UTF-8 text \(byte 0\); save it as UTF-8"):
        read(path)
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read(path)[0] == {"a": 1}
    with pytest.raises(InputError, match=r"is larger than 1000000 bytes"):
        read(Path("/dev/zero"))


JUNK = st.text() | st.text(alphabet="[]{}:,-?&*!|>'\"#%@` \n\tab01.e~<", max_size=60)


@settings(max_examples=300)
@given(JUNK)
def test_junk_is_a_document_or_one_error(text: str) -> None:
    for loader in PARSERS:
        yaml_nodes._Loader, before = loader, yaml_nodes._Loader
        try:
            for read in (read_yaml, read_json):
                with contextlib.suppress(InputError):
                    read(text)
        finally:
            yaml_nodes._Loader = before


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
KEYS = st.text(alphabet="abcdef", min_size=1, max_size=3)
VALUES = st.recursive(
    SCALARS | st.text(alphabet="abc 01e:.-[]", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
#: the one thing in which safe_dump and read_yaml differ
_LOOKS_LIKE_A_NUMBER = re.compile(r"[-+.\d]+e[-+\d]+")


def words(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [word for item in inner for word in words(item)]


@given(VALUES)
def test_what_is_written_reads_back(value: Any) -> None:
    assert read_json(json.dumps(value))[0] == value
    if not any(_LOOKS_LIKE_A_NUMBER.fullmatch(word) for word in words(value)):
        assert read_yaml(yaml.safe_dump(value))[0] == value
