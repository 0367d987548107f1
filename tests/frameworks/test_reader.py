"""Files of frameworks: strict, with the line of a mistake."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from proteus import frameworks
from proteus.errors import InputError
from proteus.frameworks import Framework
from proteus.frameworks.reader import MAX_FILE_BYTES

OWN = """\
name: mine
title: My framework
like: megatron-lm@2
kernels:
  attention: {value: flash2, source: "mine.py"}
host:
  op_us: {value: 30, source: "mine.py, measured"}
defaults:
  zero: {value: 3, source: "mine.py"}
when:
- if: {version: "<2"}
  source: "changelog"
  kernels: {attention: unfused}
- if: {precision: bf16}
  source: "mine.py"
  runtime: {bucket_MiB: 50, bucket_elements: 0}
"""


def read(folder: Path, text: str, version: str = "") -> Framework:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return Framework.read(path, version=version)


def test_an_own_file(tmp_path: Path) -> None:
    framework = read(tmp_path, OWN)
    assert (framework.name, framework.title, framework.attention) == ("mine", "My framework", "flash2")
    assert framework.op_s == pytest.approx(30e-6)
    assert framework.host_waits_for_passes and framework.defaults["zero"] == 3  # of Megatron-LM 2, and its own
    assert framework.sources["op_s"] == "mine.py, measured"
    assert read(tmp_path, OWN, version="1.4").attention == "unfused"
    assert framework.given(precision="bf16").bucket_size_bytes(4.0, 8) == 50 * 2**20


def test_its_text_is_its_path(tmp_path: Path) -> None:
    framework = read(tmp_path, OWN, version="1.4").but(op_s=1e-6)
    assert framework.text == f"{tmp_path / 'mine.yaml'}@1.4, op_s=1e-06"
    assert frameworks.load(framework.text) == framework


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = str(tmp_path / "mine.yaml")
    read(tmp_path, OWN)
    before = frameworks.load(path)
    read(tmp_path, OWN.replace("value: 30", "value: 31"))
    assert frameworks.load(path).op_s > before.op_s


def test_without_like_everything_must_be_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"fallback_attention.* missing; write them, or 'like: NAME'"):
        read(tmp_path, OWN.replace("like: megatron-lm@2\n", ""))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("flash2", "flash9", r"line 5: kernels.attention: .*nearest: flash3"),
        ("attention: {value: flash2", "attentoin: {value: flash2", "line 5: kernels.attentoin: .*nearest: attention"),
        ('{value: flash2, source: "mine.py"}', "flash2", "line 5: .*has no source"),
        ("value: flash2, source", "value: flash2, sauce", "line 5: .*unknown field 'sauce'"),
        ("op_us: {value: 30", "op_us: {value: -30", "line 7: host.op_us: .*at least 0"),
        ("op_us: {value: 30", "op_us: {value: .nan", "line 7: host.op_us: .*finite"),
        ("op_us: {value: 30", "op_us: {value: true", "line 7: host.op_us: .*a number"),
        ("op_us", "op_s", "line 7: host.op_s: .*nearest: op_us"),
        ("zero: {value: 3", "zero: {value: three", "line 9: defaults.zero"),
        ("  zero", "  zeros", "line 9: defaults.zeros: .*nearest: zero"),
        ('version: "<2"', "version: 2", "line 11: .*comparison in quotes"),
        ('version: "<2"', "verson: '<2'", "line 11: .*nearest: version"),
        ("- if: {precision: bf16}", "- if: {}", "a rule needs a condition"),
        ("like: megatron-lm@2", "like: megatorn", "line 3: like: .*nearest: megatron"),
        ("name: mine", "name: My Frame", "line 1: name"),
        ("title: My framework", "name: other", "line 2: name is given twice"),
        ("title: My framework", "title: [", "line .*not YAML"),
        ("title: My framework", "title: 2024-13-45", "."),
        ("name: mine", "name: mine\nwhat: 1", "line 2: what: unknown field"),
        ("kernels:\n", "kernels: &k\n", "."),
    ],
)
def test_a_mistake_names_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in OWN
    try:
        read(tmp_path, OWN.replace(old, new, 1))
    except InputError as error:
        import re

        assert re.search(message, str(error)), str(error)
    else:
        assert message == "."  # an anchor or a text that YAML takes for itself does no harm


@pytest.mark.parametrize("text", ["", "- a", "1", "a: *b", "? [a]\n: 1", "\x00", "name: !!python/object:os.system x"])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError):
        read(tmp_path, text)


def test_files_that_would_keep_it_busy_are_refused_at_once(tmp_path: Path) -> None:
    begin = time.perf_counter()
    for text in ("[" * 20_000, "a: " + "{a: " * 5_000, "x" * (MAX_FILE_BYTES + 1), "a: &a [x]\nb: [" + "*a, " * 20_000):
        with pytest.raises(InputError):
            read(tmp_path, text)
    assert time.perf_counter() - begin < 2.0
    with pytest.raises(InputError):
        Framework.read(tmp_path)
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        Framework.read(tmp_path / "bytes.yaml")
