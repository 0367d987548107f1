"""Run the tutorials and keep their outputs, without what differs from run to run.

    python tools/run_notebooks.py [NAME.ipynb ...]

Views are live and large: their state is dropped, the numbers stay, and
nbval compares those in every test run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
TIMEOUT_S = 300


def run(path: Path) -> None:
    """Run a notebook in its folder and save it in place."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=TIMEOUT_S, resources={"metadata": {"path": str(path.parent)}}).execute()
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    nbformat.write(notebook, path)
    print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    names = sys.argv[1:]
    for found in [FOLDER / name for name in names] or sorted(FOLDER.glob("*.ipynb")):
        run(found)
