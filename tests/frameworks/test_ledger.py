"""The ledger names every constant and every rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from proteus import frameworks
from proteus.frameworks.catalogue import definition
from proteus.frameworks.ledger import WITHDRAWN, ledger, rows

PAGE = Path(__file__).parents[2] / "docs" / "frameworks-ledger.md"


def test_the_page_is_that_of_the_files() -> None:
    again = "python -m proteus.frameworks.ledger docs/frameworks-ledger.md"
    assert PAGE.read_text(encoding="utf-8") == ledger(), f"write it anew: {again}"


@pytest.mark.parametrize("name", frameworks.names())
def test_every_source_has_a_row(name: str) -> None:
    """Whatever the framework answers, in any of its rules, stands in its part of the ledger or in that of its kin."""
    made = definition(name)
    sources = {source for _, source in made.sources} | {s for rule in made.rules for _, s in rule.sources}
    assert sources <= {source for kin in frameworks.names() for _, _, source in rows(kin)}
    assert all(source and tables for _, tables, source in rows(name))


@pytest.mark.parametrize(("text", "table", "shown"), WITHDRAWN)
def test_what_was_withdrawn_can_be_brought_back(text: str, table: str, shown: str) -> None:
    changed = frameworks.load(text)
    plain = frameworks.load(changed.name)
    ((field, value),) = changed.changes
    assert getattr(plain, field) != value
    assert table and shown
