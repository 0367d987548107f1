"""A launch file as a document: its form, its values and their lines, whatever its name."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from proteus.errors import InputError
from proteus.files import MAX_DEPTH, Lines, read_json, read_text, read_yaml
from proteus.launch import shell
from proteus.launch.keys import Entry, flat

Form = Literal["arguments", "yaml", "json", "toml"]
_TOML_TABLE = re.compile(r"^\s*\[{1,2}[\w.\"' -]+\]{1,2}\s*(#.*)?$", re.MULTILINE)
_TOML_VALUE = re.compile(r"^\s*[\w.-]+\s*=\s*(\"|'|\[|\{|true|false|[-+\d.])", re.MULTILINE)
_SHELL_FLAG = re.compile(r"(?:^|[\s\"'(])--[A-Za-z][\w-]+")
_YAML_KEY = re.compile(r"^\s*[\"']?[\w.-]+[\"']?\s*:(\s|$)", re.MULTILINE)
_SHEBANG = re.compile(r"#!.*\b(ba|z|da)?sh\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What stands in a file.

    Parameters
    ----------
    values
        The document; of a command line its flags.
    entries
        Every key with its line, nested ones with dots between the names.
    program
        Of a command line: the words that are no flags, such as ``pretrain_gpt.py``.
    open_names
        Variables that a script does not set, with the line of their first use.
    """

    source: str
    form: Form
    values: Mapping[str, Any]
    entries: tuple[Entry, ...]
    program: tuple[str, ...] = ()
    open_names: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(map(str, self.values))

    def section(self, name: str) -> Mapping[str, Any]:
        """The mapping below a key; empty where there is none."""
        value = self.values.get(name)
        return value if isinstance(value, Mapping) else {}


def open_document(path_or_args: str | os.PathLike[str] | Sequence[str]) -> Document:
    """The document of a file, or of an argument list."""
    if isinstance(path_or_args, str | os.PathLike):
        return of_text(read_text(path_or_args), os.path.basename(os.fspath(path_or_args)))
    words = [(word, None) for word in path_or_args]
    return _of_words([words], "arguments")


def of_text(text: str, source: str) -> Document:
    """The document of a text, whose form shows in the text itself.

    >>> of_text("[model]\\nname = 'llama3'", "a").form, of_text("a: 1", "a").form, of_text("x.py --a 1", "a").form
    ('toml', 'yaml', 'arguments')
    """
    if "\0" in text:
        raise InputError(f"{source}: has null bytes; it is no text")
    begin = text.lstrip()
    if _SHEBANG.match(begin) or _looks_like_shell(text):
        return _of_script(text, source)
    if begin.startswith("{"):
        try:
            values, text = read_json(text, source=source)
            return _of_mapping(values, _json_lines(text, values), source, "json")
        except InputError as error:
            try:
                return _of_yaml(text, source)  # GPT-NeoX: braces and quotes, with True and trailing commas
            except InputError:
                raise error from None
    if _TOML_TABLE.search(text) and _TOML_VALUE.search(text) and not _YAML_KEY.search(_first_lines(text)):
        return _of_toml(text, source)
    return _of_yaml(text, source)


def _first_lines(text: str) -> str:
    return "\n".join([line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")][:3])


def _looks_like_shell(text: str) -> bool:
    """Whether flags stand in it that are no keys of YAML."""
    lines = [line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")]
    flagged = sum(
        1 for line in lines if _SHELL_FLAG.search(line) and not re.match(r"\s*[\"']?--[\w-]+[\"']?\s*:", line)
    )
    keys = sum(1 for line in lines if _YAML_KEY.match(line) or re.match(r"\s*[\"']?--[\w-]+[\"']?\s*:", line))
    return flagged > 0 and flagged >= keys


def _of_script(text: str, source: str) -> Document:
    script = shell.parse(text, source)
    document = _of_words(script.commands, source)
    used = {
        name: line for name, line in script.open_names.items() if any(name in str(e.value) for e in document.entries)
    }
    return Document(
        source=source,
        form="arguments",
        values=document.values,
        entries=document.entries,
        program=document.program,
        open_names=used,
        notes=tuple(script.notes),
    )


def _of_words(commands: Sequence[Sequence[tuple[str, int | None]]], source: str) -> Document:
    """The command with the most flags is the one that launches."""

    def num_flags(command: Sequence[tuple[str, int | None]]) -> int:
        return sum(text.startswith("--") for text, _ in command)

    command = max(commands, key=num_flags, default=[])
    if not num_flags(command):
        raise InputError(f"{source}: no command with flags stands in it; give the script that launches the training")
    entries = tuple(shell.flags(command))
    program = tuple(text for text, _ in command if text.endswith(".py") or text in _LAUNCHERS)
    return Document(
        source=source, form="arguments", values={e.key: e.value for e in entries}, entries=entries, program=program
    )


_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "srun", "mpirun", "xtuner", "swift", "tune", "llamafactory-cli")


def _of_yaml(text: str, source: str) -> Document:
    values, lines = read_yaml(text, source=source)
    if not isinstance(values, Mapping) and isinstance(values, str) and "--" in values:
        return _of_script(text, source)
    return _of_mapping(values, lines, source, "yaml")


def _of_toml(text: str, source: str) -> Document:
    depth = max((line.count("[") + line.count("{") for line in text.split("\n")), default=0)
    if depth > 1000:
        raise InputError(f"{source}: is nested deeper than {MAX_DEPTH} levels")
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"{source}: not TOML: {error}") from None
    if _depth(values) > MAX_DEPTH:
        raise InputError(f"{source}: is nested deeper than {MAX_DEPTH} levels")
    return _of_mapping(values, _toml_lines(text), source, "toml")


def _depth(value: Any) -> int:
    deepest, todo = 0, [(value, 1)]
    while todo:
        item, depth = todo.pop()
        deepest = max(deepest, depth)
        inner = item.values() if isinstance(item, Mapping) else item if isinstance(item, list) else ()
        todo += [(child, depth + 1) for child in inner]
    return deepest


def _toml_lines(text: str) -> Lines:
    """Line of each key: tables and plain assignments, which is all that launch files use."""
    lines: Lines = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if match := re.match(r"\[{1,2}([^\]]+)\]", stripped):
            table = tuple(part.strip().strip("\"'") for part in match[1].split("."))
        elif match := re.match(r"([\w.\"'-]+)\s*=", stripped):
            lines[(*table, *(part.strip("\"'") for part in match[1].split(".")))] = number
    return lines


def _json_lines(text: str, values: Any) -> Lines:
    """Line of each key, found in the order in which the document has them."""
    lines: Lines = {}
    place = 0

    def walk(value: Any, path: tuple[str, ...]) -> None:
        nonlocal place
        if isinstance(value, Mapping):
            for key, item in value.items():
                match = re.compile(rf"{re.escape(json.dumps(key))}\s*:").search(text, place)
                if match:
                    place = match.end()
                    lines[(*path, key)] = text.count("\n", 0, match.start()) + 1
                walk(item, (*path, key))

    walk(values, ())
    return lines


def _of_mapping(values: Any, lines: Lines, source: str, form: Form) -> Document:
    if not isinstance(values, Mapping) or not values:
        raise InputError(f"{source}: holds no keys; a launch file is a mapping, a TOML file or a command with flags")
    return Document(source=source, form=form, values=values, entries=tuple(flat(values, lines)))
