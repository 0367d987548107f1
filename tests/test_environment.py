"""environment.yml and pyproject.toml name the same dependencies with the same bounds."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

#: name on PyPI → name on conda-forge, where they differ
CONDA_NAMES = {"torch": "pytorch", "dask": "dask-core", "playwright": "playwright-python"}
#: what conda names and pip brings itself
ONLY_CONDA = {"pip"}
#: what conda-forge does not have, and pip brings in its environment
ONLY_PIP = {"axe-playwright-python"}


def bounds(requirements: list[str]) -> dict[str, SpecifierSet]:
    parsed = [Requirement(text) for text in requirements]
    return {requirement.name: requirement.specifier for requirement in parsed}


def pip_lines(root: Path) -> list[str]:
    """What environment.yml leaves to pip."""
    listed = yaml.safe_load((root / "environment.yml").read_text())["dependencies"]
    (table,) = [entry for entry in listed if not isinstance(entry, str)]
    lines: list[str] = table["pip"]
    return lines


@pytest.fixture
def project(root: Path) -> dict:
    return tomllib.loads((root / "pyproject.toml").read_text())


@pytest.fixture
def pip_bounds(project: dict) -> dict[str, SpecifierSet]:
    table = project["project"]
    extras = [text for extra in table["optional-dependencies"].values() for text in extra]
    bounds_by_name = bounds(table["dependencies"] + extras + project["build-system"]["requires"])
    bounds_by_name.pop(table["name"])  # the extra that names other extras
    return bounds_by_name | {"python": SpecifierSet(table["requires-python"])}


def test_conda_names_what_pip_names(root: Path, pip_bounds: dict[str, SpecifierSet]) -> None:
    listed = yaml.safe_load((root / "environment.yml").read_text())["dependencies"]
    conda = bounds([entry for entry in listed if isinstance(entry, str)])
    by_pip = bounds([text for text in pip_lines(root) if not text.startswith("-e")])
    assert by_pip == {name: pip_bounds[name] for name in ONLY_PIP}
    expected = {CONDA_NAMES.get(name, name): spec for name, spec in pip_bounds.items() if name not in ONLY_PIP}
    assert {name: str(spec) for name, spec in conda.items() if name not in ONLY_CONDA} == {
        name: str(spec) for name, spec in expected.items()
    }


def test_conda_installs_proteus_itself_from_the_checkout(root: Path) -> None:
    assert pip_lines(root)[0] == "-e ."


def test_every_dependency_has_both_bounds(pip_bounds: dict[str, SpecifierSet]) -> None:
    open_ended = {"python", "hatchling"}
    for name, specifier in pip_bounds.items():
        operators = {clause.operator for clause in specifier}
        assert operators == ({">="} if name in open_ended else {">=", "<"}), name


def test_upper_bound_is_the_next_major_release(pip_bounds: dict[str, SpecifierSet]) -> None:
    for name, specifier in pip_bounds.items():
        clauses = {clause.operator: Version(clause.version) for clause in specifier}
        if "<" in clauses:
            assert clauses["<"] == Version(str(clauses[">="].major + 1)), name


def test_tests_run_within_the_bounds(pip_bounds: dict[str, SpecifierSet]) -> None:
    from importlib.metadata import version

    for name, specifier in pip_bounds.items():
        if name not in {"python", "hatchling"}:  # hatchling lives in the build's own environment
            assert Version(version(name)) in specifier, name


def test_constraints_lie_within_the_bounds(root: Path, pip_bounds: dict[str, SpecifierSet]) -> None:
    lines = (root / "constraints.txt").read_text().splitlines()
    pins = bounds([line for line in lines if line and not line.startswith("#")])
    assert pins
    for name, specifier in pins.items():
        (clause,) = specifier
        assert clause.operator == "==" and Version(clause.version) in pip_bounds[name], name
