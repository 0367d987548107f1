"""Conditions on the version and on the run."""

from __future__ import annotations

import pytest

from proteus.errors import InputError
from proteus.frameworks.rules import Rule, check_condition, release, version_meets


@pytest.mark.parametrize(
    ("text", "found"),
    [("24.05", (24, 5)), ("v2.x", (2,)), ("core_r0.7.0", (0, 7, 0)), ("nemo 24.03.01", (24, 3, 1)), ("e156d2f", None),
     ("0.3.5+cu112", (0, 3, 5)), ("commit 285068c8 (2023)", (2023,)), ("", None)],
)  # fmt: skip
def test_release(text: str, found: tuple[int, ...] | None) -> None:
    assert release(text) == found


@pytest.mark.parametrize(
    ("version", "wanted", "meets"),
    [("24.9", "<24.10", True), ("24.09", ">=24.09", True), ("24.09.01", ">24.09", True), ("2", "==2.0", True),
     ("2.1", ">=2.0, <2.1", False), ("", "<99", False), ("", "unknown", True), ("1", "unknown", False)],
)  # fmt: skip
def test_versions_compare_part_by_part(version: str, wanted: str, meets: bool) -> None:
    assert version_meets(version, wanted) is meets


def rule(**conditions: object) -> Rule:
    checked = tuple((name, check_condition(name, wanted)) for name, wanted in conditions.items())
    return Rule(conditions=checked, values=(), defaults=(), sources=(), tables=())


def test_all_conditions_must_hold() -> None:
    both = rule(precision=["fp32", "tf32"], compile=True)
    assert both.holds("", {"precision": "tf32", "compile": True}, {})
    assert both.holds("", {"precision": "tf32"}, {"compile": True})  # the framework's default stands in
    assert not both.holds("", {"precision": "tf32", "compile": False}, {"compile": True})
    assert not both.holds("", {"compile": True}, {})


def test_a_number_that_is_not_said_is_not_equal() -> None:
    assert rule(virtual_stages="!=1").holds("", {}, {})
    assert not rule(virtual_stages="!=1").holds("", {"virtual_stages": 1}, {})
    assert not rule(virtual_stages=">1").holds("", {}, {})


@pytest.mark.parametrize(
    ("name", "wanted"), [("version", 24.07), ("version", "24.07"), ("version", "<"), ("compile", 1)]
)
def test_conditions_that_cannot_be(name: str, wanted: object) -> None:
    with pytest.raises(InputError):
        check_condition(name, wanted)
