"""The browser side: one ES module and one style sheet per view, which ``make bundle`` builds from ``static/``."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


def module(view: str) -> str:
    """The ES module that draws `view`; it imports nothing."""
    return _read(f"{view}.js")


def style(view: str) -> str:
    """The style sheet of `view`, with what all views share."""
    return _read(f"{view}.css")


@cache
def _read(name: str) -> str:
    return (files(__package__) / "static" / "dist" / name).read_text(encoding="utf-8")
