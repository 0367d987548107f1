"""Shell scripts: filled in as a shell would, and never run."""

from __future__ import annotations

import time

import pytest

import proteus as pt
from proteus.launch import shell


def words(text: str) -> list[list[str]]:
    return [[word for word, _ in command] for command in shell.parse(text, "run.sh").commands]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=1\nx $A", [["x", "1"]]),
        ("A='1 2'\nx $A", [["x", "1", "2"]]),
        ("A='1 2'\nx \"$A\"", [["x", "1 2"]]),
        ("A=(1 '2 3')\nx \"${A[@]}\"", [["x", "1", "2 3"]]),
        ("A=(1)\nA+=(2)\nx ${A[*]}", [["x", "1", "2"]]),
        ("A=4; B=$((A * 2 + 1))\nx $B", [["x", "9"]]),
        ("x ${A:-7}", [["x", "7"]]),
        ("A=1\nif [ $A -eq 2 ]; then\nB=3\nelse\nB=4\nfi\nx $B", [["x", "4"]]),
        ("for i in 1 2; do\nx $i\ndone\ny", [["y"]]),
        ("x a \\\n  b # c", [["x", "a", "b"]]),
        ("cat <<EOF\nx --y\nEOF\nz", [["cat"], ["z"]]),
        ("export A=1 B=2\nx $A$B", [["x", "12"]]),
    ],
)
def test_words(text: str, expected: list[list[str]]) -> None:
    assert words(text) == expected


def test_what_the_environment_says_stays_open() -> None:
    script = shell.parse("x --tp $TP --pp $(nproc)", "run.sh")
    assert set(script.open_names) == {"$TP", "$(nproc)"}


def test_nothing_is_run(tmp_path: object) -> None:
    script = shell.parse(f"A=$(touch {tmp_path}/ran)\nx $A `touch {tmp_path}/ran`", "run.sh")
    assert script.open_names
    assert not list(tmp_path.iterdir())  # type: ignore[attr-defined]


def test_variables_that_double_are_refused_quickly() -> None:
    text = "A=xxxxxxxxxx\n" + "A=$A$A\n" * 60 + "x $A"
    begin = time.perf_counter()
    with pytest.raises(pt.InputError, match="characters"):
        shell.parse(text, "run.sh")
    assert time.perf_counter() - begin < 5


def test_an_open_quote_ends_with_its_line() -> None:
    script = shell.parse('x --a "1 2 \\\n --b 3', "run.sh")
    assert [word for word, _ in script.commands[0]] == ["x", "--a", "1 2 ", "--b", "3"]
    assert "never closed" in script.notes[0]
    assert [word for word, _ in shell.parse('x "1 2', "run.sh").commands[0]] == ["x", "1 2"]
