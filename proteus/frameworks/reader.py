"""The files of frameworks: read strictly, since a user may have been sent one; a mistake names its line.

name: mine
title: My framework
like: megatron-core@0.12            # what is not said here is as there
kernels:
  attention: {value: flash2, source: "model.py"}
when:
- if: {compile: true}
  source: "docs/compile.md"         # of the values of this rule
  kernels: {norm: tuned}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import yaml

from proteus.errors import InputError, context, unknown
from proteus.frameworks.framework import GROUPS, KINDS, Definition
from proteus.frameworks.rules import FACTS, Rule, check_condition, version_meets
from proteus.frameworks.schema import DEFAULTS, RECIPES
from proteus.frameworks.values import Kind
from proteus.units import US, MiB

#: a file beyond this is refused: the longest of the catalogue has a tenth of it
MAX_FILE_BYTES = 200_000
#: brackets in brackets beyond this are refused: the form needs six
MAX_DEPTH = 12
NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TOP = ("name", "title", "aliases", "like", "when", "defaults", "recipes", *GROUPS)
_RULE = ("if", "source", "tables", "defaults", *GROUPS)
#: field -> (how files write it, SI per unit)
_WRITTEN = {
    field: (
        (f"{field.removesuffix('_s')}_us", US)
        if field.endswith("_s")
        else (f"{field.removesuffix('_bytes')}_MiB", float(MiB))
        if field.endswith("bucket_bytes")
        else (field, None)
    )
    for field in KINDS
}
_FIELD = {written: (field, factor) for field, (written, factor) in _WRITTEN.items()}

Entries = dict[str, tuple[Any, str, tuple[str, ...]]]


def parse(text: str, where: str, definition_of: Callable[[str], tuple[Definition, str]]) -> Definition:
    """The definition that a file's text gives.

    Parameters
    ----------
    where
        The file's name, for messages.
    definition_of
        The definition and the version that the text of ``like`` names.

    Raises
    ------
    InputError
        Not YAML, not of this form, or without a value that every framework needs.
    """
    reader = _Reader(where)
    top = reader.mapping(reader.load(text), ())
    reader.only(top, _TOP, ())
    name = reader.text(top, "name", ())
    if NAME.fullmatch(name) is None:
        raise reader.fail(("name",), f"{name!r}; use small letters, digits and dashes")
    title = reader.text(top, "title", ()) if "title" in top else name
    values, defaults, recipes = reader.entries(top, (), source="")
    parent = None
    if "like" in top:
        with context(reader.where(("like",))):
            parent, version = definition_of(reader.text(top, "like", ()))
            parent = _at(parent, version) if version else parent
    child = Definition(
        name=name,
        title=title,
        aliases=tuple(reader.words(top.get("aliases", []), ("aliases",))),
        values=_pairs(values),
        defaults=_pairs(defaults),
        recipes=_pairs(recipes),
        rules=tuple(reader.rule(item, ("when", str(i))) for i, item in enumerate(reader.list(top.get("when"), "when"))),
        sources=tuple((key, source) for group in (values, defaults, recipes) for key, (_, source, _) in group.items()),
        tables=tuple((key, tables) for group in (values, defaults, recipes) for key, (_, _, tables) in group.items()),
    )
    made = child if parent is None else _over(parent, child)
    missing = [_WRITTEN[field][0] for field in KINDS if field not in dict(made.values)]
    if missing:
        raise reader.fail(
            (), f"{', '.join(missing)} missing; write them, or 'like: NAME' to take over those of another"
        )
    return made


def _over(parent: Definition, child: Definition) -> Definition:
    """`child` with all of the parent where it is silent: its file wins over the parent's rules too."""
    child_rule = Rule(
        conditions=(), values=child.values, defaults=child.defaults, sources=child.sources, tables=child.tables
    )
    return replace(
        child,
        values=parent.values,
        defaults=parent.defaults,
        recipes=tuple({**dict(parent.recipes), **dict(child.recipes)}.items()),
        rules=(*parent.rules, child_rule, *child.rules),
        sources=tuple({**dict(parent.sources), **{k: s for k, s in child.sources if k in dict(child.recipes)}}.items()),
        tables=parent.tables,
    )


def _at(definition: Definition, version: str) -> Definition:
    """The definition at a version: rules of others are gone."""
    rules = []
    for rule in definition.rules:
        if all(version_meets(version, wanted) for name, wanted in rule.conditions if name == "version"):
            rules.append(replace(rule, conditions=tuple(c for c in rule.conditions if c[0] != "version")))
    return replace(definition, rules=tuple(rules))


def _pairs(entries: Entries) -> tuple[tuple[str, Any], ...]:
    return tuple((key, value) for key, (value, _, _) in entries.items())


