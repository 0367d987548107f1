"""Run the tutorials again and save the numbers that they show.

::

    .venv/bin/python tools/refresh_notebooks.py            all of them
    .venv/bin/python tools/refresh_notebooks.py 03 05      some
    .venv/bin/python tools/refresh_notebooks.py --check    only say what would change

Cells marked ``# NBVAL_IGNORE_OUTPUT`` show live views; their outputs are
removed, so that the files stay small and hold nothing but text and numbers.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
LIVE = "NBVAL_IGNORE_OUTPUT"
LONGEST_CELL_S = 300
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
        cell.id, cell.metadata = f"cell-{number:02d}", nbformat.from_dict({})
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        cell.outputs = [] if LIVE in cell.source else merged(cell.outputs)
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = count
    return notebook


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


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the tutorials and save their numbers.")
    parser.add_argument("which", nargs="*", default=[""], help="beginnings of file names, such as 03")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file would change")
    options = parser.parse_args()
    changed = 0
    for path in sorted(p for which in options.which for p in FOLDER.glob(f"{which}*.ipynb")):
        begin, before = time.perf_counter(), path.read_text(encoding="utf-8")
        after = refresh(path)
        changed += after != before
        if not options.check and after != before:
            path.write_text(after, encoding="utf-8")
        word = "changed" if after != before else "as it was"
        sys.stdout.write(
            f"{path.name}: {word}, {time.perf_counter() - begin:.1f} s, {len(after.encode()) / 1e3:.0f} kB\n"
        )
    return int(options.check and changed > 0)


if __name__ == "__main__":
    sys.exit(main())
