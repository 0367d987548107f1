"""Run the tutorials again and save the numbers that they show.

::

    .venv/bin/python tools/refresh_notebooks.py            all of them
    .venv/bin/python tools/refresh_notebooks.py 03 05      some, by the beginnings of their names
    .venv/bin/python tools/refresh_notebooks.py --check    only say what would change

Cells marked ``# NBVAL_IGNORE_OUTPUT`` show live views; of their outputs only
the table and the still picture are kept, for previews of the files.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
LIVE = "NBVAL_IGNORE_OUTPUT"
LONGEST_CELL_S = 300
#: what previews of notebooks take out of HTML
DROPPED = ("<svg", "<script")
#: metadata of a cell that its author set: whether its source is folded away
KEPT = ("jupyter",)
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def refresh(path: Path) -> str:
    """The notebook's text after running all of its cells."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=LONGEST_CELL_S, kernel_name="python3", resources={"metadata": {"path": FOLDER}}
    ).execute()
    return nbformat.writes(tidy(notebook), indent=1) + "\n"


def tidy(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Equal runs give equal files: no execution times, no widget state, ids and counts in order."""
    notebook.metadata = nbformat.from_dict(KERNEL)
    count = 0
    for number, cell in enumerate(notebook.cells):
        kept = {key: cell.metadata[key] for key in KEPT if key in cell.metadata}
        cell.id, cell.metadata = f"cell-{number:02d}", nbformat.from_dict(kept)
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        cell.outputs = stills(cell.outputs) if LIVE in cell.source else merged(cell.outputs)
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = count
    return notebook


def stills(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """What a preview can show of live views: HTML alone, and only such as previews leave whole."""
    kept = []
    for output in outputs:
        text = output.get("data", {}).get("text/html", "")
        if text and not any(mark in text for mark in DROPPED):
            output.data = nbformat.from_dict({"text/html": text})
            output.metadata = nbformat.from_dict({})
            kept.append(output)
    return kept


def merged(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Pieces of one stream joined; where they are cut is chance."""
    joined: list[nbformat.NotebookNode] = []
    for output in outputs:
        before = joined[-1] if joined else None
        if before and output.output_type == before.output_type == "stream" and output.name == before.name:
            before.text += output.text
        else:
            joined.append(output)
    return joined


def found(names: Sequence[str], folder: Path = FOLDER) -> list[Path]:
    """The notebooks whose names begin so."""
    paths: set[Path] = set()
    for name in names:
        matching = list(folder.glob(f"{name.removesuffix('.ipynb')}*.ipynb"))
        if not matching:
            raise SystemExit(f"no notebook in {folder} begins with {name!r}")
        paths.update(matching)
    return sorted(paths)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the tutorials and save their numbers.")
    parser.add_argument("which", nargs="*", default=[""], help="beginnings of file names, such as 03")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file would change")
    options = parser.parse_args()
    changed = 0
    for path in found(options.which):
        begin, before = time.perf_counter(), path.read_text(encoding="utf-8")
        after = refresh(path)
        changed += after != before
        if not options.check and after != before:
            path.write_text(after, encoding="utf-8")
        word = "changed" if after != before else "as it was"
        took_s, size = time.perf_counter() - begin, len(after.encode())
        sys.stdout.write(f"{path.name}: {word}, {took_s:.1f} s, {size / 1e3:.0f} kB\n")
    return int(options.check and changed > 0)


if __name__ == "__main__":
    sys.exit(main())