class _Reader:
    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[tuple[str, ...], int] = {}

    def load(self, text: str) -> Any:
        if len(text.encode()) > MAX_FILE_BYTES:
            raise InputError(f"{self.name}: more than {MAX_FILE_BYTES} bytes; a framework's file is shorter")
        try:
            self._check_depth(text)
            node = yaml.compose(text, Loader=_LOADER)
            self._note_lines(node, ())
            return yaml.load(text, Loader=_LOADER)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = f"{self.name}, line {mark.line + 1}" if mark is not None else self.name
            raise InputError(f"{where}: not YAML: {getattr(error, 'problem', error)}") from None
        except InputError:
            raise
        except (ValueError, OverflowError) as error:  # a date or a number that Python does not hold
            raise InputError(f"{self.name}: not YAML that can be read: {error}") from None

    def _check_depth(self, text: str) -> None:
        depth = 0
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.AliasEvent):
                raise InputError(
                    f"{self.name}, line {event.start_mark.line + 1}: alias *{event.anchor}; write the value out"
                )
            if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                depth += 1
                if depth > MAX_DEPTH:
                    raise InputError(f"{self.name}, line {event.start_mark.line + 1}: nested deeper than {MAX_DEPTH}")
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                depth -= 1

    def _note_lines(self, node: Any, path: tuple[str, ...]) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                at = (*path, str(key.value))
                if at in self.lines:
                    raise InputError(
                        f"{self.name}, line {key.start_mark.line + 1}: {'.'.join(at)} is given twice; keep one"
                    )
                self.lines[at] = key.start_mark.line + 1
                self._note_lines(value, at)
        elif isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                self.lines[(*path, str(number))] = value.start_mark.line + 1
                self._note_lines(value, (*path, str(number)))

    def where(self, path: tuple[str, ...]) -> str:
        line = self.lines.get(path)
        name = ".".join(path)
        return f"{self.name}, line {line}: {name}" if line else f"{self.name}: {name}" if name else self.name

    def fail(self, path: tuple[str, ...], message: str) -> InputError:
        return InputError(f"{self.where(path)}: {message}")

    def mapping(self, value: Any, path: tuple[str, ...]) -> Mapping[str, Any]:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise self.fail(path, f"expected a mapping of names, found {_short(value)}")
        return value

    def only(self, value: Mapping[str, Any], known: tuple[str, ...], path: tuple[str, ...]) -> None:
        for key in value:
            if key not in known:
                raise self.fail((*path, key), unknown("field", key, known))

    def text(self, value: Mapping[str, Any], key: str, path: tuple[str, ...]) -> str:
        text = value.get(key)
        if not isinstance(text, str) or not text.strip():
            raise self.fail((*path, key), f"expected text, found {_short(text)}")
        return text.strip()

    def list(self, value: Any, key: str) -> list[Any]:
        if value is not None and not isinstance(value, list):
            raise self.fail((key,), f"expected a list, found {_short(value)}")
        return value or []

    def words(self, value: Any, path: tuple[str, ...]) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise self.fail(path, f"expected a list of words, found {_short(value)}")
        return tuple(value)

    def entries(
        self, top: Mapping[str, Any], path: tuple[str, ...], *, source: str, tables: tuple[str, ...] = ()
    ) -> tuple[Entries, Entries, Entries]:
        """(fields of the framework, defaults, recipes) of a file or a rule; `source` is of values without their own."""
        values: Entries = {}
        for group, names in GROUPS.items():
            known = {_WRITTEN[name][0]: KINDS[name] for name in names}
            for key, entry in self._group(top, group, known, path, source, tables).items():
                field, factor = _FIELD[key]
                values[field] = (entry[0] if factor is None else entry[0] * factor, *entry[1:])
        defaults = self._group(top, "defaults", DEFAULTS, path, source, tables)
        return values, defaults, self._group(top, "recipes", RECIPES, path, source, tables)

    def _group(
        self,
        top: Mapping[str, Any],
        group: str,
        known: Mapping[str, Kind],
        path: tuple[str, ...],
        source: str,
        tables: tuple[str, ...],
    ) -> Entries:
        entries: Entries = {}
        path = (*path, group)
        rows = self.mapping(top.get(group, {}), path)
        for key, item in rows.items():
            at = (*path, key)
            if key not in known:
                raise self.fail(at, unknown(f"field of {group}", key, known))
            if isinstance(item, dict):
                row = self.mapping(item, at)
                self.only(row, ("value", "source", "tables"), at)
                own_source = self.text(row, "source", at)
                own_tables = self.words(row.get("tables", []), (*at, "tables"))
                value = row.get("value")
            else:
                if not source:
                    raise self.fail(at, f"{_short(item)} has no source; write {{value: ..., source: ...}}")
                own_source, own_tables, value = source, tables, item
            with context(self.where(at)):
                entries[key] = (known[key].check(key, value), own_source, own_tables)
        return entries

    def rule(self, item: Any, path: tuple[str, ...]) -> Rule:
        row = self.mapping(item, path)
        self.only(row, _RULE, path)
        conditions = self.mapping(row.get("if"), (*path, "if"))
        if not conditions:
            raise self.fail((*path, "if"), "a rule needs a condition")
        self.only(conditions, ("version", *FACTS), (*path, "if"))
        source = self.text(row, "source", path) if "source" in row else ""
        tables = self.words(row.get("tables", []), (*path, "tables"))
        values, defaults, _ = self.entries(row, path, source=source, tables=tables)
        if not values and not defaults:
            raise self.fail(path, "a rule needs a value that it sets")
        checked = []
        for name, wanted in conditions.items():
            with context(self.where((*path, "if", name))):
                checked.append((name, check_condition(name, wanted)))
        entries = {**values, **defaults}
        return Rule(
            conditions=tuple(checked),
            values=_pairs(values),
            defaults=_pairs(defaults),
            sources=tuple((key, source) for key, (_, source, _) in entries.items()),
            tables=tuple((key, tables) for key, (_, _, tables) in entries.items()),
        )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
