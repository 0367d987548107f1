"""Imports point only one way, and `import proteus` stays light.

The order is the one in which data flows; a folder may import from those
before it.  Imports inside functions count too: they hide a cycle, they do
not remove it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "proteus"

ORDER = (
    "errors", "arguments", "callable_module", "progress", "units", "identity", "yaml_nodes", "files",
    "mesh", "placement",
    "model", "hardware", "cluster", "frameworks", "costs", "strategy", "compiler", "htae", "result", "simulate",
    "calibration", "search", "launch", "traces", "validation", "torch_import", "verify", "profiling", "cli",
)  # fmt: skip
#: costs know operators and links, not how a strategy spreads them
COSTS_MAY_IMPORT = {"errors", "units", "files", "model", "hardware", "cluster", "frameworks", "costs"}
#: the language between compiler and engine: the one writes it, the other plays it.  It imports errors only.
LANGUAGE = "proteus.htae.tasks"
#: the only folders that may import torch
TORCH_ROOMS = {"torch_import", "verify", "profiling"}
#: libraries that the other folders of proteus do not import, not even late
NEVER = {"torch", "ipywidgets", "anywidget", "bokeh", "jupyter_bokeh", "traitlets", "jupyterlab", "scipy"}
#: libraries that a function may import when the user asks for what needs them
ONLY_LATE = {"pandas", "dask", "distributed", "proteus_widgets", "numba", "IPython"}
#: folders whose modules are loaded only when used, and so may import such a library at their top
LATE_FOLDERS = {"htae", *TORCH_ROOMS}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def layer_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Line, dotted name and whether the import runs when the module is loaded."""
    tree = ast.parse(path.read_text())
    late = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) or is_type_checking(node)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, id(node) not in late
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import; write the whole name"
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}", id(node) not in late


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", modules(), ids=ids)
def test_imports_point_upward(path: Path) -> None:
    layer = layer_of(path)
    if layer == "__init__":
        return  # the front door names everything; the light-import test below watches it
    assert layer in ORDER, f"{ids(path)}: put its layer into ORDER"
    allowed = set(ORDER[: ORDER.index(layer) + 1])
    if layer == "costs":
        allowed = COSTS_MAY_IMPORT
    if layer in {"cli", "calibration", "validation", "search", *TORCH_ROOMS}:
        allowed = allowed | {""}  # these are users of the public names
    for line, name, _ in imports(path):
        if name.split(".")[0] == "proteus" and not name.startswith(f"{LANGUAGE}."):
            target = name.removeprefix("proteus").removeprefix(".").split(".")[0]
            if target not in ORDER:  # `import proteus as pt`, `from proteus import StrategyTree`
                target = ""
            assert target in allowed, f"{ids(path)}:{line}: {layer} imports {name}, which comes after it"


#: what scores published runs asks as anybody could: through the public names, values and the text forms of flags
VALIDATION_MAY_IMPORT = (
    "proteus", "proteus.errors", "proteus.units", "proteus.files", "proteus.frameworks", "proteus.hardware",
    "proteus.cluster", "proteus.model.dims", "proteus.strategy.plan", "proteus.calibration", "proteus.costs.residuals",
    "proteus.validation",
)  # fmt: skip


@pytest.mark.parametrize("path", sorted((PACKAGE / "validation").rglob("*.py")), ids=ids)
def test_validation_asks_as_anybody_could(path: Path) -> None:
    for line, name, _ in imports(path):
        if name.split(".")[0] == "proteus":
            room = name.rpartition(".")[0] or name
            allowed = any(
                name == known or room == known or (known == "proteus.validation" and name.startswith(known))
                for known in VALIDATION_MAY_IMPORT
            )
            assert allowed, f"{ids(path)}:{line}: {name} is no part of the public API"


@pytest.mark.parametrize("path", modules(), ids=ids)
def test_heavy_libraries_stay_out(path: Path) -> None:
    layer = layer_of(path)
    for line, name, at_load in imports(path):
        library = name.split(".")[0]
        where = f"{ids(path)}:{line}: {name}"
        assert layer in TORCH_ROOMS or library not in NEVER, where
        assert not (at_load and library in ONLY_LATE and layer not in LATE_FOLDERS), (
            f"{where}: import it in the function"
        )


def test_the_language_of_the_engine_needs_only_errors() -> None:
    names = {name for _, name, _ in imports(ROOT / f"{LANGUAGE.replace('.', '/')}.py") if name.startswith("proteus")}
    assert all(name.startswith("proteus.errors.") for name in names)


@pytest.mark.parametrize("path", modules(), ids=ids)
def test_nothing_is_imported_by_its_name_in_text(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        assert name not in ("__import__", "importlib.import_module", "import_module"), (
            f"{ids(path)}:{node.lineno}: import it by a statement, where this file's checks see it"
        )


def run_python(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return run.stdout


def test_import_is_light() -> None:
    heavy = NEVER | ONLY_LATE | {"matplotlib", "pytest", "jupyter_core", "asyncio"}
    loaded = run_python("import proteus, sys; print(*sorted({name.split('.')[0] for name in sys.modules}))").split()
    assert "proteus" in loaded
    assert not heavy & set(loaded)


def test_import_order_is_seen() -> None:
    """The check itself finds an import that points the wrong way."""
    lines = list(imports(PACKAGE / "cli" / "simulate.py"))
    assert any(name.startswith("proteus.htae") and not at_load for _, name, at_load in lines)
    assert any(name.startswith("proteus.files") and at_load for _, name, at_load in lines)


#: folders that read what a framework does from its value, and know none by name
NAMELESS = ("costs", "compiler", "htae", "result", "calibration", "verify", "profiling")


@pytest.mark.parametrize("path", [p for p in modules() if layer_of(p) in NAMELESS], ids=ids)
def test_no_framework_is_known_by_name(path: Path) -> None:
    from proteus.frameworks import names

    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings may tell of them
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
            word = node.value.partition(",")[0].partition("@")[0].strip().lower()
            assert word not in (*names(), "megatron"), (
                f"{ids(path)}:{node.lineno}: {node.value!r}; ask the framework's value instead"
            )
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        assert name.lower().replace("_", "-") not in names(), f"{ids(path)}:{getattr(node, 'lineno', 0)}: {name}"
