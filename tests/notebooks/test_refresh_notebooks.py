"""What is kept of a tutorial's outputs, and that the files keep to it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("refresh_notebooks", ROOT / "tools" / "refresh_notebooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stream(text: str, name: str = "stdout") -> nbformat.NotebookNode:
    return new_output("stream", text=text, name=name)


def test_live_views_are_dropped_and_numbers_stay(tool: ModuleType) -> None:
    live = new_code_cell(
        "# NBVAL_IGNORE_OUTPUT\npt.lab(tree, cluster)",
        outputs=[new_output("display_data", data={"text/plain": "Workbench()"})],
    )
    number = new_code_cell("1 + 1", outputs=[new_output("execute_result", data={"text/plain": "2"}, execution_count=9)])
    tidy = tool.tidy(new_notebook(cells=[live, number], metadata={"widgets": {"state": {}}}))
    assert tidy.cells[0].outputs == []
    assert tidy.cells[1].outputs[0].data == {"text/plain": "2"}
    assert tidy.cells[1].outputs[0].execution_count == tidy.cells[1].execution_count == 2
    assert "widgets" not in tidy.metadata


def test_the_still_picture_of_a_live_view_stays(tool: ModuleType) -> None:
    view = {"text/plain": "Workbench()", "application/vnd.jupyter.widget-view+json": {}, "text/html": "<table></table>"}
    drawn = {"text/plain": "<HTML>", "text/html": "<svg></svg>"}
    cell = new_code_cell(
        "# NBVAL_IGNORE_OUTPUT\nshow()",
        outputs=[new_output("execute_result", data=view, execution_count=3), new_output("display_data", data=drawn)],
    )
    tidy = tool.tidy(new_notebook(cells=[cell]))
    assert [output.data for output in tidy.cells[0].outputs] == [{"text/html": "<table></table>"}]
    assert tool.tidy(tidy) == tidy


def test_equal_runs_give_equal_files(tool: ModuleType) -> None:
    def once(*texts: str, **metadata: object) -> str:
        cell = new_code_cell("show()", outputs=[stream(text) for text in texts], metadata=metadata)
        return nbformat.writes(tool.tidy(new_notebook(cells=[new_markdown_cell("# Title"), cell])))

    assert once("a\n", "b\n", execution={"iopub.status.busy": "2024-01-01"}) == once("a\nb\n")
    assert once("a\n") != once("b\n")


def test_streams_of_two_names_stay_apart(tool: ModuleType) -> None:
    joined = tool.merged([stream("a"), stream("b"), stream("!", "stderr"), stream("c")])
    assert [(output.name, output.text) for output in joined] == [("stdout", "ab"), ("stderr", "!"), ("stdout", "c")]


def test_folded_source_stays_folded(tool: ModuleType) -> None:
    cell = new_code_cell("long()", metadata={"jupyter": {"source_hidden": True}, "tags": ["mine"]})
    assert tool.tidy(new_notebook(cells=[cell])).cells[0].metadata == {"jupyter": {"source_hidden": True}}


def test_notebooks_are_found_by_the_beginning_of_their_names(tool: ModuleType, tmp_path: Path) -> None:
    for name in ("01-one.ipynb", "02-two.ipynb"):
        (tmp_path / name).touch()
    assert [path.name for path in tool.found([""], tmp_path)] == ["01-one.ipynb", "02-two.ipynb"]
    assert [path.name for path in tool.found(["02", "02-two.ipynb"], tmp_path)] == ["02-two.ipynb"]
    with pytest.raises(SystemExit, match="'03'"):
        tool.found(["03"], tmp_path)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_file_is_as_the_tool_leaves_it(tool: ModuleType, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert nbformat.writes(tool.tidy(nbformat.reads(text, as_version=4)), indent=1) + "\n" == text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_begins_with_a_question_and_ends_with_a_change_to_try(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    title, question = cells[0].source.split("\n\n")[:2]
    assert title.startswith(f"# {int(path.name[:2])} · ")
    assert question.startswith("**") and question.endswith("?**")
    assert any("## A change to try" in cell.source for cell in cells[-2:])
