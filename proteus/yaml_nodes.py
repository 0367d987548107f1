"""YAML as plain values, without what makes a file that a stranger wrote slow or surprising.

Depth is checked while parsing, since PyYAML's parser takes time that grows
with the square of the depth: 20 kB of opening brackets keep it busy for 15 s.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from proteus.errors import InputError

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PREFIX = "tag:yaml.org,2002:"
#: characters of a message that quotes the file
_MAX_QUOTED = 80
#: YAML 1.1 reads 12:30:45 as a number to the base 60, and 2024-07-01 as a date; both stay text here
_TEXT_TAGS = {f"{_PREFIX}{name}" for name in ("str", "timestamp", "value")}
_CONSTRUCT = {
    f"{_PREFIX}null": SafeConstructor.construct_yaml_null,
    f"{_PREFIX}bool": SafeConstructor.construct_yaml_bool,
    f"{_PREFIX}int": SafeConstructor.construct_yaml_int,
    f"{_PREFIX}float": SafeConstructor.construct_yaml_float,
}
_NUMBERS = {f"{_PREFIX}int", f"{_PREFIX}float"}
#: 1e6 is a number to everybody but YAML 1.1, which asks for a point and a sign
_PLAIN_EXPONENT = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d{1,4}")

Lines = dict[tuple[str, ...], int]


def read_document(text: str, source: str, max_depth: int) -> tuple[Any, Lines]:
    """The document and the line of each key; see :func:`proteus.files.read_yaml`."""
    try:
        _check_events(text, source, max_depth)
        node = yaml.compose(text, Loader=_Loader)
        lines: Lines = {}
        return (None if node is None else _Values(source, lines).value(node, ())), lines
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        last = text.count("\n") + 1  # the end of the text counts as a line after it
        where = f"{source}, line {min(mark.line + 1, last)}" if mark is not None else source
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it has no form that YAML knows"
        if "nesting depth" in problem:  # the parser in C looks ahead, and has a limit of its own
            raise InputError(f"{where}: is nested deeper than {max_depth} levels") from None
        raise InputError(f"{where}: not YAML: {problem}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{source}: not YAML that can be read: {error}") from None


def _check_events(text: str, source: str, max_depth: int) -> None:
    """Refuse depth and aliases while parsing: the parser goes no further than the first event that breaks a rule."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        at = f"{source}, line {event.start_mark.line + 1}"
        if depth > max_depth:
            raise InputError(f"{at}: is nested deeper than {max_depth} levels")
        if isinstance(event, yaml.AliasEvent):
            # a few lines of aliases of aliases stand for more nodes than any memory holds
            raise InputError(f"{at}: alias *{_quoted(event.anchor)}; write the value out")


def _quoted(text: object) -> str:
    shown = str(text).replace("\n", " ")
    return shown if len(shown) <= _MAX_QUOTED else f"{shown[:_MAX_QUOTED]}..."


class _Values:
    """Makes values of nodes and writes down their lines."""

    def __init__(self, source: str, lines: Lines) -> None:
        self.source, self.lines = source, lines
        self.constructor: Any = SafeConstructor()

    def fail(self, node: Any, message: str) -> InputError:
        return InputError(f"{self.source}, line {node.start_mark.line + 1}: {message}")

    def value(self, node: Any, path: tuple[str, ...]) -> Any:
        if isinstance(node, yaml.MappingNode):
            self._expect(node, "map")
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            self._expect(node, "seq")
            values = []
            for number, item in enumerate(node.value):
                at = (*path, str(number))
                self.lines[at] = item.start_mark.line + 1
                values.append(self.value(item, at))
            return values
        return self._scalar(node)

    def _expect(self, node: Any, name: str) -> None:
        if node.tag != f"{_PREFIX}{name}":
            raise self.fail(node, f"tag {_quoted(node.tag)}; write plain values without tags")

    def _mapping(self, node: Any, path: tuple[str, ...]) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        for key_node, item in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self.fail(key_node, "a key that is a list or a mapping; a key is one word or number")
            if key_node.tag == f"{_PREFIX}merge":
                raise self.fail(key_node, "merge key <<; write the values out")
            key = self._scalar(key_node)
            at = (*path, str(key_node.value))
            if key in values or at in self.lines:
                raise self.fail(key_node, f"{_quoted('.'.join(at))} is given twice; keep one")
            self.lines[at] = key_node.start_mark.line + 1
            values[key] = self.value(item, at)
        return values

    def _scalar(self, node: Any) -> Any:
        text = str(node.value)
        if node.tag in _TEXT_TAGS:
            # a quoted number is text; one that YAML 1.1 alone does not see is a number
            return float(text) if not node.style and _PLAIN_EXPONENT.fullmatch(text) else text
        if node.tag not in _CONSTRUCT:
            raise self.fail(node, f"tag {_quoted(node.tag)}; write plain values without tags")
        if node.tag in _NUMBERS and ":" in text:
            return text
        try:
            return _CONSTRUCT[node.tag](self.constructor, node)
        except (ValueError, LookupError, OverflowError) as error:
            raise self.fail(node, f"{_quoted(text)}: no value that can be read: {_quoted(error)}") from None
