"""The README and the pages of docs/ say what is so: their code runs, their links lead somewhere."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from proteus.cli import main
from tests.markdown import Code, code_blocks, commands, local_links, run_python

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(
    (ROOT / "docs").rglob("*.md")
)
#: python and pycon run; console lines that start with `$ proteus` run; YAML blocks that name
#: a file are there; the rest is text
LANGUAGES = {"python", "pycon", "console", "sh", "text", "yaml", "json", "mermaid", "make"}


def ids(page: Path) -> str:
    return str(page.relative_to(ROOT))


def write_files(page: Path, folder: Path) -> None:
    """Write the YAML blocks whose first line is a comment with a file's name, as a reader would."""
    for code in with_language(page, "yaml"):
        if named := re.match(r"# ([\w-]+\.yaml)\n", code.text):
            (folder / named[1]).write_text(code.text, encoding="utf-8")


def with_language(page: Path, language: str) -> list[Code]:
    return [code for code in code_blocks(page) if code.language == language]


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_block_names_its_language(page: Path) -> None:
    for code in code_blocks(page):
        assert code.language in LANGUAGES, f"{ids(page)}:{code.line}: {code.language!r}"


@pytest.mark.parametrize("page", [page for page in PAGES if with_language(page, "python")], ids=ids)
def test_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(page, tmp_path)
    run_python(page, with_language(page, "python"))


@pytest.mark.parametrize("page", [page for page in PAGES if with_language(page, "pycon")], ids=ids)
def test_sessions_print_what_the_page_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(page, tmp_path)
    text = "\n".join("\n" * code.line + code.text for code in with_language(page, "pycon"))
    test = doctest.DocTestParser().get_doctest(text, {}, ids(page), str(page), 0)
    lines: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert runner.run(test, out=lines.append).failed == 0, "".join(lines)


@pytest.mark.parametrize("page", [page for page in PAGES if with_language(page, "console")], ids=ids)
def test_commands_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(page, tmp_path)
    for code in with_language(page, "console"):
        for arguments in commands(code):
            assert main(arguments) == 0, f"{ids(page)}:{code.line}: proteus {' '.join(arguments)}"


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_links_lead_somewhere(page: Path) -> None:
    missing = [str(target) for target in local_links(page) if not target.exists()]
    assert not missing


def test_the_project_speaks_of_itself_alone() -> None:
    """No path of somebody's machine in a page."""
    for page in PAGES:
        match = re.search(r"(?<![\w.])/(work|home|root|Users|tmp)/", page.read_text(encoding="utf-8"))
        assert match is None, f"{ids(page)}: {match}"
