"""The tutorials as files; that they run and give the numbers they show is checked by nbval."""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MAX_BYTES = 300e3
PUBLIC = {"proteus", "proteus_widgets"}


def code_of(path: Path) -> str:
    cells = nbformat.read(path, as_version=4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "code")


def test_the_first_tutorial_is_there() -> None:
    assert "01-first-strategy.ipynb" in {path.name for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_small(path: Path) -> None:
    assert path.stat().st_size < MAX_BYTES


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_on_any_kernel_of_python(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert notebook.metadata["kernelspec"]["name"] == "python3"
    assert "widgets" not in notebook.metadata, "clear the widget state before committing"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_uses_public_names_only(path: Path) -> None:
    for node in ast.walk(ast.parse(code_of(path))):
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_"), f"{path.name}: {node.attr}"
            continue
        else:
            continue
        for module in modules:
            assert module in PUBLIC or module.split(".")[0] not in PUBLIC, f"{path.name}: {module}"
