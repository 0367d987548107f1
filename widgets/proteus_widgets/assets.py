"""The browser side: ES modules and styles joined at load, so that no build step is needed.

The sources under ``static/`` are ordinary ES modules with relative imports.
A widget takes one module as text, so :func:`module` follows the imports of an
entry, puts every file once before its first user, and drops the import and
export words.  All files of one bundle share one scope; names that clash are
an error of ours, which :func:`module` reports.
"""

from __future__ import annotations

import posixpath
import re
from functools import cache
from importlib.resources import files

_IMPORT = re.compile(r'^import \{[^}]*\} from "(?P<path>\.[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default )", re.MULTILINE)
_DECLARED = re.compile(r"^(?:const|let|class|function) (\w+)", re.MULTILINE)


@cache
def _read(path: str) -> str:
    return (files(__package__) / "static" / path).read_text(encoding="utf-8")


def sources(entry: str) -> tuple[str, ...]:
    """Paths of `entry` and all that it imports, each after what it needs.

    >>> sources("timeline/viewport.js")
    ('timeline/viewport.js',)
    """
    order: dict[str, None] = {}

    def visit(path: str) -> None:
        if path in order:
            return
        for match in _IMPORT.finditer(_read(path)):
            visit(posixpath.normpath(posixpath.join(posixpath.dirname(path), match["path"])))
        order[path] = None

    visit(entry)
    return tuple(order)


@cache
def module(entry: str) -> str:
    """One ES module with the text of `entry` and of all that it imports."""
    parts = []
    owner: dict[str, str] = {}
    for path in sources(entry):
        text = _IMPORT.sub("", _read(path))
        text = _EXPORT.sub("", text)
        for name in _DECLARED.findall(text):
            assert owner.setdefault(name, path) == path, f"{path} and {owner[name]} both declare {name}"
        if path != entry:
            assert "export default" not in text, f"{path} has a default export but is imported"
        parts.append(f"// {path}\n{text}")
    return "\n".join(parts)


@cache
def style(*names: str) -> str:
    """The styles that all views share, then those of `names`."""
    return "\n".join(_read(f"{name}.css") for name in ("base", *names))
